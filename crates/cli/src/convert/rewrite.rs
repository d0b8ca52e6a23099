//! The conversion itself: a copy with the reserved bytes, a check of the copy, and its pages put
//! into the database file as one transaction.
//!
//! | step | what survives a crash after it |
//! |---|---|
//! | 1 the exclusive lock is taken | the database |
//! | 2 `VACUUM INTO` makes the copy, with `reserve=N` | the database, and a copy that is nobody's |
//! | 3 the copy is checked against the database, and loses its name | the database |
//! | 4 the pages of the copy are written by SQLite's backup | SQLite rolls the transaction back |
//! | 5 that transaction is committed | the converted database |
//!
//! `VACUUM` alone does steps 2, 4 and 5 in the same way, by `sqlite3BtreeCopyFile`. But it cannot
//! lower the number of reserved bytes, nothing could be checked before step 5, and step 4 could not
//! be interrupted.
//!
//! The file stays the same file: inode, owner, mode and links. The lock is held from step 1 to the
//! end, so no other process sees anything of it, and none commits in between.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use oneflush_measure::interrupt;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::error::ConvertError;
use super::facts::{self, Facts};
use super::plan::{self, Pages, Wish};
use super::suffix::{COPY_SUFFIX, with_suffix};
use crate::uri;
use crate::watch::Watch;

/// VFS of SQLite itself: the database is a plain one, and every strategy reads the result.
const VFS: &str = "unix";
/// Between two looks at signals.
const PAGES_A_STEP: i32 = 256;

/// A database that nobody else has open, until this is dropped.
pub struct Locked {
    /// Dropped before `file`.
    db: Connection,
    /// Closing a descriptor takes all locks of the process from the file. So this one is opened
    /// before there are locks, and no other is opened while they are held.
    file: File,
    database: PathBuf,
}

/// What was done.
pub struct Converted {
    pub before: Pages,
    pub after: Pages,
    pub tables: usize,
    pub rows: i64,
}

impl Locked {
    pub fn new(database: &Path) -> Result<Locked, ConvertError> {
        let failed = |source| ConvertError::of_sqlite(database, "taking the lock", source);
        let file = File::open(database)
            .map_err(|source| ConvertError::File { path: database.to_owned(), source })?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags_and_vfs(database, flags, VFS).map_err(failed)?;
        let locked = Locked { db, file, database: database.to_owned() };
        if locked.db.is_readonly("main").map_err(failed)? {
            let source = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(ConvertError::ReadOnly { path: locked.database, source });
        }
        locked.lock().map_err(failed)?;
        Ok(locked)
    }

    /// In WAL mode this needs the file's exclusive lock too, which nobody gets while another
    /// connection is open. In the other modes a connection without a transaction has no lock. That
    /// one notices the new pages at its next transaction.
    fn lock(&self) -> rusqlite::Result<()> {
        self.db.busy_timeout(std::time::Duration::ZERO)?;
        facts::pragma(&self.db, "locking_mode = EXCLUSIVE")?;
        self.db.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
        // The database file itself then says how its pages are, and the WAL is empty.
        facts::pragma(&self.db, "wal_checkpoint(TRUNCATE)").map(drop)
    }

    pub fn pages(&self) -> Result<Pages, ConvertError> {
        let mut reserved = [0];
        self.file
            .read_exact_at(&mut reserved, 20)
            .map_err(|source| ConvertError::File { path: self.database.clone(), source })?;
        self.read_pages(reserved[0]).map_err(|source| self.failed("reading its header", source))
    }

    fn read_pages(&self, reserved: u8) -> rusqlite::Result<Pages> {
        let number = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
        Ok(Pages {
            page_bytes: number("page_size")?,
            reserved,
            count: number("page_count")?.into(),
            free: number("freelist_count")?.into(),
        })
    }

    fn failed(&self, step: &'static str, source: rusqlite::Error) -> ConvertError {
        match interrupt::requested() {
            true => ConvertError::Interrupted(self.database.clone()),
            false => ConvertError::of_sqlite(&self.database, step, source),
        }
    }

    fn check_signals(&self) -> Result<(), ConvertError> {
        match interrupt::requested() {
            true => Err(ConvertError::Interrupted(self.database.clone())),
            false => Ok(()),
        }
    }

