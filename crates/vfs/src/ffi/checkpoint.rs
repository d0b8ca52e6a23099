//! A checkpoint by a connection of our own, and other work that needs such a connection.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int};
use std::os::fd::RawFd;
use std::path::Path;
use std::ptr;

use libsqlite3_sys as sqlite;

use super::api::Api;
use super::page_cache;
use crate::config::{Options, StrategyKind};
use crate::connection::Connection;
use crate::engine::{Progress, RunCheckpoint};
use crate::sync::apart;

/// How many frames the first passes may leave to the last pass, which keeps writers waiting.
const LEFT_FRAMES_MAX: u64 = 256;

/// After a pass with no more frames than this to copy comes the last pass. It then has about as
/// many.
const FEW_FRAMES: u64 = 64;

/// The largest number of passes before the last one. Each pass copies what was written during the
/// pass before. That becomes less, at the latest when the pieces become larger.
const PASSES_MAX: usize = 16;

thread_local! {
    /// This thread is opening the checkpointer's connection, with these options.
    static OPENING: Cell<Option<Options>> = const { Cell::new(None) };

    /// The descriptor of the database whose checkpoint this thread runs, after it was looked for.
    /// The inner None: it was not found.
    static DESCRIPTOR: Cell<Option<Option<RawFd>>> = const { Cell::new(None) };
}

/// The options of the checkpointer's connection, if this thread is opening it. They are given out
/// once.
pub fn take_options() -> Option<Options> {
    OPENING.try_with(Cell::take).ok().flatten()
}

/// True for the versions whose checkpoints may lose frames if a writer begins the WAL anew
/// meanwhile ("The WAL-Reset Bug"): 3.7.0 to 3.51.2, without the fixed 3.44.6 and 3.50.7.
pub fn has_wal_reset_bug(libversion_number: c_int) -> bool {
    !matches!(libversion_number, 3_044_006..=3_044_999 | 3_050_007..=3_050_999 | 3_051_003..)
}

pub struct Checkpoints {
    pub api: Api,
}

impl RunCheckpoint for Checkpoints {
    fn run(&self, path: &str, options: &Options) -> Result<Progress, String> {
        let Some(db) = Db::open(&self.api, path, options)? else {
            // Another connection has the database locked exclusively.
            return Ok(Progress { held_up: true, wal_frames: 0, copied_frames: 0 });
        };
        // The descriptor of the checkpoint before may be another file's by now.
        DESCRIPTOR.set(None);
        if !has_wal_reset_bug(self.api.libversion_number())
            && let Some(held_up) = copy_most(&db)?
        {
            return Ok(held_up);
        }
        Ok(db.checkpoint(sqlite::SQLITE_CHECKPOINT_RESTART)?)
    }

    fn write_out(&self, path: &str, offset: u64, length: u64) {
        let descriptor =
            DESCRIPTOR.get().unwrap_or_else(|| page_cache::descriptor_of(Path::new(path)));
        DESCRIPTOR.set(Some(descriptor));
        if let Some(descriptor) = descriptor {
            page_cache::write_out(descriptor, offset, length);
        }
    }

    fn warn(&self, message: &str) {
        self.api.log(sqlite::SQLITE_WARNING, message);
    }
}

/// Copies the WAL pass by pass while writers go on, until little is left. The answer is how far it
/// came, if it is held up.
fn copy_most(db: &Db<'_>) -> Result<Option<Progress>, String> {
    let mut frames_before = 0;
    for _ in 0..PASSES_MAX {
        let passive = db.checkpoint(sqlite::SQLITE_CHECKPOINT_PASSIVE)?;
        // Commits that wait for their flush hold back the last frames, which does no harm. A reader
        // with an old snapshot holds back more. It would keep the WAL from beginning anew too, so
        // the writers are not stopped for nothing.
        let left_frames = passive.wal_frames.saturating_sub(passive.copied_frames);
        if passive.held_up || left_frames > LEFT_FRAMES_MAX {
            return Ok(Some(Progress { held_up: true, ..passive }));
        }
        // The count does not include frames that were written during the pass.
        if passive.wal_frames.saturating_sub(frames_before) <= FEW_FRAMES {
            break;
        }
        frames_before = passive.wal_frames;
    }
    Ok(None)
}

