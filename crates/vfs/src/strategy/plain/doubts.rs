//! Starts that SQLite makes without a word, and that lose or mix up data.
//!
//! | what lies there | SQLite alone | here |
//! |---|---|---|
//! | a WAL, and a file of another time ([`ChangeCounters`]) | takes both | the same, and says so |
//! | a WAL with frames, and an empty database file | deletes the WAL | saves it, and says so |

use super::Plain;
use crate::engine::{ORPHANS, orphan_path};
use crate::names::wal_path;
use crate::port::{Below, Deletion};
use crate::sync::lock;
use crate::wal_file::{ChangeCounters, frames_to_recover};

impl Plain {
    /// SQLite recovers this WAL.
    #[cold]
    pub(super) fn doubt_wal(&self, wal: &dyn Below) {
        if !self.options.has_seatbelt() {
            return;
        }
        let main = lock(&self.main);
        let counters = main.as_deref().zip(frames_to_recover(wal));
        let counters = counters.and_then(|(main, found)| ChangeCounters::of(main, wal, found));
        if let Some(ChangeCounters { file, first, last }) =
            counters.filter(|counters| !counters.are_of_one_time())
        {
            self.store().files.warn(&format!(
                "oneflush: {path}: the WAL beside it is of another time: change counter {file}, in \
                    the WAL {first} to {last}. SQLite takes both for one database; run PRAGMA \
                    integrity_check [OF-148]",
                path = self.store().path
            ));
        }
    }

    /// SQLite deletes the WAL of an empty database file. None: that is as it should be.
    pub(super) fn save_wal_of_nothing(&self) -> Option<Deletion> {
        let is_empty = lock(&self.main).as_deref().is_some_and(|main| main.size_bytes() == Ok(0));
        let (files, wal) = (&self.store().files, wal_path(&self.store().path));
        if !self.options.has_seatbelt() || !is_empty || files.exists(&wal) != Ok(true) {
            return None;
        }
        let saved = ORPHANS
            .map(|number| orphan_path(&self.store().path, number))
            .filter(|orphan| files.is_there(orphan) == Ok(false))
            .map(|orphan| wal_path(&orphan))
            .find(|path| files.is_there(path) == Ok(false))?;
        files.rename(&wal, &saved).ok()?;
        files.warn(&format!(
            "oneflush: {path}: an empty file beside a WAL with commits. SQLite would delete the \
                WAL; it is {saved} now. Put the database back beside it [OF-149]",
            path = self.store().path
        ));
        Some(Deletion::Renamed)
    }
}
