//! What a process holds, by the bytes that it has locked.
//!
//! | file | bytes | lock | who takes it |
//! |---|---|---|---|
//! | database | `0x4000_0000` | PENDING | SQLite: waits for readers to end |
//! | | `0x4000_0001` | RESERVED | SQLite: prepares a write |
//! | | the 510 after it | SHARED, or EXCLUSIVE | SQLite: reads, or writes; in WAL mode: open |
//! | | the last of these, by an open file | in use | Oneflush, with the WAL open |
//! | | `0x4000_0200` | turn to close | Oneflush |
//! | | one from `1 << 48` on | canary | Oneflush, while it has SHARED |
//! | | `1 << 62`, and the next | use, writer | LS-MVBT |
//! | `-shm` | 120, 121, 122 | write, checkpoint, recover | SQLite in WAL mode |
//! | | 123 to 127 | read marks 0 to 4 | a reader, or who changes the mark |
//! | | 128 | mapped | whoever has the index mapped |
//! | | before 120, by an open file | place | LS-MVBT, whose memory has the same name |
//! | `-wal` | `flock` | door | `plain`: next to write |
//! | | record lock of an open file | WAL shown | `plain`: has synced it |
//! | a log | `flock` | log | whoever uses the log |
//! | | byte 0, byte 1 | log shown, frames | the same; with `waldio` who reads frames |
//! | board | `flock` | board | who changes the log now |
//!
//! The bytes are those of `lock_bytes.rs`, and of `ffi/board_file.rs`, `ffi/board_place.rs` and
//! `strategy/plain`.

use serde::Serialize;

use super::files::Kind;
use super::index::{Index, MARKS};
use super::lock_lines::{Class, LockLine};
use crate::lock_bytes::{
    CANARIES, IN_USE, MAPPED, MVBT_USE, MVBT_WRITER, PENDING, RESERVED, SHARED, SLOTS,
    TURN_TO_CLOSE,
};

const WRITE: i64 = SLOTS.start;
const CHECKPOINT: i64 = WRITE + 1;
const RECOVER: i64 = WRITE + 2;
const MARK_0: i64 = WRITE + 3;
/// Of a log.
const FRAMES: i64 = 1;

/// Something that a process holds, or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// Without its folder.
    pub file: String,
    /// As the table at the head has it.
    pub lock: String,
    pub exclusive: bool,
    /// The process waits for it.
    pub waits: bool,
    /// Of a read mark: by how many frames the reader is behind the newest one.
    pub frames_behind: Option<u64>,
    pub says: String,
    /// When `oneflush who --watch` saw it first, in milliseconds of Unix time.
    pub since_ms: Option<u64>,
}

/// The locks of one process on one file.
pub struct Locked<'a> {
    pub kind: Kind,
    pub name: &'a str,
    pub locks: &'a [LockLine],
    /// The process uses the database in WAL mode.
    pub in_wal_mode: bool,
    pub index: Option<&'a Index>,
}

