//! Transactions over several databases: one record commits all of them (rule 3 of `maw`).
//!
//! The record is in the log of one database, the *coordinator*. Before that, the log of each other
//! one gets a *link* to the coordinator's log, durably. So a recovery of any of them finds the
//! record, and finds it whole or not at all. The link is made once. The next transactions over the
//! same databases are one record and one flush each.
//!
//! | step | what survives a crash after it |
//! |---|---|
//! | 1. each other database that is not linked yet is synced, a record *announces* it | nothing |
//! | 2. the log of each of these gets the link | nothing |
//! | 3. `Busy` is set on each board, new pages are written behind the ends of the files | nothing |
//! | 4. the record is appended and flushed | the transaction |
//! | 5. the pages are written in place, `Busy` is cleared | the transaction |
//!
//! An announcement is a record without commits that names the other databases. Without it a crash
//! between two steps would leave links that the coordinator's log does not know of. The log could
//! go, and the linked database would miss it.
//!
//! SQLite has all the databases locked exclusively.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. While a database is linked, its own log has no commit behind the link, and its commits are
//!    those of the other log behind the link's LSN.
//! 2. A coordinator has its commits in its own log.
//! 3. An epoch with commits of other databases ends only when each of those has *left*: the
//!    database file has everything and is synced, and its own log says that it is linked no more.
//!    Or it was closed. Where that cannot be said of one, the log itself is kept ([`linked`]).
//! 4. A linked database leaves before it commits alone.
//! 5. A log that a link names has a record behind the link's LSN, or at it, that names the linked
//!    database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflush_blocklog::{Log, Uuid};

use super::in_place::{grow_file, header_for_the_log, write_in_place};
use super::linked::{self, ByVfs, Coordinator, Follower, Linked, Need, settled};
use super::log_lock::{must_be_whole, under_lock};
use super::open_log::{OpenLog, Place};
use super::outcome::Outcome;
use super::overlay::Batch;
use super::record::Link;
use super::replay::Replayed;
use super::shared::{MawLog, State, StateGuard};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::port::Below;
use crate::strategy::board::Board;
use crate::strategy::log_files::{LogFile, LogFiles};
use crate::strategy::log_life::{AttachError, KeptLog, LogLife};

/// How often a commit asks another database to leave the log.
const LEAVE_POLL: Duration = Duration::from_millis(2);

/// One database of a transaction over several. `batch` is `None` if nothing of it was changed.
pub struct Part<'a> {
    pub log: &'a Arc<MawLog>,
    pub main: &'a dyn Below,
    pub batch: Option<Batch<'a>>,
    pub options: &'a Options,
}

