//! What runs on the disk: SQLite alone or one of Oneflush's strategies, and how it is asked to
//! commit.

use std::fmt;

use oneflush_vfs::StrategyKind;
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::sabotage::Sabotage;
use crate::workload::Workload;

/// SQLite alone. Any other word is a strategy of Oneflush.
pub const SQLITE_ALONE: &str = "sqlite";

/// SQLite on its second B-tree. No strategy: it has neither journal nor WAL.
pub const LSMVBT: &str = "lsmvbt";

pub const DURABILITY_FULL: &str = "durability=full";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Journal {
    Wal,
    Delete,
    Truncate,
    Persist,
    /// One of the three rollback modes. Each history draws it by its seed.
    Rollback,
    /// None: the second B-tree.
    Lsmvbt,
}

impl Journal {
    /// Those that a user may choose.
    pub const ALL: [Journal; 5] =
        [Journal::Wal, Journal::Delete, Journal::Truncate, Journal::Persist, Journal::Rollback];
    pub const OF_ROLLBACK: [Journal; 3] = [Journal::Delete, Journal::Truncate, Journal::Persist];

    /// The journal mode that a strategy is for.
    pub fn of(strategy: &str) -> Journal {
        match strategy {
            LSMVBT => Journal::Lsmvbt,
            _ if strategy == StrategyKind::Maw.name() => Journal::Rollback,
            _ => Journal::Wal,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Journal::Wal => "wal",
            Journal::Delete => "delete",
            Journal::Truncate => "truncate",
            Journal::Persist => "persist",
            Journal::Rollback => "rollback",
            Journal::Lsmvbt => LSMVBT,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    Normal,
    Full,
    Extra,
}

impl Synchronous {
    pub const ALL: [Synchronous; 3] = [Synchronous::Normal, Synchronous::Full, Synchronous::Extra];

    pub fn name(self) -> &'static str {
        match self {
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
            Synchronous::Extra => "extra",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// [`SQLITE_ALONE`], [`LSMVBT`] or a strategy.
    pub strategy: String,
    pub journal: Journal,
    /// Commits at this level and above must survive. Below it the last ones may be lost.
    pub synchronous: Synchronous,
    /// More URI parameters, as in `prealloc=0&durability=full`.
    pub uri: String,
    pub sabotage: Sabotage,
}

impl Setting {
    /// A setting with the least level at which commits are durable in this journal mode.
    pub fn new(strategy: &str, journal: Journal) -> Setting {
        let (uri, sabotage) = (String::new(), Sabotage::None);
        let synchronous = Synchronous::Extra;
        Setting { strategy: String::new(), journal, synchronous, uri, sabotage }.with(strategy)
    }

    /// A setting for a strategy in the journal mode that it is for.
    pub fn of(strategy: &str) -> Setting {
        Setting::new(strategy, Journal::of(strategy))
    }

    /// The same setting with another strategy, and with the level that this one needs.
    pub fn with(&self, strategy: &str) -> Setting {
        let mut setting = Setting { strategy: strategy.to_owned(), ..self.clone() };
        setting.synchronous = match self.journal {
            Journal::Wal => Synchronous::Full,
            Journal::Lsmvbt => Synchronous::Normal,
            _ if setting.absorbs_journal() => Synchronous::Normal,
            _ => Synchronous::Extra,
        };
        setting
    }

    /// The same setting with further parameters.
    pub fn with_uri(&self, parameters: &str) -> Setting {
        let both = [self.uri.as_str(), parameters].into_iter().filter(|part| !part.is_empty());
        Setting { uri: both.collect::<Vec<_>>().join("&"), ..self.clone() }
    }

    /// The second B-tree makes the commits.
    pub fn is_lsmvbt(&self) -> bool {
        self.journal == Journal::Lsmvbt
    }

    /// With the second B-tree a database has another format than with the others, so that nothing
    /// can be switched. Its own workloads have the deaths.
    pub fn workloads(&self) -> Vec<Workload> {
        let mut all = Workload::ALL.to_vec();
        let is_for_other_formats =
            |workload: &Workload| matches!(workload, Workload::Switched | Workload::Deaths);
        all.retain(|workload| !self.is_lsmvbt() || !is_for_other_formats(workload));
        all
    }

    /// Operations may fail in this workload. After a failed sync, SQLite and strategy `plain` leave
    /// to the last close what has to be written again. A process that dies does not close.
    pub fn stands_faults_in(&self, workload: Workload) -> bool {
        let is_plain = self.strategy == StrategyKind::Plain.name();
        workload != Workload::Deaths || (self.is_ours() && !is_plain)
    }

    /// A reader keeps its snapshot, and nobody waits for it.
    pub fn reads_snapshots(&self) -> bool {
        matches!(self.journal, Journal::Wal | Journal::Lsmvbt)
    }

    /// True if commits and checkpoints are not SQLite's.
    pub fn is_ours(&self) -> bool {
        let is_for_wal = ![SQLITE_ALONE, "stock", "maw"].contains(&self.strategy.as_str());
        self.absorbs_journal() || (self.journal == Journal::Wal && is_for_wal)
    }

    /// The rollback journal is absorbed: strategy `maw`, where it is more than SQLite.
    pub fn absorbs_journal(&self) -> bool {
        self.journal != Journal::Wal && self.strategy == StrategyKind::Maw.name()
    }

    /// The log has slots: strategy `waldio`, where it is more than SQLite.
    pub fn has_slots(&self) -> bool {
        self.journal == Journal::Wal && self.strategy == StrategyKind::Waldio.name()
    }

    /// The value of a URI parameter, if it is given.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.uri.split('&').find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
    }

    /// Commits are acknowledged before they are flushed, or never flushed. So a loss of power may
    /// take the last ones, as at NORMAL.
    pub fn acknowledges_early(&self) -> bool {
        let groups = self.parameter("group").is_some_and(|frames| frames != "0");
        self.has_slots() && (groups || self.parameter("sync") == Some("ns"))
    }

    /// A commit at this level must survive.
    pub fn promises(&self, level: Synchronous) -> bool {
        (level >= self.synchronous && !self.acknowledges_early()) || self.promises_all()
    }

    /// Commits must survive at every level, OFF too.
    pub fn promises_all(&self) -> bool {
        self.uri.split('&').any(|parameter| parameter == DURABILITY_FULL)
    }

    /// The URI of a database on a machine, for one of its processes.
    pub fn uri<M: Machine>(&self, machine: &M, process: usize, file: &str) -> String {
        let path = machine.path(process, file);
        let mut uri = match self.strategy.as_str() {
            LSMVBT => format!("file:{path}?vfs={}&engine={LSMVBT}", M::BASE_VFS),
            SQLITE_ALONE => format!("file:{path}?vfs={}", M::BASE_VFS),
            strategy => format!("file:{path}?vfs={}&strategy={strategy}", oneflush_vfs::VFS_NAME),
        };
        if !self.uri.is_empty() {
            uri.push('&');
            uri.push_str(&self.uri);
        }
        uri
    }

    pub fn open<M: Machine>(
        &self,
        machine: &M,
        process: usize,
        file: &str,
    ) -> rusqlite::Result<Connection> {
        Connection::open_with_flags(
            self.uri(machine, process, file),
            OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_URI
                | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.strategy, self.journal.name(), self.synchronous.name())?;
        if !self.uri.is_empty() {
            write!(f, ", {}", self.uri)?;
        }
        if self.sabotage != Sabotage::None {
            write!(f, ", sabotage {}", self.sabotage.name())?;
        }
        Ok(())
    }
}