impl Locked<'_> {
    pub fn holds(&self) -> Vec<Hold> {
        let mut all: Vec<Hold> = Vec::new();
        for lock in self.locks {
            for hold in self.of_lock(lock) {
                let is_known = |other: &Hold| {
                    (&other.lock, other.exclusive, other.waits)
                        == (&hold.lock, hold.exclusive, hold.waits)
                };
                if !all.iter().any(is_known) {
                    all.push(hold);
                }
            }
        }
        all
    }

    fn of_lock(&self, lock: &LockLine) -> Vec<Hold> {
        let mut found = match (self.kind, lock.class) {
            (Kind::Database, Class::OpenFile) if lock.is_at(IN_USE) => {
                one("in use", "has the WAL open (seatbelt)")
            }
            (Kind::Database, Class::Posix | Class::OpenFile) if lock.begins_in(CANARIES) => {
                one("canary", "looks whether its locks are cancelled (seatbelt)")
            }
            (Kind::Database, Class::OpenFile) if lock.has(TURN_TO_CLOSE) => {
                vec![("turn to close".to_owned(), "closes the database".to_owned(), None)]
            }
            (Kind::Database, Class::OpenFile) => of_mvbt(lock),
            (Kind::Database, Class::Posix) => self.of_database(lock),
            (Kind::Index, Class::OpenFile) if lock.last < SLOTS.start as u64 => {
                one("place", "has its place in the memory that users share (LS-MVBT)")
            }
            (Kind::Index, Class::Posix | Class::OpenFile) => self.of_index(lock),
            (Kind::Wal, Class::Flock) => one("door", "is next to write (plain)"),
            (Kind::Wal, Class::OpenFile) => one("WAL shown", "has synced the WAL (plain)"),
            (Kind::Board, Class::Flock) => one("board", "changes the log now"),
            (Kind::EagerLog | Kind::WaldioLog | Kind::MawLog, class) => self.of_log(lock, class),
            _ => Vec::new(),
        };
        if found.is_empty() {
            let bytes = match (lock.first, lock.last) {
                (0, u64::MAX) => "all bytes".to_owned(),
                (first, last) if first == last => format!("byte {first}"),
                (first, u64::MAX) => format!("bytes from {first}"),
                (first, last) => format!("bytes {first} to {last}"),
            };
            let says = format!("locks {bytes} of {}, as SQLite does not", self.name);
            found.push(("other".to_owned(), says, None));
        }
        let hold = |(what, says, frames_behind): Found| Hold {
            file: self.name.to_owned(),
            lock: what,
            exclusive: lock.exclusive,
            waits: lock.waits,
            frames_behind,
            says: if lock.waits { format!("waits for a lock: {says}") } else { says },
            since_ms: None,
        };
        found.into_iter().map(hold).collect()
    }

    fn of_database(&self, lock: &LockLine) -> Vec<Found> {
        let mut found = Vec::new();
        // SQLite sets an exclusive lock on all of these bytes, and the kernel joins the ranges.
        if lock.has(PENDING) {
            found.extend(one("PENDING", "waits for readers to end, and lets none begin (PENDING)"));
        }
        if lock.has(RESERVED) {
            found.extend(one("RESERVED", "writes, while others may read (RESERVED)"));
        }
        if lock.has(SHARED.start) {
            found.extend(match (lock.exclusive, self.in_wal_mode) {
                (true, _) => one("EXCLUSIVE", "keeps everybody out (EXCLUSIVE)"),
                (false, true) => one("SHARED", "open in WAL mode"),
                (false, false) => one("SHARED", "reads (SHARED)"),
            });
        }
        found
    }

    fn of_index(&self, lock: &LockLine) -> Vec<Found> {
        let mut found = Vec::new();
        if lock.has(WRITE) {
            found.extend(one("write", "writes (the WAL's write lock)"));
        }
        if lock.has(CHECKPOINT) {
            found.extend(one("checkpoint", "runs a checkpoint"));
        }
        if lock.has(RECOVER) {
            found.extend(one("recover", "recovers the WAL index"));
        }
        for mark in (0..MARKS).filter(|mark| lock.has(MARK_0 + *mark as i64)) {
            let behind = self.index.and_then(|index| index.frames_behind(mark));
            let behind = behind.filter(|_| !lock.exclusive);
            let says = match (lock.exclusive, mark, behind) {
                (true, ..) => format!("changes read mark {mark}"),
                (false, 0, _) => "reads the database file alone (read mark 0)".to_owned(),
                (false, _, None) => format!("reads (read mark {mark})"),
                (false, _, Some(0)) => format!("reads the newest frame (read mark {mark})"),
                (false, _, Some(1)) => {
                    format!("reads, 1 frame behind the newest (read mark {mark})")
                }
                (false, _, Some(frames)) => {
                    format!("reads, {frames} frames behind the newest (read mark {mark})")
                }
            };
            found.push((format!("read mark {mark}"), says, behind));
        }
        if lock.has(MAPPED) {
            found.extend(match lock.exclusive {
                true => one("mapped", "makes the WAL index anew"),
                false => one("mapped", "open in WAL mode"),
            });
        }
        found
    }

    fn of_log(&self, lock: &LockLine, class: Class) -> Vec<Found> {
        let strategy = self.kind.strategy().unwrap_or_default();
        match class {
            Class::Flock if lock.exclusive => {
                vec![("log".to_owned(), format!("has {strategy}'s log alone"), None)]
            }
            Class::Flock => vec![("log".to_owned(), format!("uses {strategy}'s log"), None)],
            Class::OpenFile if lock.has(FRAMES) && lock.exclusive => {
                one("frames", "holds frames in memory")
            }
            Class::OpenFile if lock.has(FRAMES) => one("frames", "may read frames"),
            Class::OpenFile => {
                vec![("log shown".to_owned(), format!("uses {strategy}'s log"), None)]
            }
            Class::Posix => Vec::new(),
        }
    }
}

fn of_mvbt(lock: &LockLine) -> Vec<Found> {
    let mut found = Vec::new();
    if lock.has(MVBT_USE) {
        found.extend(match lock.exclusive {
            true => one("use", "opens or closes the database (LS-MVBT)"),
            false => one("use", "uses the database (LS-MVBT)"),
        });
    }
    if lock.has(MVBT_WRITER) {
        found.extend(one("writer", "writes (LS-MVBT)"));
    }
    found
}

/// Name, words, frames behind.
type Found = (String, String, Option<u64>);

fn one(lock: &str, says: &str) -> Vec<Found> {
    vec![(lock.to_owned(), says.to_owned(), None)]
}