/// Commits all parts by one record. [`Outcome::Declined`]: nothing was written.
pub fn commit(parts: &[Part<'_>]) -> Result<Outcome, Error> {
    let mut headers = Vec::new();
    for part in parts {
        let header = match &part.batch {
            Some(batch) => header_for_the_log(part.main, batch)?,
            None => None,
        };
        if part.batch.is_some() && header.is_none() {
            return Ok(Outcome::Declined);
        }
        headers.push(header);
    }
    let mut states = Vec::new();
    for (part, header) in parts.iter().zip(headers) {
        part.log.is_own()?;
        let mut state = part.log.state();
        if !part.log.is_open(&mut state, part.main, part.options)? {
            return Ok(Outcome::Declined);
        }
        if let Some(header) = header {
            part.log.make_whole(&mut state, part.main)?;
            let State { open, board, .. } = &mut *state;
            if let Some(log) = open {
                part.log.must_be_as_left(board, log, &header, part.options)?;
            }
        }
        states.push(state);
    }
    let at = coordinator(&mut states)?;
    let uuids: Vec<Uuid> = states.iter().filter_map(|state| state.uuid()).collect();
    let mut ends_epoch = prepare_coordinator(&parts[at], &mut states[at], &uuids)?;
    // A database that is linked to another one of these goes first. Then that one's log can begin
    // an epoch.
    let mut members: Vec<usize> = (0..parts.len()).filter(|of| *of != at).collect();
    members.sort_by_key(|&of| states[of].board.linked_behind().is_none());
    let mut unlinked = Vec::new();
    for of in members {
        let (coordinator, member) = two(&mut states, at, of);
        match prepare_member(&parts[of], member, parts[at].log, coordinator, &uuids, ends_epoch)? {
            Member::Linked => {}
            Member::Ready => unlinked.push(of),
            Member::Needed => return Ok(Outcome::Declined),
        }
    }
    if !unlinked.is_empty() {
        if announce(parts, &mut states, at, &unlinked, ends_epoch)? == Outcome::Declined {
            return Ok(Outcome::Declined);
        }
        ends_epoch = false;
    }
    for of in unlinked {
        let (coordinator, member) = two(&mut states, at, of);
        link(&parts[of], member, &parts[at], coordinator)?;
    }
    append(parts, &mut states, at, ends_epoch)
}

/// The database whose log gets the record. It is one that another of them is linked to, or the
/// last. SQLite closes databases in order, so the last one is not closed before the others.
fn coordinator(states: &mut [StateGuard<'_>]) -> Result<usize, Error> {
    let uuids: Vec<Option<Uuid>> = states.iter().map(|state| state.uuid()).collect();
    for state in states.iter_mut() {
        if let Some(link) = state.link()?
            && let Some(at) = uuids.iter().position(|uuid| *uuid == Some(link.uuid))
        {
            return Ok(at);
        }
    }
    Ok(states.len() - 1)
}

/// Two different elements.
fn two<'a, 's>(
    states: &'a mut [StateGuard<'s>],
    one: usize,
    other: usize,
) -> (&'a mut State, &'a mut State) {
    debug_assert_ne!(one, other, "a coordinator is not linked to itself");
    let (low, high) = states.split_at_mut(one.max(other));
    let (low, high) = (&mut *low[one.min(other)], &mut *high[0]);
    if one < other { (low, high) } else { (high, low) }
}

/// Brings the coordinator's commits into its own log (invariant 2). True: the record begins an
/// epoch, and no other database needs the one before.
fn prepare_coordinator(part: &Part<'_>, state: &mut State, uuids: &[Uuid]) -> Result<bool, Error> {
    let State { open, board, .. } = state;
    let Some(log) = open else { return Err(Error::Below(Code::BUSY)) };
    must_be_whole(board)?;
    log.follow(board);
    if board.linked_behind().is_some() {
        under_lock(board, || part.log.leave(log, board, part.main))?;
        return Ok(false);
    }
    let ends_epoch = log.is_long(board) || !log.has_begun();
    // Those of this transaction are synced and linked anew.
    Ok(ends_epoch && part.log.may_others_leave(log, board, uuids)?)
}

/// A database that is to be linked to the coordinator's log.
enum Member {
    Linked,
    Ready,
    /// Its own log has commits of a database that was not found.
    Needed,
}

/// Makes a database ready for a link to the coordinator's log.
fn prepare_member(
    part: &Part<'_>,
    state: &mut State,
    of: &MawLog,
    coordinator: &State,
    uuids: &[Uuid],
    ends_epoch: bool,
) -> Result<Member, Error> {
    // Both may have been moved together since. Then the link and the record get the new paths.
    let is_linked = state
        .link()?
        .is_some_and(|link| Some(link.uuid) == coordinator.uuid() && link.database == of.path());
    let State { open, board, .. } = state;
    let Some(log) = open else { return Err(Error::Below(Code::BUSY)) };
    must_be_whole(board)?;
    if is_linked && !ends_epoch {
        return Ok(Member::Linked);
    }
    log.follow(board);
    if !part.log.let_others_leave(log, board, uuids, Duration::ZERO)?.is_empty() {
        return Ok(Member::Needed);
    }
    part.log.sync_file(board, part.main)?;
    Ok(Member::Ready)
}

/// Names the databases that are about to be linked in the coordinator's log (invariant 5).
fn announce(
    parts: &[Part<'_>],
    states: &mut [StateGuard<'_>],
    at: usize,
    unlinked: &[usize],
    ends_epoch: bool,
) -> Result<Outcome, Error> {
    let own = {
        let State { open, board, .. } = &mut *states[at];
        let Some(log) = open else { return Err(Error::Below(Code::BUSY)) };
        if ends_epoch {
            parts[at].log.sync(log, board, parts[at].main)?;
        }
        log.announcement(parts[at].main)?
    };
    // Its own name tells a later reader whether the log is a copy ([`linked`]).
    let named = [at].into_iter().chain(unlinked.iter().copied());
    let mut others = Vec::new();
    for of in named {
        let Some(log) = &states[of].open else { return Err(Error::Below(Code::BUSY)) };
        let group = log.group(parts[of].main, None, log.place())?;
        others.push((log.log.uuid(), parts[of].log.path(), group));
    }
    states[at].board.set_busy(true);
    let others = others.iter().map(|(uuid, path, group)| (*uuid, *path, group.as_slice()));
    let appended = append_record(parts[at].log, &mut states[at], &own, others);
    states[at].board.set_busy(false);
    KillPoint::Announced.reached();
    Ok(appended?)
}

/// Links a database to the coordinator's log, which has announced it.
fn link(
    part: &Part<'_>,
    state: &mut State,
    of: &Part<'_>,
    coordinator: &State,
) -> Result<(), Error> {
    let Some(other) = &coordinator.open else { return Err(Error::Below(Code::BUSY)) };
    let State { open, board, .. } = state;
    let Some(log) = open else { return Err(Error::Below(Code::BUSY)) };
    let link =
        Link { uuid: other.log.uuid(), behind: other.head.lsn, database: of.log.path().to_owned() };
    under_lock(board, || {
        board.set_busy(true);
        if !mutant::is(Mutant::LinkForgotten) {
            let linked = log.append_link(part.main, &link);
            linked.inspect_err(|&code| part.log.log_failed(board, log, code))?;
        }
        log.forget();
        log.show(board);
        board.set_linked(Some(link.behind));
        board.set_busy(false);
        Ok::<(), Error>(())
    })?;
    part.log.follow(of.log, &link);
    KillPoint::Linked.reached();
    Ok(())
}

/// Where the pages of a part go.
fn place_of(part: &State, coordinator: Place) -> Place {
    let behind = part.board.linked_behind().unwrap_or(coordinator.2);
    (coordinator.0, coordinator.1, behind)
}

fn append(
    parts: &[Part<'_>],
    states: &mut [StateGuard<'_>],
    at: usize,
    ends_epoch: bool,
) -> Result<Outcome, Error> {
    let place = {
        let State { open, board, .. } = &mut *states[at];
        let Some(log) = open else { return Err(Error::Below(Code::BUSY)) };
        if ends_epoch {
            parts[at].log.sync(log, board, parts[at].main)?;
        }
        log.place()
    };
    let mut groups = Vec::new();
    for (part, state) in parts.iter().zip(states.iter()) {
        let Some(log) = &state.open else { return Err(Error::Below(Code::BUSY)) };
        groups.push(log.group(part.main, part.batch.as_ref(), place_of(state, place))?);
    }
    states.iter().for_each(|state| state.board.set_busy(true));
    KillPoint::Busy.reached();
    if let Err(error) = grow(parts) {
        states.iter().for_each(|state| state.board.set_busy(false));
        return Err(error);
    }
    let uuids: Vec<Option<Uuid>> = states.iter().map(|state| state.uuid()).collect();
    let others = parts.iter().zip(&groups).zip(uuids).enumerate();
    let others = others
        .filter(|(of, _)| *of != at)
        .filter_map(|(_, ((part, group), uuid))| Some((uuid?, part.log.path(), group.as_slice())));
    let appended = append_record(parts[at].log, &mut states[at], &groups[at], others);
    if appended != Ok(Outcome::Committed) {
        if let Some(code) = states[at].board.failure() {
            // Nobody knows whether the log has the record. All of them ask it when they are opened
            // again, so none may be closed cleanly before.
            let sure = states.iter().filter(|state| state.board.failure().is_none());
            sure.for_each(|state| state.board.fail(code, None));
        }
        undo_growth(parts);
        states.iter().for_each(|state| state.board.set_busy(false));
        return Ok(appended?);
    }
    KillPoint::Durable.reached();
    let mut outcome = Outcome::Committed;
    let mut in_place = Vec::new();
    for (part, state) in parts.iter().zip(states.iter_mut()) {
        let own_place = place_of(state, place);
        let State { open, board, .. } = &mut **state;
        if let (Some(log), Some(batch)) = (open, &part.batch) {
            log.learn(own_place, batch);
            if let Err(code) = write_in_place(log, board, part.main, batch) {
                outcome = Outcome::InLogOnly(code);
                continue;
            }
            KillPoint::InPlace.reached();
        }
        in_place.push(board.clone());
    }
    // All at once: after a panic between two of them SQLite would roll the first one back.
    in_place.iter().for_each(|board| board.set_busy(false));
    let State { open, board, .. } = &mut *states[at];
    if let Some(log) = open {
        parts[at].log.note_commit(log, board, parts[at].options);
    }
    Ok(outcome)
}

/// Appends the record under the lock of the coordinator's board.
fn append_record<'a>(
    of: &MawLog,
    state: &mut State,
    own: &[u8],
    others: impl Iterator<Item = (Uuid, &'a str, &'a [u8])>,
) -> Result<Outcome, Code> {
    let State { open, board, .. } = state;
    let Some(log) = open else { return Err(Code::BUSY) };
    under_lock(board, || {
        board.note_others(log.place().1);
        let appended = log.append_together(own, others);
        match appended {
            Ok(_) => log.show(board),
            Err(code) => of.log_failed(board, log, code),
        }
        appended
    })
}

fn grow(parts: &[Part<'_>]) -> Result<(), Error> {
    for part in parts {
        if let Some(batch) = &part.batch
            && let Err(error) = grow_file(part.main, batch)
        {
            undo_growth(parts);
            return Err(error);
        }
    }
    Ok(())
}

/// What was written behind an end is no part of a database. It only takes room.
fn undo_growth(parts: &[Part<'_>]) {
    for part in parts {
        if let Some(batch) = &part.batch
            && batch.size_bytes > batch.size_bytes_before
        {
            let _ = part.main.truncate(batch.size_bytes_before);
        }
    }
}

/// Has that database leave the log. False: it was in use all the time.
fn leaves(database: &str, files: &Arc<dyn LogFiles>, until: Instant) -> Result<bool, String> {
    loop {
        let left = files.leave_log(database);
        if left != Ok(false) || Instant::now() >= until {
            return left;
        }
        std::thread::sleep(LEAVE_POLL);
    }
}

impl MawLog {
    /// A linked database goes back to its own log (invariant 4). The next record begins an epoch
    /// there. The caller has a shared lock on the database at least, so nobody commits.
    pub fn leave(&self, log: &mut OpenLog, board: &Board, main: &dyn Below) -> Result<(), Error> {
        self.sync_file(board, main)?;
        let link = board.linked_behind();
        board.set_busy(true);
        log.end(main).inspect_err(|&code| self.log_failed(board, log, code))?;
        log.show(board);
        board.set_linked(None);
        board.set_busy(false);
        self.has_own_commits(log.log.uuid(), link);
        Ok(())
    }

    /// This connection was opened to leave the log that its database is linked to.
    pub fn leave_now(&self, main: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        let State { open, board, .. } = &mut *state;
        let Some(log) = open else { return Ok(()) };
        under_lock(board, || {
            log.follow(board);
            match (board.failure(), board.linked_behind()) {
                (Some(code), _) => Err(code.into()),
                (None, Some(_)) => self.leave(log, board, main),
                (None, None) => Ok(()),
            }
        })
    }

    /// Has all other databases leave whose commits this epoch has (invariant 3), but for those that
    /// the caller sees to. Answers those that cannot: they were not found, or their own log is
    /// damaged. `SQLITE_BUSY`: one of them has been in use for the whole `patience`.
    pub fn let_others_leave(
        &self,
        log: &mut OpenLog,
        board: &Board,
        but: &[Uuid],
        patience: Duration,
    ) -> Result<Vec<String>, Error> {
        if !log.has_begun() || !board.has_others(log.head.epoch) {
            return Ok(Vec::new());
        }
        let files = &self.life().files;
        let coordinator = Coordinator { database: self.path(), log: &log.log };
        let refuse = |error: &AttachError| self.life().refuse(error);
        let names = coordinator.names().map_err(|error| refuse(&error.into()))?;
        let until = Instant::now() + patience;
        let mut missing = Vec::new();
        for named in names.others.iter().filter(|named| !but.contains(&named.uuid)) {
            if self.has_left(named, log.log.uuid()) {
                continue;
            }
            match coordinator.need_beside_writers(&names.own, named, files)? {
                Need::Linked(database) => match leaves(&database, files, until) {
                    Ok(true) => {}
                    Ok(false) => return Err(self.cannot_leave(&database)),
                    Err(why) => missing.push(format!("{} ({why})", named.path)),
                },
                // The record that ended the link may have failed to become durable.
                Need::Settled(Some(database)) => {
                    let life = LogLife::<OpenLog>::new(&database, Arc::clone(files));
                    settled(&life, named.uuid, || Ok(())).map_err(|error| life.refuse(&error))?;
                }
                Need::Settled(None) => {}
                Need::Unread(_) | Need::Unknown => missing.push(named.path.clone()),
            }
        }
        let are_all = names.others.iter().all(|named| !but.contains(&named.uuid));
        if are_all && missing.is_empty() {
            board.note_others(oneflush_blocklog::Epoch(0));
        }
        Ok(missing)
    }

    /// The same where the epoch may as well go on: false if one of them cannot leave. A log that is
    /// long is no reason to fail a commit; the next one asks again.
    pub fn may_others_leave(
        &self,
        log: &mut OpenLog,
        board: &Board,
        but: &[Uuid],
    ) -> Result<bool, Error> {
        match self.let_others_leave(log, board, but, Duration::ZERO) {
            Ok(missing) => Ok(missing.is_empty()),
            Err(Error::Below(Code::BUSY)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn cannot_leave(&self, database: &str) -> Error {
        self.life().files.warn(&format!(
            "oneflush: {}: its log has commits of {database}, which is in use and cannot leave it \
                now [OF-225]",
            self.path()
        ));
        Error::Below(Code::BUSY)
    }

    /// The log that a link names.
    pub fn linked_log(&self, link: &Link, uuid: Uuid) -> Result<Linked, AttachError> {
        let follower = Follower { database: self.path(), uuid };
        linked::find(link, &follower, &ByVfs(&*self.life().files))
    }

    /// Runs `act` with the log that a link names, while nobody appends there.
    pub fn with_linked(
        &self,
        link: &Link,
        uuid: Uuid,
        act: &mut dyn FnMut(&Log<LogFile>) -> Result<Replayed, AttachError>,
    ) -> Result<Replayed, AttachError> {
        let Linked { database, path, log, may_be_touched } = self.linked_log(link, uuid)?;
        let life = LogLife::<OpenLog>::new(&database, Arc::clone(&self.life().files));
        // Invariant 1 of [`linked`]. A log that was set aside has no board.
        if !may_be_touched {
            return act(&log);
        }
        if path != life.log_path() {
            let done = act(&log);
            self.note_aside(database, path);
            return done;
        }
        settled(&life, log.uuid(), || act(&log))
    }
}
