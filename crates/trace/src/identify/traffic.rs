//! Bytes and requests, by what they were written for.
//!
//! The classes of the paper (Table 4) are the database file, SQLite's own journal, and the journal
//! of the file system. One class is added: other metadata of the file system. A request is counted
//! once, whatever number of trace events tell its life.

use std::ops::AddAssign;

/// What a byte on the device was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    Db,
    Journal,
    FsJournal,
    Metadata,
}

/// `requests`: what the device was sent, after merging and splitting, as far as the trace shows
/// that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub bytes: u64,
    pub requests: u64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        self.bytes += other.bytes;
        self.requests += other.requests;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub db: Amount,
    pub journal: Amount,
    pub fs_journal: Amount,
    pub metadata: Amount,
}

impl Traffic {
    pub fn class(&mut self, class: Class) -> &mut Amount {
        match class {
            Class::Db => &mut self.db,
            Class::Journal => &mut self.journal,
            Class::FsJournal => &mut self.fs_journal,
            Class::Metadata => &mut self.metadata,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.db.bytes + self.journal.bytes + self.fs_journal.bytes + self.metadata.bytes
    }

    pub fn requests(&self) -> u64 {
        self.db.requests + self.journal.requests + self.fs_journal.requests + self.metadata.requests
    }

    /// Share of journaling in the bytes, of SQLite or of the file system; 0 where there are no
    /// bytes.
    pub fn journaling_share(&self) -> f64 {
        let bytes = self.bytes();
        if bytes == 0 {
            0.0
        } else {
            (self.journal.bytes + self.fs_journal.bytes) as f64 / bytes as f64
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        self.db += other.db;
        self.journal += other.journal;
        self.fs_journal += other.fs_journal;
        self.metadata += other.metadata;
    }
}