    pub fn convert(mut self, wish: Wish) -> Result<Converted, ConvertError> {
        let mut watch = Watch::new(&self.database);
        let before = self.pages()?;
        let (facts, journal_mode) = self.check_database(&mut watch)?;
        let copy = self.copy(before, wish, &mut watch)?;
        self.check_copy(&copy, &facts, wish, &mut watch)?;
        plan::check_room_to_write(&self.database, before, copy.pages()?)?;
        self.write(&copy, &mut watch)?;
        drop(copy);
        let after = self.check_written(&facts, &journal_mode, wish, &mut watch)?;
        let (tables, rows) = (facts.rows.len(), facts.rows_in_all());
        self.close()?;
        Ok(Converted { before, after, tables, rows })
    }

    fn check_database(&self, watch: &mut Watch) -> Result<(Facts, String), ConvertError> {
        let step = "checking the database";
        let read = || {
            let damage = facts::damage(&self.db)?;
            Ok((damage, Facts::read(&self.db)?, facts::pragma(&self.db, "journal_mode")?))
        };
        let read = watch.during(step, Some(&self.db.get_interrupt_handle()), || None, read);
        let (damage, facts, mode) = read.map_err(|source| self.failed(step, source))?;
        match damage {
            Some(found) => Err(ConvertError::Damaged { database: self.database.clone(), found }),
            None => self.check_signals().map(|()| (facts, mode)),
        }
    }

    fn copy(&self, before: Pages, wish: Wish, watch: &mut Watch) -> Result<Copy, ConvertError> {
        let step = "making a converted copy";
        let copy = Unnamed::create(&self.database)?;
        let target = format!("{}?reserve={}", uri::without_parameters(&copy.path), wish.reserved);
        let expected = before.converted(wish.reserved) * u64::from(before.page_bytes);
        let share = || copy.path.metadata().ok().map(|metadata| (metadata.len(), expected));
        let made = watch.during(step, Some(&self.db.get_interrupt_handle()), share, || {
            self.db.execute("VACUUM INTO ?", [target])
        });
        made.map_err(|source| self.failed(step, source))?;
        let opened =
            Connection::open_with_flags_and_vfs(&copy.path, OpenFlags::SQLITE_OPEN_READ_ONLY, VFS);
        let reserved = copy.reserved()?;
        let db = opened.map_err(|source| self.failed(step, source))?;
        Ok(Copy { db, reserved, database: self.database.clone() })
    }

    fn check_copy(
        &self,
        copy: &Copy,
        facts: &Facts,
        wish: Wish,
        watch: &mut Watch,
    ) -> Result<(), ConvertError> {
        let step = "checking the copy";
        let check = || match facts::damage(&copy.db)? {
            Some(found) => Ok(Some(format!("PRAGMA integrity_check says: {found}"))),
            None => Ok(facts.difference(&Facts::read(&copy.db)?)),
        };
        let found = watch.during(step, Some(&copy.db.get_interrupt_handle()), || None, check);
        let found = found.map_err(|source| self.failed(step, source))?;
        self.check_signals()?;
        match found.or_else(|| differing(copy.reserved, wish)) {
            Some(found) => {
                Err(ConvertError::CopyDiffers { database: self.database.clone(), found })
            }
            None => Ok(()),
        }
    }

    /// Steps 4 and 5. An error, or a signal, rolls the transaction back.
    fn write(&mut self, copy: &Copy, watch: &mut Watch) -> Result<(), ConvertError> {
        let step = "writing the converted pages";
        let database = self.database.clone();
        let failed = |source| ConvertError::of_sqlite(&database, step, source);
        let backup = Backup::new(&copy.db, &mut self.db).map_err(failed)?;
        loop {
            if interrupt::requested() {
                return Err(ConvertError::Interrupted(database));
            }
            if backup.step(PAGES_A_STEP).map_err(failed)? == StepResult::Done {
                return Ok(());
            }
            let progress = backup.progress();
            let (left, all) = (progress.remaining.max(0), progress.pagecount.max(0));
            watch.tell(step, || Some(((all - left) as u64, all as u64)));
        }
    }

