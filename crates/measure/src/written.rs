//! What a strategy wrote to its files and synced, as its own counters tell
//! (`PRAGMA oneflush_stats`).
//!
//! SQLite's calls are another matter. Of `eager`'s WAL image and of `maw`'s journal nothing reaches
//! a file: their logs do. Frames of `waldio` are whole blocks. Where commits share a flush, what is
//! synced is not what SQLite asked for. What the file system writes besides, its journal and
//! metadata, is not known here. Nor is what the kernel merges.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::Value;

use crate::observe::{Class, ClassCounts, Counts, Source};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    db: ClassCounts,
    /// Rollback journal, WAL or log, without what was laid out.
    journal: ClassCounts,
    /// Zeros that were written ahead of the journal's use.
    pub laid_out_bytes: u64,
    pub syncs: u64,
    /// The strategy does not count its writes, only their bytes.
    writes_unknown: bool,
    /// What may have written bytes that nobody counts: `eager` syncs its image, `maw` goes on with
    /// a journal in a file.
    uncounted: u64,
}

impl Written {
    /// Since the database was opened in this process.
    pub fn of(connection: &Connection) -> Option<Written> {
        let text: String =
            connection.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).ok()?;
        Written::in_stats(&serde_json::from_str(&text).ok()?)
    }

    /// None: what was written meanwhile is not all counted.
    pub fn since(self, before: Written) -> Option<Written> {
        let part = |after: ClassCounts, before: ClassCounts| ClassCounts {
            bytes: after.bytes.saturating_sub(before.bytes),
            writes: after.writes.saturating_sub(before.writes),
        };
        (self.uncounted <= before.uncounted).then(|| Written {
            db: part(self.db, before.db),
            journal: part(self.journal, before.journal),
            laid_out_bytes: self.laid_out_bytes.saturating_sub(before.laid_out_bytes),
            syncs: self.syncs.saturating_sub(before.syncs),
            writes_unknown: self.writes_unknown,
            uncounted: 0,
        })
    }

    pub fn plus(self, other: Written) -> Written {
        let sum = |one: ClassCounts, other: ClassCounts| ClassCounts {
            bytes: one.bytes + other.bytes,
            writes: one.writes + other.writes,
        };
        Written {
            db: sum(self.db, other.db),
            journal: sum(self.journal, other.journal),
            laid_out_bytes: self.laid_out_bytes + other.laid_out_bytes,
            syncs: self.syncs + other.syncs,
            writes_unknown: self.writes_unknown || other.writes_unknown,
            uncounted: self.uncounted + other.uncounted,
        }
    }

    /// Without what was laid out.
    pub fn bytes(&self) -> u64 {
        self.db.bytes + self.journal.bytes
    }

    /// As an observer counts: what was laid out is among the journal's.
    pub fn into_counts(self) -> Counts {
        let bytes = self.bytes() + self.laid_out_bytes;
        let journal = ClassCounts {
            bytes: self.journal.bytes + self.laid_out_bytes,
            writes: self.journal.writes,
        };
        Counts {
            bytes,
            writes: (!self.writes_unknown).then_some(self.db.writes + self.journal.writes),
            flushes: self.syncs,
            by_class: BTreeMap::from([(Class::Db, self.db), (Class::Journal, journal)]),
            events_lost: 0,
            source: Source::Strategies,
            unattributed_bytes: 0,
            shape: None,
            flash: None,
        }
    }

    /// None: the text is of another version.
    pub fn in_stats(stats: &Value) -> Option<Written> {
        let strategy = stats["strategy"].as_str()?;
        let own = &stats[strategy];
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let mut written = Written::default();
        // Files of which SQLite's calls say nothing, and those that the strategy syncs itself.
        let (nowhere, synced_by_strategy): (&[&str], &[&str]) = match strategy {
            _ if !stats["active"].as_bool()? => (&[], &[]),
            "plain" => {
                written.laid_out_bytes = number(&own["laid_out_bytes"]);
                written.syncs = number(&own["flushes"]);
                // A frame with its header is one write, and SQLite's are two.
                written.writes_unknown = true;
                (&[], &["wal"])
            }
            "eager" => {
                let log = &own["log"];
                written.journal.bytes = number(&log["logged_bytes"]);
                written.journal.writes = number(&log["records"]);
                written.laid_out_bytes = number(&log["laid_out_bytes"]);
                written.syncs = number(&own["flushes"]) + number(&log["grown"]);
                written.uncounted = number(&log["image_syncs"]);
                (&["wal"], &[])
            }
            "waldio" => {
                written.laid_out_bytes = number(&own["laid_out_bytes"]);
                written.journal.bytes =
                    number(&own["written_bytes"]).saturating_sub(written.laid_out_bytes);
                written.syncs = number(&own["flushes"]);
                written.writes_unknown = true;
                (&["wal"], &[])
            }
            "maw" => {
                let log = &own["log"];
                written.journal.bytes = number(&log["logged_bytes"]);
                written.journal.writes = number(&log["records"]);
                written.laid_out_bytes = number(&log["laid_out_bytes"]);
                written.syncs = number(&own["atomic"]) + number(&log["grown"]);
                written.uncounted = number(&own["ordinary"]);
                (&["rollback_journal"], &["db"])
            }
            _ => (&[], &[]),
        };
        for (role, file) in stats["files"].as_object()? {
            let role = role.as_str();
            // What is temporary is never synced: it need not survive the process.
            if role == "temp" || nowhere.contains(&role) {
                continue;
            }
            let counts = if role == "db" { &mut written.db } else { &mut written.journal };
            counts.bytes += file["write_bytes"].as_u64()?;
            counts.writes += file["writes"].as_u64()?;
            if !synced_by_strategy.contains(&role) {
                written.syncs += file["syncs"].as_u64()?;
            }
        }
        Some(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database;

    /// Commits ten rows and asks.
    fn of(mode: &str) -> Written {
        let dir = tempfile::tempdir().unwrap();
        let db = database::open(&dir.path().join("a.db"), &mode.parse().unwrap()).unwrap();
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        let before = Written::of(&db).unwrap();
        for _ in 0..10 {
            db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
        }
        Written::of(&db).unwrap().since(before).unwrap()
    }

    #[test]
    fn what_stays_in_memory_is_not_counted_and_each_commit_is_synced_once() {
        // The header of a WAL is synced with its first commit, and comes before.
        assert_eq!(of("wal:stock").syncs, 10);
        let plain = of("wal:plain");
        assert_eq!((plain.syncs, plain.laid_out_bytes), (10, 0), "laid out before");
        let eager = of("wal:eager");
        assert_eq!(eager.syncs, 10 + eager.laid_out_bytes.div_ceil(1 << 20), "one for the space");
        assert_eq!(eager.journal, ClassCounts { bytes: 10 * 4096, writes: 10 }, "a block a commit");
        let waldio = of("wal:waldio");
        assert_eq!((waldio.syncs, waldio.journal.bytes % 4096), (10, 0), "whole blocks");
        assert!(waldio.journal.bytes >= 10 * 4096, "{waldio:?}");
        assert!(of("wal:stock").bytes() >= 10 * 4096);
        assert!(of("delete:stock").syncs >= 20, "journal and database");
        let maw = of("delete:maw+atomic=log");
        assert!((10..=11).contains(&(maw.journal.bytes / 4096)), "one that begins: {maw:?}");
        assert!(maw.syncs <= 11, "{maw:?}");
    }

    /// The benchmark in a directory told for every strategy what SQLite had asked for: 8.3 KB for
    /// `stock`, `plain` and `eager`.
    #[test]
    fn strategies_that_write_otherwise_count_otherwise() {
        let each = |mode: &str| of(mode).bytes() / 10;
        assert_eq!(each("wal:stock"), each("wal:plain"), "the same frames");
        assert!(each("wal:stock") > each("wal:eager"), "a frame has a header of 24 bytes");
    }

    #[test]
    fn what_nobody_counted_is_no_figure() {
        let dir = tempfile::tempdir().unwrap();
        let db = database::open(&dir.path().join("a.db"), &"wal:eager".parse().unwrap()).unwrap();
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        let before = Written::of(&db).unwrap();
        // More than 4 MiB: the image is synced in place of a record of the log.
        db.execute_batch("INSERT INTO t VALUES(zeroblob(6000000))").unwrap();
        assert_eq!(Written::of(&db).unwrap().since(before), None);
    }
}
