//! The same database in the other engine: a copy in a new file.
//!
//! | step | what a crash after it leaves |
//! |---|---|
//! | 1 a read transaction of the source begins, which lasts to the end | the source |
//! | 2 `PRAGMA integrity_check` of the source | the source |
//! | 3 SQLite's backup makes the copy, under another name | also a copy that is nobody's |
//! | 4 the copy is checked and compared, row by row | the same |
//! | 5 the copy is synchronized, and gets its name | both databases |
//!
//! The backup copies trees, cell by cell. So rowids stay, and records keep their bytes. `VACUUM
//! INTO` may change rowids, and refuses a transaction that has begun.
//!
//! Step 2 is for a source of SQLite alone. `PRAGMA integrity_check` of LS-MVBT waits for whoever
//! writes, and each page has checksums that the copy asks for. Whether its indexes fit its tables
//! shows in step 4: the copy has the same.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use oneflush_measure::interrupt;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::compare::{self, Compared};
use super::error::ConvertError;
use super::suffix::{COPY_SUFFIX, with_suffix};
use super::{facts, plan};
use crate::engine::Engine;
use crate::uri;
use crate::watch::Watch;

/// VFS of SQLite itself. Only on it there are two engines.
const VFS: &str = "unix";
/// For how long the first look at the source waits for others.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// The copy, and what may be beside it. SQLite leaves a journal where the disk is full. A new
/// database of LS-MVBT is made under another name, and has shared memory while it is open.
const SUFFIXES: [&str; 5] = ["", "-journal", "-shm", "-oneflush-new", "-oneflush-new-shm"];

/// What is copied, and where to.
pub struct Copying {
    pub source: PathBuf,
    pub target: PathBuf,
    pub engine: Engine,
}

/// What the source tells before anything is done.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    pub page_bytes: u32,
    pub bytes: u64,
    pub needed_bytes: u64,
    pub free_bytes: u64,
    /// It has a PRAGMA that LS-MVBT does not have.
    pub loses_auto_vacuum: bool,
}

/// What was done.
pub struct Copied {
    pub bytes: u64,
    pub compared: Compared,
}

/// What is wrong with a copy.
enum Wrong {
    Integrity(String),
    Contents(String),
}

/// A source with a read transaction.
pub struct Source {
    db: Connection,
    copying: Copying,
}

impl Source {
    pub fn open(copying: Copying) -> Result<Source, ConvertError> {
        let failed = |source| copying.failed("opening the database", source);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let db =
            Connection::open_with_flags_and_vfs(&copying.source, flags, VFS).map_err(failed)?;
        db.busy_timeout(PATIENCE).map_err(failed)?;
        db.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(failed)?;
        Ok(Source { db, copying })
    }

    pub fn before(&self) -> Result<Before, ConvertError> {
        let failed = |source| self.copying.failed("reading its settings", source);
        let number = |name| self.db.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
        let page_bytes = number("page_size").map_err(failed)?;
        let pages = number("page_count").map_err(failed)?;
        let auto_vacuum = number("auto_vacuum").map_err(failed)?;
        let bytes = u64::from(page_bytes) * u64::from(pages);
        let needed_bytes = plan::copy_bytes(bytes);
        let free_bytes = plan::check_room(&self.copying.target, needed_bytes)?;
        let loses_auto_vacuum = auto_vacuum != 0;
        Ok(Before { page_bytes, bytes, needed_bytes, free_bytes, loses_auto_vacuum })
    }

    pub fn copy(self, before: Before) -> Result<Copied, ConvertError> {
        let mut watch = Watch::new(&self.copying.source);
        self.check(&mut watch)?;
        let file = Unfinished::create(&self.copying.target)?;
        self.write(&file, before, &mut watch)?;
        let compared = self.compare(&file, &mut watch)?;
        let bytes = file.finish(&self.copying)?;
        Ok(Copied { bytes, compared })
    }

    fn check(&self, watch: &mut Watch) -> Result<(), ConvertError> {
        if self.copying.engine == Engine::Sqlite {
            return Ok(());
        }
        let step = "checking the database";
        let check = || facts::damage(&self.db);
        let found = watch.during(step, Some(&self.db.get_interrupt_handle()), || None, check);
        self.check_signals()?;
        match found.map_err(|source| self.copying.failed(step, source))? {
            Some(found) => {
                Err(ConvertError::Damaged { database: self.copying.source.clone(), found })
            }
            None => Ok(()),
        }
    }

    /// Step 3. Nothing reaches into a backup between the engines, which is one step. So Ctrl-C ends
    /// the process there, and takes the file away first.
    fn write(
        &self,
        file: &Unfinished,
        before: Before,
        watch: &mut Watch,
    ) -> Result<(), ConvertError> {
        let step = "copying it";
        let failed = |source| self.copying.failed(step, source);
        let share = || file.path.metadata().ok().map(|metadata| (metadata.len(), before.bytes));
        let made = watch.during(step, None, share, || {
            or_ended(&self.copying.target, file, || self.backup(file, before.page_bytes))
        });
        made.map_err(failed)
    }