impl Kind {
    /// The strategy that has such a file for its log.
    fn strategy(self) -> Option<&'static str> {
        match self {
            Kind::EagerLog => Some("eager"),
            Kind::WaldioLog => Some("waldio"),
            Kind::MawLog => Some("maw"),
            _ => None,
        }
    }
}

/// The strategy of a process that has these locks on a file. None: they do not tell.
pub fn strategy_by(kind: Kind, locks: &[LockLine]) -> Option<&'static str> {
    let is_of_open_file = |lock: &LockLine| lock.class != Class::Posix;
    if kind == Kind::Database {
        let is_mvbt = |lock: &LockLine| lock.class == Class::OpenFile && lock.has(MVBT_USE);
        return locks.iter().any(is_mvbt).then_some("lsmvbt");
    }
    let found = if kind == Kind::Wal { Some("plain") } else { kind.strategy() };
    found.filter(|_| locks.iter().any(is_of_open_file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::lock_lines::lock_lines;

    fn held(kind: Kind, in_wal_mode: bool, list: &str) -> Vec<(String, String)> {
        let locks = lock_lines(list);
        let locked = Locked { kind, name: "a.db", locks: &locks, in_wal_mode, index: None };
        locked.holds().into_iter().map(|hold| (hold.lock, hold.says)).collect()
    }

    fn names(kind: Kind, list: &str) -> Vec<String> {
        held(kind, false, list).into_iter().map(|(lock, _)| lock).collect()
    }

    #[test]
    fn locks_on_the_database_are_the_levels_of_sqlite() {
        let line = |kind: &str, first: u64, last: u64| {
            format!("1: POSIX  ADVISORY  {kind} 7 fe:00:9 {first} {last}\n")
        };
        let shared = line("READ", 1_073_741_826, 1_073_742_335);
        assert_eq!(names(Kind::Database, &shared), ["SHARED"]);
        let reserved = shared.clone() + &line("WRITE", 1_073_741_825, 1_073_741_825);
        assert_eq!(names(Kind::Database, &reserved), ["SHARED", "RESERVED"]);
        let exclusive = line("WRITE", 1_073_741_824, 1_073_742_335);
        assert_eq!(names(Kind::Database, &exclusive), ["PENDING", "RESERVED", "EXCLUSIVE"]);
        assert_eq!(held(Kind::Database, true, &shared)[0].1, "open in WAL mode");
        let turn = "1: OFDLCK ADVISORY  WRITE -1 fe:00:9 1073742336 1073742336";
        assert_eq!(names(Kind::Database, turn), ["turn to close"]);
        let (first, last) = (1_u64 << 62, (1_u64 << 62) + 1);
        let mvbt = |last: u64| format!("1: OFDLCK ADVISORY  WRITE -1 fe:00:9 {first} {last}");
        assert_eq!(names(Kind::Database, &mvbt(last)), ["use", "writer"]);
        assert_eq!(strategy_by(Kind::Database, &lock_lines(&mvbt(first))), Some("lsmvbt"));
        let other = held(Kind::Database, false, &line("WRITE", 0, 0));
        assert_eq!(other[0].1, "locks byte 0 of a.db, as SQLite does not");
    }

    #[test]
    fn joined_bytes_of_the_index_are_several_locks() {
        let list = "1: POSIX  ADVISORY  READ 7 fe:00:9 123 125\n\
            2: -> POSIX  ADVISORY  WRITE 7 fe:00:9 120 120\n\
            3: POSIX  ADVISORY  READ 7 fe:00:9 128 128\n";
        let found = held(Kind::Index, true, list);
        let locks: Vec<&str> = found.iter().map(|(lock, _)| lock.as_str()).collect();
        assert_eq!(locks, ["read mark 0", "read mark 1", "read mark 2", "write", "mapped"]);
        assert_eq!(found[3].1, "waits for a lock: writes (the WAL's write lock)");
    }

    #[test]
    fn locks_of_open_files_tell_the_strategy() {
        let list = "1: FLOCK  ADVISORY  READ 7 fe:00:9 0 EOF\n\
            2: OFDLCK ADVISORY  READ -1 fe:00:9 0 0\n3: OFDLCK ADVISORY  WRITE -1 fe:00:9 1 1\n";
        assert_eq!(names(Kind::EagerLog, list), ["log", "log shown", "frames"]);
        for (kind, strategy) in [
            (Kind::EagerLog, Some("eager")),
            (Kind::WaldioLog, Some("waldio")),
            (Kind::MawLog, Some("maw")),
            (Kind::Wal, Some("plain")),
            (Kind::Database, None),
        ] {
            assert_eq!(strategy_by(kind, &lock_lines(list)), strategy);
            assert_eq!(strategy_by(kind, &[]), None);
        }
    }
}
