//! What a found transaction is: its time, process, mode and cost, and how sure the answer is.

use std::fmt;
use std::sync::Arc;

use super::access::Access;
use super::traffic::Traffic;
use crate::model::{DeviceId, NameId};

/// How SQLite makes the transaction atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JournalMode {
    Delete,
    Truncate,
    Persist,
    Wal,
    /// Our own log, `DB-oneflush`.
    Eager,
    /// Our own log, `DB-waldio`.
    Waldio,
    /// Our own log, `DB-maw`, in a rollback mode.
    Maw,
    /// The engine LS-MVBT, which needs no journal.
    Lsmvbt,
    /// No journal was seen: `MEMORY`, `OFF`, or something that the trace does not show.
    Unknown,
}

impl JournalMode {
    const ALL: [JournalMode; 9] = [
        JournalMode::Delete,
        JournalMode::Truncate,
        JournalMode::Persist,
        JournalMode::Wal,
        JournalMode::Eager,
        JournalMode::Waldio,
        JournalMode::Maw,
        JournalMode::Lsmvbt,
        JournalMode::Unknown,
    ];

    /// The one that is displayed so.
    pub fn named(text: &str) -> Option<JournalMode> {
        displayed(&JournalMode::ALL, text)
    }
}

fn displayed<T: Copy + fmt::Display>(all: &[T], text: &str) -> Option<T> {
    all.iter().copied().find(|one| one.to_string() == text)
}

impl fmt::Display for JournalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JournalMode::Delete => "DELETE",
            JournalMode::Truncate => "TRUNCATE",
            JournalMode::Persist => "PERSIST",
            JournalMode::Wal => "WAL",
            JournalMode::Eager => "EAGER",
            JournalMode::Waldio => "WALDIO",
            JournalMode::Maw => "MAW",
            JournalMode::Lsmvbt => "LSMVBT",
            JournalMode::Unknown => "UNKNOWN",
        })
    }
}

/// `PRAGMA synchronous`, as far as it shows. `EXTRA` differs from `FULL` only in the mode `DELETE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Synchronous {
    Full,
    Normal,
    Extra,
    Unknown,
}

impl Synchronous {
    const ALL: [Synchronous; 4] =
        [Synchronous::Full, Synchronous::Normal, Synchronous::Extra, Synchronous::Unknown];

    /// The one that is displayed so.
    pub fn named(text: &str) -> Option<Synchronous> {
        displayed(&Synchronous::ALL, text)
    }
}

impl fmt::Display for Synchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
            Synchronous::Extra => "EXTRA",
            Synchronous::Unknown => "UNKNOWN",
        })
    }
}

/// The landmark by which a database without a name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Landmark {
    /// The header of the database's journal. The journal stays in its place.
    JournalHeader,
    /// The database's own first page. The journal lies elsewhere each time.
    FirstPage,
}

/// Which database: its path, or, where the trace names no files, what lies where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Database {
    Named(Arc<str>),
    Sectors { device: DeviceId, landmark: Landmark, sector: u64 },
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Named(path) => f.write_str(path),
            Database::Sectors { device, landmark, sector } => {
                let what = match landmark {
                    Landmark::JournalHeader => "journal",
                    Landmark::FirstPage => "database",
                };
                write!(f, "{what} at sector {sector} of {}:{}", device.major, device.minor)
            }
        }
    }
}

/// Who wrote the transaction. Both numbers are 0 if only the kernel's write-back was seen to write
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    pub process: u32,
    pub thread: u32,
    pub name: Option<NameId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Committed,
    /// The journal was written. The database was not, or was restored from the journal.
    RolledBack,
}

impl Outcome {
    /// The one that is displayed so.
    pub fn named(text: &str) -> Option<Outcome> {
        displayed(&[Outcome::Committed, Outcome::RolledBack], text)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Committed => "committed",
            Outcome::RolledBack => "rolled back",
        })
    }
}

/// Where the time went. The parts of a rollback mode add up to the latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phases {
    /// Logging, update of the database, reset of the log.
    Rollback { log_ns: u64, db_ns: u64, reset_ns: u64 },
    /// Append to the log, and the part of the transaction that was a checkpoint (0 without one).
    Append { append_ns: u64, checkpoint_ns: u64, checkpoint: Traffic },
}

