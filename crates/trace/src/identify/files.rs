//! Which file is what, by SQLite's naming and ours.
//!
//! The name of a side file begins with the name of its database, and so says which database it is.
//! A database itself may have any name. It is known by its usual endings or by a side file. In
//! every mode, a side file is written first.
//!
//! A database of LS-MVBT has no side file. Its first bytes say what it is, and the recorder reads
//! them ([`crate::record`]). Without that word nothing tells it from a database without a journal.

/// What a file is to its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Database,
    /// Rollback journal.
    Journal,
    Wal,
    /// The log of our strategy `eager`.
    EagerLog,
    /// The log of our strategy `waldio`.
    WaldioLog,
    /// The log of our strategy `maw`.
    MawLog,
    /// A database of LS-MVBT, which has no other file.
    Lsmvbt,
    /// The volatile image of the WAL that `eager` keeps. Only large transactions synchronize it.
    Image,
    /// The WAL index; never synchronized.
    Shm,
    /// Ties together the journals of a transaction over several databases.
    SuperJournal,
    /// Statement journals, sorters, temporary tables.
    Temp,
}

/// A thread of ours, where a WAL is SQLite's own: that of `plain`.
pub(super) const CHECKPOINTER: &str = "oneflush-ckpt";

/// `plain` has kept the WAL over a close.
pub(super) fn is_kept(path: &str) -> bool {
    path.strip_suffix(DELETED).unwrap_or(path).ends_with("-oneflush-kept")
}

/// Longer endings stand before those that they end with.
const SIDE_FILES: [(&str, Role); 8] = [
    ("-oneflush-kept", Role::Wal),
    ("-oneflush-wal", Role::Image),
    ("-oneflush", Role::EagerLog),
    ("-waldio", Role::WaldioLog),
    ("-maw", Role::MawLog),
    ("-journal", Role::Journal),
    ("-wal", Role::Wal),
    ("-shm", Role::Shm),
];

const DATABASE_ENDINGS: [&str; 7] =
    [".db", ".db3", ".sqlite", ".sqlite3", ".sqlitedb", ".sdb", ".s3db"];

/// The kernel's note behind the path of a file that is gone.
const DELETED: &str = " (deleted)";

/// Database and role of a path; `None` if its name alone does not say that it is SQLite's.
pub(super) fn classify(path: &str) -> Option<(&str, Role)> {
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.starts_with("etilqs_") || name.starts_with(".etilqs_") {
        return Some((path, Role::Temp));
    }
    for (ending, role) in SIDE_FILES {
        if let Some(database) = path.strip_suffix(ending).filter(|database| is_name(database)) {
            return Some((database, role));
        }
    }
    if let Some(database) = super_journal_of(path) {
        return Some((database, Role::SuperJournal));
    }
    DATABASE_ENDINGS
        .iter()
        .any(|ending| path.strip_suffix(ending).is_some_and(is_name))
        .then_some((path, Role::Database))
}

/// The folder that holds the entry of a journal.
pub(super) fn folder(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(at) => &path[..at],
        None => ".",
    }
}

fn is_name(path: &str) -> bool {
    !path.is_empty() && !path.ends_with('/')
}

/// SQLite makes the name by `"%s-mj%06X9%02X"`.
fn super_journal_of(path: &str) -> Option<&str> {
    let at = path.rfind("-mj")?;
    let random = &path.as_bytes()[at + 3..];
    (random.len() == 9 && random.iter().all(u8::is_ascii_hexdigit) && is_name(&path[..at]))
        .then(|| &path[..at])
}

/// The name of a thread that works for one device, such as `loop0` and `md0_raid1`.
fn is_numbered(comm: &str, begin: &str, behind: &str) -> bool {
    let Some(rest) = comm.strip_prefix(begin) else { return false };
    let name = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    name.len() < rest.len()
        && (if behind.is_empty() { name.is_empty() } else { name.starts_with(behind) })
}

/// The kind of a thread, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Program,
    /// The thread commits the journal of ext4.
    FileSystemJournal,
    /// The thread writes the checkpoints of F2FS: nodes, folders and other metadata.
    FileSystemCheckpoint,
    /// A kernel thread that writes for others. What it sends says nothing about who asked for it.
    KernelWorker,
}

pub(super) fn writer(comm: &str) -> Writer {
    const WORKERS: [&str; 13] = [
        "kworker",
        // LUKS, and the device mapper's flushes.
        "dmcrypt_write",
        "kcryptd",
        "kdmflush",
        "flush-",
        "mmcqd",
        "swapper",
        "ksoftirqd",
        "kblockd",
        "writeback",
        "migration/",
        "ext4lazyinit",
        "<idle>",
    ];
    if comm.starts_with("jbd2/") || comm.starts_with("jbd2-") {
        Writer::FileSystemJournal
    } else if comm.starts_with("f2fs_ckpt") {
        Writer::FileSystemCheckpoint
    } else if WORKERS.iter().any(|worker| comm.starts_with(worker))
        || is_numbered(comm, "loop", "")
        || is_numbered(comm, "md", "_raid")
    {
        Writer::KernelWorker
    } else {
        Writer::Program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_files_name_their_database() {
        assert_eq!(classify("/a/b.db-journal"), Some(("/a/b.db", Role::Journal)));
        assert_eq!(classify("/a/b.db-wal"), Some(("/a/b.db", Role::Wal)));
        assert_eq!(classify("/a/b-shm"), Some(("/a/b", Role::Shm)));
        assert_eq!(
            classify("/a/http_x_0.localstorage-journal"),
            Some(("/a/http_x_0.localstorage", Role::Journal))
        );
    }

    #[test]
    fn our_own_files_are_not_taken_for_a_wal() {
        assert_eq!(classify("/a/b.db-oneflush"), Some(("/a/b.db", Role::EagerLog)));
        assert_eq!(classify("/a/b.db-oneflush-kept"), Some(("/a/b.db", Role::Wal)));
        assert_eq!(classify("/a/b.db-oneflush-wal"), Some(("/a/b.db", Role::Image)));
        assert_eq!(classify("/a/b.db-waldio"), Some(("/a/b.db", Role::WaldioLog)));
        assert_eq!(classify("/a/b.db-maw"), Some(("/a/b.db", Role::MawLog)));
    }

    #[test]
    fn a_super_journal_has_nine_hexadecimal_digits() {
        assert_eq!(classify("/a/b.db-mj0A1B2C9FF"), Some(("/a/b.db", Role::SuperJournal)));
        assert_eq!(classify("/a/b-mjNOTHEX999"), None);
        assert_eq!(classify("/a/b-mj0A1B2C9F"), None);
    }

    #[test]
    fn temporary_files_belong_to_no_database() {
        assert_eq!(classify("/var/tmp/etilqs_8a7b").map(|found| found.1), Some(Role::Temp));
    }

    #[test]
    fn usual_endings_are_databases_and_others_are_not_known_by_name() {
        assert_eq!(classify("/x/SyncData.sqlite3"), Some(("/x/SyncData.sqlite3", Role::Database)));
        assert_eq!(classify("/x/data_1"), None);
        assert_eq!(classify("/x/.db"), None);
        assert_eq!(classify("/x/-journal"), None);
    }

    #[test]
    fn a_deleted_journal_keeps_its_role() {
        assert_eq!(classify("/a/b.db-journal (deleted)"), Some(("/a/b.db", Role::Journal)));
    }
}