/// Copies the WAL of a database into it, by SQLite alone. False: to SQLite the file is no database.
pub fn fold(api: &Api, path: &str) -> Result<bool, String> {
    let options = Options { strategy: StrategyKind::Stock, ..Options::default() };
    let db = match Db::open(api, path, &options) {
        Ok(Some(db)) => db,
        Ok(None) => return Err("the database is locked".to_owned()),
        Err(SqliteError { code: sqlite::SQLITE_NOTADB, .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    db.checkpoint(sqlite::SQLITE_CHECKPOINT_TRUNCATE)?;
    Ok(true)
}

/// At the end of a process: copies the whole WAL, calls `copied`, and closes the connection. If no
/// other connection is in the way, that is the last close. False: not everything could be copied,
/// and `copied` was not called.
pub fn close_last(api: &Api, path: &str, options: &Options, copied: impl FnOnce()) -> bool {
    let Ok(Some(db)) = Db::open(api, path, options) else { return false };
    // This mode succeeds only if all is copied and the WAL is empty. Then no reader was in the way,
    // and no writer of another process wrote meanwhile.
    let is_copied = matches!(
        db.checkpoint(sqlite::SQLITE_CHECKPOINT_TRUNCATE),
        Ok(Progress { held_up: false, .. })
    );
    if is_copied {
        copied();
    }
    is_copied
}

/// Opens a database, reads from it and closes it. False: another connection has it locked.
pub fn open_and_close(api: &Api, path: &str, strategy: StrategyKind) -> Result<bool, String> {
    open_with(api, path, Options { strategy, ..Options::default() })
}

/// The same for a database that has to leave the log of another one.
pub fn open_and_leave(api: &Api, path: &str) -> Result<bool, String> {
    let options = Options { strategy: StrategyKind::Maw, ..Options::default() };
    open_with(api, path, Options { leaves_log: true, ..options })
}

/// The same for a database with `maw` whose log is to be retired in spite of other connections of
/// this process.
pub fn open_and_retire(api: &Api, path: &str) -> Result<(), String> {
    let options = Options { strategy: StrategyKind::Maw, ..Options::default() };
    let opened = open_with(api, path, Options { retires_log: true, ..options })?;
    if opened { Ok(()) } else { Err("the database is locked".to_owned()) }
}

fn open_with(api: &Api, path: &str, options: Options) -> Result<bool, String> {
    Connection::used_meanwhile(|| apart(|| Ok(Db::open(api, path, &options)?.is_some())))
}

#[derive(Debug, thiserror::Error)]
#[error("{message} (code {code}) [OF-218]")]
struct SqliteError {
    code: c_int,
    message: String,
}

impl From<SqliteError> for String {
    fn from(error: SqliteError) -> String {
        error.to_string()
    }
}

/// A connection, closed on drop.
struct Db<'a> {
    api: &'a Api,
    db: *mut sqlite::sqlite3,
}

impl<'a> Db<'a> {
    /// None if another connection has locked the database exclusively.
    fn open(api: &'a Api, path: &str, options: &Options) -> Result<Option<Db<'a>>, SqliteError> {
        let of_name = |_| SqliteError {
            code: sqlite::SQLITE_CANTOPEN,
            message: "its name contains a NUL byte".to_owned(),
        };
        let c_path = CString::new(path).map_err(of_name)?;
        let c_vfs = CString::new(crate::VFS_NAME).unwrap_or_default();
        let mut db = ptr::null_mut();
        OPENING.with(|opening| opening.set(Some(options.clone())));
        // Without NOMUTEX: SQLite may have been configured without support for threads.
        // SAFETY: two strings that end with NUL and a place for the handle.
        let code = unsafe {
            (api.open_v2)(c_path.as_ptr(), &mut db, sqlite::SQLITE_OPEN_READWRITE, c_vfs.as_ptr())
        };
        OPENING.with(Cell::take);
        // SQLite makes a handle even where the open fails. The drop closes it.
        let db = Db { api, db };
        db.check(code)?;
        // The first read takes the shared lock and opens the WAL. A checkpoint needs both.
        // SAFETY: the handle is open, the statement ends with NUL, and no row is wanted.
        let code = unsafe {
            (api.exec)(
                db.db,
                c"PRAGMA schema_version".as_ptr(),
                None,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        // Locked: the WAL has to be recovered first, and a writer outside the queue keeps its lock.
        if matches!(code, sqlite::SQLITE_BUSY | sqlite::SQLITE_LOCKED) {
            return Ok(None);
        }
        db.check(code)?;
        Ok(Some(db))
    }

    fn checkpoint(&self, mode: c_int) -> Result<Progress, SqliteError> {
        let (mut wal_frames, mut copied_frames) = (0, 0);
        // SAFETY: the handle is open; null stands for all databases, of which it has one.
        let code = unsafe {
            (self.api.wal_checkpoint_v2)(
                self.db,
                ptr::null(),
                mode,
                &mut wal_frames,
                &mut copied_frames,
            )
        };
        // -1 stands for "no WAL mode" and for "could not begin".
        let frames = |count: c_int| u64::try_from(count).unwrap_or(0);
        let progress = |held_up| Progress {
            held_up,
            wal_frames: frames(wal_frames),
            copied_frames: frames(copied_frames),
        };
        match code {
            sqlite::SQLITE_OK => Ok(progress(false)),
            sqlite::SQLITE_BUSY | sqlite::SQLITE_LOCKED => Ok(progress(true)),
            _ => self.check(code).map(|()| progress(false)),
        }
    }

    fn check(&self, code: c_int) -> Result<(), SqliteError> {
        if code == sqlite::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: errmsg takes an open handle, or null if there was no memory for one. Its answer
        // lives until the next call on the handle.
        let message: *const c_char = unsafe { (self.api.errmsg)(self.db) };
        // SAFETY: never null.
        let message = unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy().into_owned();
        Err(SqliteError { code, message })
    }
}

impl Drop for Db<'_> {
    fn drop(&mut self) {
        // SAFETY: closed once; null is allowed.
        unsafe { (self.api.close)(self.db) };
    }
}

#[cfg(test)]
mod tests {
    use super::has_wal_reset_bug;

    #[test]
    fn the_versions_with_the_wal_reset_bug_are_known() {
        for version in [3_040_001, 3_044_005, 3_045_000, 3_050_006, 3_051_002] {
            assert!(has_wal_reset_bug(version), "{version}");
        }
        for version in [3_044_006, 3_050_007, 3_051_003, 3_052_000, 3_054_001] {
            assert!(!has_wal_reset_bug(version), "{version}");
        }
    }
}