    fn backup(&self, file: &Unfinished, page_bytes: u32) -> rusqlite::Result<()> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let name = format!(
            "{}?engine={}",
            uri::without_parameters(&file.path),
            self.copying.engine.word()
        );
        let flags = flags | OpenFlags::SQLITE_OPEN_CREATE;
        let mut copy = Connection::open_with_flags_and_vfs(name, flags, VFS)?;
        copy.pragma_update(None, "page_size", page_bytes)?;
        Backup::new(&self.db, &mut copy)?.step(-1)?;
        copy.close().map_err(|(_, source)| source)
    }

    fn compare(&self, file: &Unfinished, watch: &mut Watch) -> Result<Compared, ConvertError> {
        let step = "comparing the copy";
        let failed = |source| self.copying.failed(step, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let copy = Connection::open_with_flags_and_vfs(&file.path, flags, VFS).map_err(failed)?;
        let compare = || match facts::damage(&copy)? {
            Some(found) => Ok(Err(Wrong::Integrity(found))),
            None => Ok(compare::all(&self.db, &copy)?.map_err(Wrong::Contents)),
        };
        let found = watch.during(
            step,
            Some(&copy.get_interrupt_handle()),
            || None,
            || {
                let found = compare();
                if interrupt::requested() { None } else { Some(found) }
            },
        );
        let Some(found) = found else { return Err(self.interrupted()) };
        found.map_err(failed)?.map_err(|wrong| self.wrong(wrong))
    }

    /// A copy has what its source has, also what is wrong.
    fn wrong(&self, wrong: Wrong) -> ConvertError {
        let Copying { source, target, engine } = &self.copying;
        let (database, target) = (source.clone(), target.clone());
        match wrong {
            Wrong::Integrity(found) if *engine == Engine::Sqlite => {
                ConvertError::Damaged { database, found }
            }
            Wrong::Integrity(found) => ConvertError::TargetDiffers {
                target,
                found: format!("PRAGMA integrity_check says: {found}"),
            },
            Wrong::Contents(found) => ConvertError::TargetDiffers { target, found },
        }
    }

    fn check_signals(&self) -> Result<(), ConvertError> {
        if interrupt::requested() { Err(self.interrupted()) } else { Ok(()) }
    }

    fn interrupted(&self) -> ConvertError {
        ConvertError::NotMade(self.copying.target.clone())
    }
}

/// Does the work. A signal ends the process meanwhile, without the file.
fn or_ended<T>(target: &Path, file: &Unfinished, work: impl FnOnce() -> T) -> T {
    let (running, end) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while end.recv_timeout(LOOKS_EVERY) == Err(RecvTimeoutError::Timeout) {
                if interrupt::requested() {
                    eprintln!("oneflush: {}", ConvertError::NotMade(target.to_owned()));
                    // The work goes on until the process ends, and may just make a file.
                    file.remove();
                    std::process::exit(1);
                }
            }
        });
        let result = work();
        drop(running);
        result
    })
}

impl Copying {
    fn failed(&self, step: &'static str, source: rusqlite::Error) -> ConvertError {
        ConvertError::of_copy(&self.source, &self.target, step, source)
    }
}

/// The file of a copy, which goes when this is dropped. Nobody else may read it.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// One that was left there by a process that was killed is replaced.
    fn create(target: &Path) -> Result<Unfinished, ConvertError> {
        let path = with_suffix(target, COPY_SUFFIX);
        let failed = |source| ConvertError::File { path: path.clone(), source };
        let unfinished = Unfinished { path: path.clone() };
        unfinished.remove();
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        Ok(unfinished)
    }

    /// Step 5. The copy gets the rights of the source.
    fn finish(self, copying: &Copying) -> Result<u64, ConvertError> {
        let target = &copying.target;
        let named = |path: &Path| {
            let path = path.to_owned();
            move |source| ConvertError::File { path, source }
        };
        let rights = copying.source.metadata().map_err(named(&copying.source))?.permissions();
        let rights = fs::Permissions::from_mode(rights.mode() & 0o777);
        fs::set_permissions(&self.path, rights).map_err(named(&self.path))?;
        let file = File::open(&self.path).map_err(named(&self.path))?;
        file.sync_all().map_err(named(&self.path))?;
        let bytes = file.metadata().map_err(named(&self.path))?.len();
        rename(&self.path, target)?;
        let folder = plan::folder_of(target);
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(named(&folder))?;
        Ok(bytes)
    }

    fn remove(&self) {
        // What went wrong before is the first cause; the next conversion removes the files.
        for suffix in SUFFIXES {
            let _ = fs::remove_file(with_suffix(&self.path, suffix));
        }
    }
}

/// Somebody may have made a file of this name meanwhile, which stays.
fn rename(from: &Path, to: &Path) -> Result<(), ConvertError> {
    let renamed = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not know the flag.
        Err(rustix::io::Errno::INVAL) => fs::hard_link(from, to),
        renamed => renamed.map_err(io::Error::from),
    };
    renamed.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => ConvertError::Exists(to.to_owned()),
        _ => ConvertError::File { path: to.to_owned(), source },
    })
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.remove();
    }
}