/// Why the confidence is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Whole,
    Single,
    Neighbours,
    OnePageJournal,
    DeleteOrTruncate,
    NoNames,
    Joint,
    Batch,
    Lock,
    LockAlone,
    Shared,
    Carries,
    Unsynced,
    NoJournal,
    /// Told by another version of this program.
    Other,
}

impl Reason {
    const ALL: [Reason; 15] = [
        Reason::Whole,
        Reason::Single,
        Reason::Neighbours,
        Reason::OnePageJournal,
        Reason::DeleteOrTruncate,
        Reason::NoNames,
        Reason::Joint,
        Reason::Batch,
        Reason::Lock,
        Reason::LockAlone,
        Reason::Shared,
        Reason::Carries,
        Reason::Unsynced,
        Reason::NoJournal,
        Reason::Other,
    ];

    /// The one that is displayed so.
    pub fn named(text: &str) -> Option<Reason> {
        displayed(&Reason::ALL, text)
    }

    /// The device got the bytes of the transaction with another one.
    pub fn is_written_elsewhere(self) -> bool {
        matches!(self, Reason::Lock | Reason::LockAlone | Reason::Shared)
    }

    /// The transaction has the bytes of others, too.
    pub fn has_others_bytes(self) -> bool {
        matches!(self, Reason::Carries | Reason::Batch)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Whole => "every phase was seen, and other transactions of the database agree",
            Reason::Single => "every phase was seen, but of this database only one transaction",
            Reason::Neighbours => {
                "mode or synchronization differ from what its neighbours show; \
                theirs are given"
            }
            Reason::OnePageJournal => {
                "header and body of the journal share a page; told apart by the transactions \
                    around it"
            }
            Reason::DeleteOrTruncate => {
                "DELETE and TRUNCATE write the same data, and the trace \
                shows no more"
            }
            Reason::NoNames => "the trace names no files; told apart by sectors and pattern",
            Reason::Joint => {
                "part of a transaction over several databases, whose reset looks the same in \
                    several modes"
            }
            Reason::Batch => {
                "log that was synchronized only for a checkpoint; may hold several \
                commits"
            }
            Reason::Lock => {
                "nobody synchronized it; told by SQLite's lock and the frames written \
                under it"
            }
            Reason::LockAlone => {
                "told by SQLite's lock alone, as eager writes nothing for it; one that changed \
                    nothing looks the same"
            }
            Reason::Shared => {
                "another thread synchronized it; told by SQLite's lock and the frames written \
                    under it"
            }
            Reason::Carries => {
                "its bytes are also those of commits before it, which nobody had synchronized"
            }
            Reason::Unsynced => "no synchronization was seen; written back by the kernel",
            Reason::NoJournal => "the database was written and synchronized without any journal",
            Reason::Other => "a reason that this version of oneflush does not know",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    /// In 0..=1.
    pub value: f64,
    pub reason: Reason,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// Begin of the first request or of the sync that sent it, by the trace's clock.
    pub begin_ns: u64,
    /// End of the last request, flush or sync.
    pub end_ns: u64,
    pub process: Process,
    pub database: Database,
    /// The other databases of a transaction over several (super-journal).
    pub others: Vec<Database>,
    pub journal_mode: JournalMode,
    pub synchronous: Synchronous,
    pub outcome: Outcome,
    pub traffic: Traffic,
    /// How often the transaction had the device empty its cache. The block layer may join what
    /// several ask for at a time; each is counted.
    pub flushes: u64,
    /// Sync calls on the transaction's files and their folder. Known as far as the trace shows such
    /// calls ([`super::Observed`]).
    pub syncs: u64,
    /// Log segments; more than one where the page cache spilled.
    pub segments: u32,
    pub phases: Phases,
    /// Time within the transaction in which the whole trace was silent for a second or more. The
    /// machine was suspended or idle.
    pub silent_ns: u64,
    pub confidence: Confidence,
    /// The requests in the order of their beginnings, at most [`super::ACCESSES_COUNT_MAX`]. Empty
    /// unless asked for.
    pub accesses: Vec<Access>,
}

impl Transaction {
    pub fn latency_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}
