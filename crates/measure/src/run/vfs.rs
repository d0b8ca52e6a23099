//! What our VFS says that it saw.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::written::Written;

/// What `PRAGMA oneflush_stats` said, once for each of a connection's databases.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    calls: Calls,
    raw: BTreeMap<String, Value>,
}

/// What the VFS of a process saw between two snapshots.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    pub calls: Calls,
    pub stats: Vec<RawStats>,
}

/// The `PRAGMA oneflush_stats` of one database, unchanged. Its counts begin when the process first
/// opened the database. What a strategy counts there is in the report without code for it here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RawStats {
    /// None where the database was opened only later.
    pub at_begin: Option<Value>,
    pub at_end: Value,
}

/// What SQLite asked the VFS of this process for, without temporary files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    pub writes: u64,
    pub bytes: u64,
    pub syncs: u64,
}

/// The part of `PRAGMA oneflush_stats` that is needed here.
#[derive(Deserialize)]
struct Stats {
    files: BTreeMap<String, FileStats>,
}

#[derive(Deserialize)]
struct FileStats {
    writes: u64,
    write_bytes: u64,
    syncs: u64,
}

impl Snapshot {
    /// Since the databases were opened first in this process.
    pub fn of(connection: &Connection, schemas: &[String]) -> Result<Snapshot, rusqlite::Error> {
        let mut snapshot = Snapshot::default();
        for schema in schemas {
            let sql = format!("PRAGMA {schema}.oneflush_stats");
            let text: String = connection.query_row(&sql, [], |row| row.get(0))?;
            let wrong = |error: serde_json::Error| {
                rusqlite::Error::FromSqlConversionFailure(
                    0,
                    rusqlite::types::Type::Text,
                    error.into(),
                )
            };
            let stats: Stats = serde_json::from_str(&text).map_err(wrong)?;
            snapshot.calls = snapshot.calls.plus(Calls::of(&stats));
            snapshot.raw.insert(schema.clone(), serde_json::from_str(&text).map_err(wrong)?);
        }
        Ok(snapshot)
    }

    pub fn since(self, mut before: Snapshot) -> Seen {
        let stats = |(schema, at_end)| RawStats { at_begin: before.raw.remove(&schema), at_end };
        let calls = self.calls.since(before.calls);
        Seen { calls, stats: self.raw.into_iter().map(stats).collect() }
    }
}

impl Seen {
    pub fn add(&mut self, other: Seen) {
        self.calls = self.calls.plus(other.calls);
        self.stats.extend(other.stats);
    }

    /// What the strategies wrote. None: they do not know all of it, or there are none.
    pub fn written(&self) -> Option<Written> {
        let of = |stats: &RawStats| {
            let before =
                stats.at_begin.as_ref().map_or(Some(Written::default()), Written::in_stats);
            Written::in_stats(&stats.at_end)?.since(before?)
        };
        let all: Option<Vec<Written>> = self.stats.iter().map(of).collect();
        all?.into_iter().reduce(Written::plus)
    }
}

impl Calls {
    fn of(stats: &Stats) -> Calls {
        // Never synced: what SQLite keeps there need not survive the process.
        let files = stats.files.iter().filter(|(role, _)| *role != "temp");
        files.fold(Calls::default(), |calls, (_, file)| Calls {
            writes: calls.writes + file.writes,
            bytes: calls.bytes + file.write_bytes,
            syncs: calls.syncs + file.syncs,
        })
    }

    fn since(self, before: Calls) -> Calls {
        Calls {
            writes: self.writes - before.writes,
            bytes: self.bytes - before.bytes,
            syncs: self.syncs - before.syncs,
        }
    }

    fn plus(self, more: Calls) -> Calls {
        Calls {
            writes: self.writes + more.writes,
            bytes: self.bytes + more.bytes,
            syncs: self.syncs + more.syncs,
        }
    }
}
