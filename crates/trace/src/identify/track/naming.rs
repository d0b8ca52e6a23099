//! A group's name in the machine's table.
//!
//! The file of a group says most. A group of the rollback journal is told by its size and place. A
//! header is one page. It is written in one of two places:
//! - where the journal's first header is (reset);
//! - where the segment begins that was just logged (number of records).
//!
//! One page at the place of the header may also be a whole log, if the pages of the database are
//! small. That is [`Input::Page`], unless the database's mode is known.

use super::{Group, Input, JournalMode, Role, State, Track};

impl Track {
    /// The group's name in the machine's table.
    pub(super) fn input(&self, group: &Group) -> Input {
        match group.role {
            Role::Database if group.synced_ns.is_some() => Input::Db,
            Role::Database => Input::DbUnsynced,
            Role::Wal if self.wal_restarts && group.is_wal_header() => Input::WalHead,
            Role::Wal => Input::Wal,
            Role::EagerLog | Role::MawLog if group.is_commit == Some(false) => Input::Upkeep,
            Role::EagerLog | Role::WaldioLog | Role::MawLog | Role::Lsmvbt => Input::Record,
            _ => self.journal_input(group),
        }
    }

    fn journal_input(&self, group: &Group) -> Input {
        let one_page = group.is_one_page();
        let sector = group.first_sector();
        match (self.state, &self.draft) {
            (State::Logged | State::Counted | State::Spilled, Some(draft)) => {
                // A later segment may begin in the page in which the segment before ended. Its own
                // header is where it begins.
                if one_page && draft.has_header_at(sector) {
                    if group.bytes < draft.log_bytes { Input::Header } else { Input::Page }
                } else if group.holds(draft.header) {
                    Input::Log
                } else {
                    Input::Segment
                }
            }
            (State::UpdatedFull | State::UpdatedNormal, Some(draft))
                if !one_page
                    && group.holds(draft.header)
                    && (draft.segments > 1 && !draft.overwrites_first_log(group)
                        || draft.leaves_first_body(group))
                    && !matches!(self.mode, Some(JournalMode::Delete | JournalMode::Truncate)) =>
            {
                Input::Leftover
            }
            (_, draft) if one_page => {
                let is_header_place = self.header == Some(sector) || group.is_call;
                let log_bytes = draft.as_ref().map_or(u64::MAX, |draft| draft.log_bytes);
                let shares_page = self.shares_page || self.header.is_none();
                match self.mode {
                    _ if is_header_place
                        && group.bytes < log_bytes
                        && (group.is_call || group.bytes <= self.unit_bytes)
                        && !shares_page =>
                    {
                        Input::Header
                    }
                    Some(JournalMode::Persist)
                        if matches!(self.state, State::UpdatedFull | State::UpdatedNormal) =>
                    {
                        Input::Header
                    }
                    Some(JournalMode::Delete | JournalMode::Truncate) => Input::Log,
                    _ => Input::Page,
                }
            }
            _ => Input::Log,
        }
    }
}
