//! What our VFS says that it saw.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::observe::{Class, ClassCounts, Counts, Source};

/// What `PRAGMA oneflush_stats` said, once for each of a connection's databases.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    io: Io,
    raw: BTreeMap<String, Value>,
}

/// What the VFS of a process saw between two snapshots.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    pub io: Io,
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

/// What the VFS of this process wrote to the files of some databases, by class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Io {
    by_class: BTreeMap<Class, ClassCounts>,
    syncs: u64,
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
            snapshot.io.add(&Io::of(serde_json::from_str(&text).map_err(wrong)?));
            snapshot.raw.insert(schema.clone(), serde_json::from_str(&text).map_err(wrong)?);
        }
        Ok(snapshot)
    }

    pub fn since(self, mut before: Snapshot) -> Seen {
        let stats = |(schema, at_end)| RawStats { at_begin: before.raw.remove(&schema), at_end };
        Seen { io: self.io.since(&before.io), stats: self.raw.into_iter().map(stats).collect() }
    }
}

impl Seen {
    pub fn add(&mut self, other: Seen) {
        self.io.add(&other.io);
        self.stats.extend(other.stats);
    }
}

impl Io {
    fn of(stats: Stats) -> Io {
        let mut io = Io::default();
        for (role, file) in &stats.files {
            let class = match role.as_str() {
                "db" => Class::Db,
                // Never synced: what SQLite keeps there need not survive the process.
                "temp" => continue,
                _ => Class::Journal,
            };
            let counts = io.by_class.entry(class).or_default();
            counts.bytes += file.write_bytes;
            counts.writes += file.writes;
            io.syncs += file.syncs;
        }
        io
    }

    fn since(&self, before: &Io) -> Io {
        let mut io = self.clone();
        for (class, earlier) in &before.by_class {
            if let Some(counts) = io.by_class.get_mut(class) {
                counts.bytes -= earlier.bytes;
                counts.writes -= earlier.writes;
            }
        }
        io.syncs -= before.syncs;
        io
    }

    fn add(&mut self, other: &Io) {
        for (class, more) in &other.by_class {
            let counts = self.by_class.entry(*class).or_default();
            counts.bytes += more.bytes;
            counts.writes += more.writes;
        }
        self.syncs += other.syncs;
    }

    pub fn into_counts(self) -> Counts {
        Counts {
            bytes: self.by_class.values().map(|counts| counts.bytes).sum(),
            writes: self.by_class.values().map(|counts| counts.writes).sum(),
            flushes: self.syncs,
            by_class: self.by_class,
            events_lost: 0,
            source: Source::Vfs,
            unattributed_bytes: 0,
            shape: None,
            flash: None,
        }
    }
}
