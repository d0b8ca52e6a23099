//! What our VFS wrote and synced, where the disk's own counters say nothing or too much.
//!
//! Of `eager`'s WAL image and of `maw`'s journal nothing reaches a file. Their logs do. Where
//! commits share a flush, SQLite's calls are not what is synced: the strategy counts that. What the
//! file system writes besides, its journal and metadata, is not known here.

use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    pub bytes: u64,
    pub syncs: u64,
}

impl Calls {
    /// Since the database was opened in this process.
    pub fn of(connection: &Connection) -> Option<Calls> {
        let text: String =
            connection.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).ok()?;
        Calls::in_stats(&serde_json::from_str(&text).ok()?)
    }

    pub fn since(self, before: Calls) -> Calls {
        Calls {
            bytes: self.bytes.saturating_sub(before.bytes),
            syncs: self.syncs.saturating_sub(before.syncs),
        }
    }

    fn in_stats(stats: &Value) -> Option<Calls> {
        let strategy = stats["strategy"].as_str()?;
        let own = &stats[strategy];
        let (nowhere, synced_by_strategy, flushes): (&[&str], &[&str], _) = match strategy {
            _ if !stats["active"].as_bool()? => (&[], &[], None),
            "plain" => (&[], &["wal"], own["flushes"].as_u64()),
            "eager" => (&["wal"], &[], own["flushes"].as_u64()),
            "maw" => (&["rollback_journal"], &["db"], own["atomic"].as_u64()),
            _ => (&[], &[], None),
        };
        let mut calls = Calls {
            bytes: own["log"]["logged_bytes"].as_u64().unwrap_or_default(),
            syncs: flushes.unwrap_or_default(),
        };
        for (role, file) in stats["files"].as_object()? {
            let role = role.as_str();
            if role == "temp" || nowhere.contains(&role) {
                continue;
            }
            calls.bytes += file["write_bytes"].as_u64()?;
            if !synced_by_strategy.contains(&role) {
                calls.syncs += file["syncs"].as_u64()?;
            }
        }
        Some(calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database;

    /// Commits ten rows and asks.
    fn of(mode: &str) -> Calls {
        let dir = tempfile::tempdir().unwrap();
        let db = database::open(&dir.path().join("a.db"), &mode.parse().unwrap()).unwrap();
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        let before = Calls::of(&db).unwrap();
        for _ in 0..10 {
            db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
        }
        Calls::of(&db).unwrap().since(before)
    }

    #[test]
    fn what_stays_in_memory_is_not_counted_and_each_commit_is_synced_once() {
        // The header of a WAL is synced with its first commit, and comes before.
        assert_eq!(of("wal:stock").syncs, 10);
        assert_eq!(of("wal:plain").syncs, 10);
        let eager = of("wal:eager");
        assert_eq!(eager.syncs, 10);
        assert_eq!(eager.bytes, 10 * 4096, "one block a commit");
        assert!(of("wal:stock").bytes >= 10 * 4096);
        assert!(of("delete:stock").syncs >= 20, "journal and database");
        assert_eq!(of("delete:maw+atomic=log").syncs, 10);
    }
}