    fn check_written(
        &self,
        facts: &Facts,
        journal_mode: &str,
        wish: Wish,
        watch: &mut Watch,
    ) -> Result<Pages, ConvertError> {
        let step = "checking what was written";
        let check = || {
            facts::pragma(&self.db, "wal_checkpoint(TRUNCATE)")?;
            if let Some(found) = facts::damage(&self.db)? {
                return Ok(Some(format!("PRAGMA integrity_check says: {found}")));
            }
            let mode = facts::pragma(&self.db, "journal_mode")?;
            if mode != journal_mode {
                return Ok(Some(format!("journal_mode was {journal_mode}, and is {mode}")));
            }
            Ok(facts.difference(&Facts::read(&self.db)?))
        };
        let found = watch.during(step, Some(&self.db.get_interrupt_handle()), || None, check);
        let database = || self.database.clone();
        if interrupt::requested() {
            return Err(ConvertError::InterruptedAfter(database()));
        }
        let found = found.map_err(|source| ConvertError::SqliteAfter {
            database: database(),
            step,
            source,
        })?;
        let pages = self.pages()?;
        match found.or_else(|| differing(pages.reserved, wish)) {
            Some(found) => Err(ConvertError::Differs { database: database(), found }),
            None => Ok(pages),
        }
    }

    fn close(self) -> Result<(), ConvertError> {
        let Locked { db, file: _file, database } = self;
        db.close().map_err(|(_, source)| ConvertError::SqliteAfter {
            database,
            step: "closing it",
            source,
        })
    }
}

fn differing(reserved: u8, wish: Wish) -> Option<String> {
    (reserved != wish.reserved)
        .then(|| format!("{reserved} bytes are reserved in each page, and not {}", wish.reserved))
}

/// The converted copy, which has no name any more: a process that is killed leaves nothing of it.
struct Copy {
    db: Connection,
    reserved: u8,
    database: PathBuf,
}

impl Copy {
    fn pages(&self) -> Result<u64, ConvertError> {
        let count = self.db.pragma_query_value(None, "page_count", |row| row.get::<_, u32>(0));
        count
            .map(u64::from)
            .map_err(|source| ConvertError::of_sqlite(&self.database, "reading the copy", source))
    }
}

/// The file of a copy, whose name goes when this is dropped.
struct Unnamed {
    path: PathBuf,
    file: File,
}

impl Unnamed {
    /// Empty, and for nobody else to read. One that was left there by a process that was killed is
    /// replaced.
    fn create(database: &Path) -> Result<Unnamed, ConvertError> {
        let path = with_suffix(database, COPY_SUFFIX);
        let failed = |source| ConvertError::File { path: path.clone(), source };
        remove(&path).map_err(failed)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        Ok(Unnamed { path, file })
    }

    fn reserved(&self) -> Result<u8, ConvertError> {
        let mut reserved = [0];
        self.file
            .read_exact_at(&mut reserved, 20)
            .map_err(|source| ConvertError::File { path: self.path.clone(), source })?;
        Ok(reserved[0])
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // What went wrong before is the first cause; the next conversion removes the files.
        let _ = remove(&self.path);
    }
}

/// The copy, and the journal that SQLite leaves beside it where the disk is full.
fn remove(copy: &Path) -> io::Result<()> {
    for path in [copy, &with_suffix(copy, "-journal")] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nobody may list locks, only the lock itself tells that a database is in use.
    #[test]
    fn the_lock_is_refused_while_another_connection_has_one() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, begin) in [
            ("wal", "SELECT * FROM t"),
            ("delete", "BEGIN; SELECT * FROM t"),
            ("delete", "BEGIN IMMEDIATE"),
        ] {
            let path = folder.path().join("a.db");
            let db = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), VFS).unwrap();
            let make = "CREATE TABLE t(v); INSERT INTO t VALUES (1)";
            db.execute_batch(&format!("PRAGMA journal_mode = {mode}; {make}; {begin}")).unwrap();
            let refused = Locked::new(&path).err();
            assert!(matches!(refused, Some(ConvertError::InUse { .. })), "{begin}: {refused:?}");
            drop(db);
            assert!(Locked::new(&path).is_ok());
            fs::remove_file(&path).unwrap();
        }
    }
}
