//! What history is kept, and the times in it: changed by the transaction that they are about.

use rustc_hash::FxHashSet;

use crate::bytes::push_u48;
use crate::history::{self, DURATION, MARK_BYTES, MARK_MS, Mark, Retain, Settings, VERSIONS};
use crate::search::{Probe, TreeRef};
use crate::work::Work;
use crate::work::catalog::{CATALOG_TREE, MARKS, RETAIN_KEY};
use crate::{Error, PageNo, Result, Version};

/// A new mark takes so many of those with it that are not needed. So they become fewer.
const FORGOTTEN_AT_ONCE: usize = 8;

impl Work {
    /// From this transaction on, so much is kept. What was given up does not come back.
    pub fn set_retain(&mut self, retain: Retain) -> Result<()> {
        if retain == Retain::Versions(0) {
            return Err(Error::Misuse { what: "a history has one version at least" });
        }
        match (history::settings(self)?, retain) {
            (None, Retain::Off) => Ok(()),
            (Some(before), Retain::Off) => {
                let root = before.marks.root;
                self.free_below(&before.marks, root, None, &mut FxHashSet::default())?;
                self.free_page(root)?;
                self.delete(&CATALOG_TREE, Probe::Integer(RETAIN_KEY)).map(drop)
            }
            (None, _) => {
                let marks = TreeRef { id: MARKS, root: PageNo(0), is_record: false };
                let root = self.fresh_draft(&marks, 0)?;
                self.may_have_marks = true;
                self.put_settings(&Settings::of(root, retain, self.version))
            }
            (Some(before), _) => {
                let from = history::kept_from(self)?.unwrap_or(before.from);
                self.put_settings(&Settings { retain, from, ..before })
            }
        }
    }

    /// Gives up what is older than this version. Answers the oldest that is kept.
    pub fn prune(&mut self, up_to: Version) -> Result<Version> {
        let (Some(settings), Some(kept)) = (history::settings(self)?, history::kept_from(self)?)
        else {
            return Err(Error::NoHistory);
        };
        let from = up_to.min(self.version.previous()).max(kept);
        if from > settings.from {
            self.put_settings(&Settings { from, ..settings })?;
        }
        Ok(from)
    }

    fn put_settings(&mut self, settings: &Settings) -> Result<()> {
        let (kind, value) = match settings.retain {
            Retain::Versions(count) => (VERSIONS, count),
            Retain::Duration(kept) => {
                (DURATION, u64::try_from(kept.as_millis()).unwrap_or(u64::MAX))
            }
            Retain::Off => return Err(Error::Misuse { what: "no history has no settings" }),
        };
        let mut payload = vec![kind];
        payload.extend_from_slice(&value.to_le_bytes());
        push_u48(&mut payload, settings.from.0);
        push_u48(&mut payload, settings.marks.root.0);
        self.put_entry(RETAIN_KEY, &payload)
    }

    /// Notes when this transaction is committed, if it is the first of an opening, or the last time
    /// that was noted is long enough ago (H3). Of versions up to `settled` some never were.
    pub fn note_time(&mut self, settled: Version) -> Result<()> {
        if !self.may_have_marks || !self.has_changes() {
            return Ok(());
        }
        let Some(Settings { marks, .. }) = history::settings(self)? else { return Ok(()) };
        let last = history::last_mark(self, &marks)?;
        let mut time_ms = history::milliseconds((self.options.clock)());
        let mut number = 1;
        if let Some(last) = last {
            let all_were = last.version > settled;
            // The clock may have been set back.
            time_ms = time_ms.max(last.time_ms);
            if all_were && time_ms < last.time_ms.saturating_add(MARK_MS) {
                return Ok(());
            }
            let behind = self.version.0.saturating_sub(last.version.0);
            number = last.number + if all_were { behind } else { 1 };
        }
        self.put_mark(&marks, Mark { version: self.version, time_ms, number })?;
        self.forget_marks(&marks)
    }

    fn put_mark(&mut self, marks: &TreeRef, mark: Mark) -> Result<()> {
        let key = mark.version.0 as i64;
        let mut payload = Vec::with_capacity(MARK_BYTES);
        push_u48(&mut payload, mark.time_ms);
        push_u48(&mut payload, mark.number);
        self.insert(marks, Some(key), Probe::Integer(key), &payload).map(drop)
    }

    /// The oldest version that is kept needs the mark that has its time, and none before that.
    fn forget_marks(&mut self, marks: &TreeRef) -> Result<()> {
        let kept = history::kept_from(self)?.unwrap_or(self.version);
        for _ in 0..FORGOTTEN_AT_ONCE {
            match history::marks_from(self, marks, Version(0))? {
                (Some(first), Some(second)) if second.version <= kept => {
                    self.delete(marks, Probe::Integer(first.version.0 as i64))?;
                }
                _ => break,
            }
        }
        Ok(())
    }
}
