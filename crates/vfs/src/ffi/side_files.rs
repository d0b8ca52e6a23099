//! The log of `eager` and the files beside it. Over the "unix" VFS the log is a real file by direct
//! I/O. Over any other VFS, such as a simulated disk, it is a file of the VFS below.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libsqlite3_sys as sqlite;
use oneflush_blocklog::belonging::{hand_over, open_beside};
use oneflush_blocklog::{
    DirectFile, Error as LogError, Uuid, is_full, sync_directory, zero_without_writing,
};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::api::Api;
use super::board_file::BoardFile;
use super::forked;
use super::image_memory::MappedImage;
use super::named_log::NamedLog;
use super::simulated_atomic::{SimulatedExchange, SimulatedWrite};
use super::vfs_file::{VfsBelow, VfsFile, exists, is_unix};
use super::{checkpoint, exchange, f2fs_atomic, looking_on, page_cache, simulated_board};
use crate::config::StrategyKind;
use crate::error::Code;
use crate::journal_end::{self, Seen};
use crate::kept_file;
use crate::names::{board_path, database_of, image_path, kept_path, log_path, wal_path};
use crate::port::{AtomicWrite, Below, ExchangeFile, SideFiles, SyncRequest};
use crate::strategy::{
    Common, ImageMemory, LogFile, LogFiles, LogInUse, Room, board_is_busy, board_is_open, guard,
    path_of_log, read_board,
};

pub struct Files {
    pub api: Api,
    pub below: *mut sqlite::sqlite3_vfs,
}

// SAFETY: a registered VFS lives for ever and is not written to.
unsafe impl Send for Files {}
// SAFETY: as above.
unsafe impl Sync for Files {}

impl Files {
    /// True if the files of the VFS below are the operating system's files of the same names.
    fn are_real(&self) -> bool {
        // SAFETY: the VFS below lives for ever.
        unsafe { is_unix(self.below) }
    }
}

impl SideFiles for Files {
    fn delete(&self, path: &str, sync_directory: bool) -> Result<(), Code> {
        if !self.are_real() {
            simulated_board::deleted(&full_name(self.below, path)?);
        }
        let name = CString::new(path).map_err(|_| Code::CANTOPEN)?;
        // SAFETY: the VFS below lives for ever; the name is a C string.
        let code = unsafe {
            (*self.below).xDelete.map_or(sqlite::SQLITE_IOERR_DELETE, |method| {
                method(self.below, name.as_ptr(), c_int::from(sync_directory))
            })
        };
        match code {
            sqlite::SQLITE_OK | sqlite::SQLITE_IOERR_DELETE_NOENT => Ok(()),
            code => Err(Code(code)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Code> {
        if !self.are_real() {
            // A VFS cannot rename.
            copy(self.below, from, to)?;
            return self.delete(from, true);
        }
        if std::fs::metadata(from).is_ok_and(|found| !found.is_file()) {
            return Err(Code::CANTOPEN);
        }
        std::fs::rename(from, to).map_err(|error| code_of(&error))?;
        if let Ok(file) = File::open(to) {
            hand_over(&file, Path::new(database_of(to)));
        }
        sync_directory(Path::new(to)).map_err(|error| self.code(&error))
    }

    fn keep_wal(&self, database: &str) -> Result<(), Code> {
        if !self.are_real() {
            return rename(self.below, &wal_path(database), &kept_path(database));
        }
        kept_file::keep(database).map_err(|error| code_of(&error))
    }

    fn take_back_wal(&self, database: &str, fits: &mut dyn FnMut(&dyn Below) -> bool) -> bool {
        if self.are_real() {
            return kept_file::take_back(database, fits);
        }
        let (kept, wal) = (kept_path(database), wal_path(database));
        let mut fits = || {
            let file = VfsFile::open(self.below, &kept, sqlite::SQLITE_OPEN_READWRITE).ok()??;
            Some(!self.is_there(&wal).ok()? && fits(&file.below))
        };
        let is_back = fits() == Some(true) && rename(self.below, &kept, &wal).is_ok();
        if !is_back {
            let _ = self.delete(&kept, false);
        }
        is_back
    }

    fn exists(&self, path: &str) -> Result<bool, Code> {
        let name = CString::new(path).map_err(|_| Code::CANTOPEN)?;
        exists(self.below, &name)
    }

    fn extend_without_writing(&self, path: &str, new: Range<u64>) -> bool {
        let file = self.are_real().then(|| File::options().write(true).open(path));
        // What is at this name now must end where the caller's file does.
        file.and_then(Result::ok).is_some_and(|file| {
            file.metadata().is_ok_and(|metadata| metadata.len() == new.start)
                && zero_without_writing(&file, new)
        })
    }

    fn is_there(&self, path: &str) -> Result<bool, Code> {
        if self.are_real() {
            return Path::new(path).try_exists().map_err(|error| code_of(&error));
        }
        self.exists(path)
    }

    fn warn(&self, message: &str) {
        self.api.log(sqlite::SQLITE_WARNING, message);
    }
}

impl LogFiles for Files {
    fn common(
        &self,
        database: &str,
        log: &str,
        patience: Duration,
    ) -> Result<Arc<dyn Common>, Code> {
        if self.are_real() {
            let opened = BoardFile::open_locked(database, log, patience)
                .map_err(|error| self.board_error(database, &error));
            return opened?.map_or(Err(Code::BUSY), |board| Ok(Arc::new(board)));
        }
        let name = full_name(self.below, &board_path(database))?;
        let board = simulated_board::seat(name, database);
        board.lock_unless(0, patience, &|| false)?;
        Ok(board)
    }

    fn common_in_use(&self, database: &str, log: &str) -> Result<Option<Arc<dyn Common>>, Code> {
        if !self.are_real() {
            return Ok(None);
        }
        let opened =
            BoardFile::open(database, log).map_err(|error| self.board_error(database, &error));
        Ok(opened?.map(|board| Arc::new(board) as _))
    }

    fn look_on(&self, database: &str, kind: StrategyKind) -> Result<Option<LogInUse>, Code> {
        let Some(log) = path_of_log(kind, database).filter(|_| self.are_real()) else {
            return Ok(None);
        };
        looking_on::look_on(database, &log, kind).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Code::BUSY,
            _ => self.code(&LogError::File {
                path: log.into(),
                doing: "look at its users",
                source: error,
            }),
        })
    }

    fn open_log(&self, path: &str) -> Result<Option<LogFile>, Code> {
        if !self.are_real() {
            let opened = VfsFile::open(self.below, path, sqlite::SQLITE_OPEN_READWRITE)?;
            return Ok(opened.map(|file| LogFile(Box::new(file))));
        }
        let (path, database) = (Path::new(path), Path::new(database_of(path)));
        if !path.try_exists().map_err(|error| code_of(&error))? {
            return Ok(None);
        }
        let file = DirectFile::open_beside(path, database).map_err(|error| self.code(&error))?;
        Ok(Some(LogFile(Box::new(NamedLog::new(file, path)))))
    }

    fn open_log_to_read(&self, path: &str) -> Result<Option<LogFile>, Code> {
        if !self.are_real() {
            return self.open_log(path);
        }
        if !self.is_there(path)? {
            return Ok(None);
        }
        let file = DirectFile::open_to_read(Path::new(path)).map_err(|error| self.code(&error))?;
        Ok(Some(LogFile(Box::new(file))))
    }

    fn create_log(&self, path: &str) -> Result<LogFile, Code> {
        self.delete(path, false)?;
        if !self.are_real() {
            let flags = sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_CREATE;
            let file = VfsFile::open(self.below, path, flags)?.ok_or(Code::CANTOPEN)?;
            return Ok(LogFile(Box::new(file)));
        }
        let (path, database) = (Path::new(path), Path::new(database_of(path)));
        let file = DirectFile::create_beside(path, database).map_err(|error| self.code(&error))?;
        sync_directory(path).map_err(|error| self.code(&error))?;
        Ok(LogFile(Box::new(NamedLog::new(file, path))))
    }

    fn claim_image(&self, path: &str) -> Result<(), Code> {
        if !self.are_real() {
            return Ok(());
        }
        // The VFS below makes a new image. It takes the log for the image's database, so the image
        // gets the log's owner and mode.
        match open_beside(Path::new(path), Path::new(database_of(path))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.warn(&format!("oneflush: {path}: {error} [OF-133]"));
                Err(code_of(&error))
            }
            _ => Ok(()),
        }
    }

    fn map_image(&self, path: &str, header: &[u8]) -> Option<Box<dyn ImageMemory>> {
        if self.are_real() {
            return Some(Box::new(MappedImage::open(Path::new(path), header)?));
        }
        let file = VfsFile::open(self.below, path, sqlite::SQLITE_OPEN_READWRITE).ok()??;
        Some(Box::new(file))
    }

    fn will_read(&self, database: &str, pages: &[u32], page_bytes: usize) {
        if self.are_real() {
            page_cache::will_read(Path::new(database), pages, page_bytes as u64);
        }
    }

    fn fold_wal(&self, database: &str) -> Result<bool, String> {
        checkpoint::fold(&self.api, database)
    }

    fn recover(&self, database: &str, strategy: StrategyKind) -> Result<bool, String> {
        checkpoint::open_and_close(&self.api, database, strategy)
    }

    fn is_in_place(&self, database: &str, uuid: Uuid) -> Result<bool, Code> {
        let says_so = |words: &[u64]| board_is_open(words, Some(uuid)) && !board_is_busy(words);
        if !self.are_real() {
            let name = full_name(self.below, &board_path(database))?;
            return Ok(simulated_board::words(&name).is_some_and(|words| says_so(&words)));
        }
        if self.look_on(database, StrategyKind::Maw)?.is_none() {
            return Ok(false);
        }
        let board = File::open(board_path(database));
        Ok(board.ok().and_then(|board| read_board(&board)).is_some_and(|words| says_so(&words)))
    }

    fn retire(&self, database: &str) -> Result<(), String> {
        checkpoint::open_and_retire(&self.api, database)
    }

    fn leave_log(&self, database: &str) -> Result<bool, String> {
        checkpoint::open_and_leave(&self.api, database)
    }

    fn header(&self, database: &str) -> Result<Option<[u8; guard::HEADER_BYTES]>, Code> {
        if !self.is_there(database)? {
            return Ok(None);
        }
        // The VFS below closes no file by which another one loses its locks.
        let flags = sqlite::SQLITE_OPEN_READONLY | sqlite::SQLITE_OPEN_MAIN_DB;
        let Some(file) = VfsFile::open_as(self.below, database, flags)? else { return Ok(None) };
        match guard::header(&file.below) {
            Err(Code::SHORT_READ) => Ok(None),
            header => header.map(Some),
        }
    }

    fn may_make_files(&self, database: &str) -> bool {
        let directory = Path::new(database).parent().filter(|_| self.are_real());
        directory.is_none_or(|directory| {
            accessat(CWD, directory, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
        })
    }

    fn is_inherited(&self, database: &str) -> bool {
        forked::has_inherited(database)
    }

    fn atomic_write(&self, database: &str) -> Result<Box<dyn AtomicWrite>, String> {
        if !self.are_real() {
            return Ok(Box::new(SimulatedWrite::open(self.below, database)?));
        }
        f2fs_atomic::of_database(self.api, database)
    }

    fn exchange_file(&self, database: &str) -> Result<Box<dyn ExchangeFile>, String> {
        if !self.are_real() {
            return Ok(Box::new(SimulatedExchange::open(self.below, database)?));
        }
        exchange::of_database(self.api, database)
    }

    fn open_journal(&self, path: &str) -> Result<Option<Box<dyn Below>>, Code> {
        // SQLite's VFS reports a missing file to the error log.
        if !self.is_there(path)? {
            return Ok(None);
        }
        let flags = sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_MAIN_JOURNAL;
        match VfsFile::open_raw(self.below, path, flags) {
            Ok(file) => Ok(Some(Box::new(VfsBelow(file)))),
            Err(_) if !self.is_there(path)? => Ok(None),
            Err(code) => Err(code),
        }
    }

    fn settle_journals(
        &self,
        database: &str,
        in_order: bool,
        seen: &mut Seen,
    ) -> Result<bool, Code> {
        if !self.are_real() {
            return Ok(false);
        }
        journal_end::settle(database, in_order, seen).map(|()| true).map_err(|error| match code_of(
            &error,
        ) {
            Code::FULL => Code::FULL,
            _ => Code::IOERR_FSYNC,
        })
    }

    fn create_journal(&self, path: &str) -> Result<Box<dyn Below>, Code> {
        let flags = sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_CREATE;
        let file = VfsFile::open(self.below, path, flags)?.ok_or(Code::CANTOPEN)?;
        if file.below.size_bytes()? > 0 {
            file.below.truncate(0)?;
        }
        Ok(Box::new(VfsBelow(file)))
    }

    fn sync_database(&self, database: &str) -> Result<(), Code> {
        let file = VfsFile::open_as(
            self.below,
            database,
            sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_MAIN_DB,
        )?;
        file.ok_or(Code::CANTOPEN)?.below.sync(SyncRequest::ALL)
    }

    fn room(&self, database: &str) -> Option<Room> {
        if !self.are_real() {
            return None;
        }
        let system = rustix::fs::statvfs(database).ok()?;
        let taken =
            |path: String| rustix::fs::stat(path).map_or(0, |stat| stat.st_blocks as u64 * 512);
        Some(Room {
            free_bytes: system.f_bavail.saturating_mul(system.f_frsize),
            taken_bytes: taken(image_path(database)) + taken(log_path(database)),
        })
    }
}

impl Files {
    fn board_error(&self, database: &str, error: &io::Error) -> Code {
        self.warn(&format!("oneflush: {}: {error} [OF-134]", board_path(database)));
        code_of(error)
    }

    fn code(&self, error: &LogError) -> Code {
        self.warn(&format!("oneflush: {error}"));
        match error {
            LogError::File { source, .. } | LogError::Io { source, .. } => code_of(source),
            _ => Code::CANTOPEN,
        }
    }
}

fn code_of(error: &io::Error) -> Code {
    match error.kind() {
        _ if is_full(error) => Code::FULL,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Code::READONLY,
        _ => Code::CANTOPEN,
    }
}

/// A VFS has no rename. A simulated disk offers it as a system call of its own. It is one step
/// there, as in a file system.
fn rename(vfs: *mut sqlite::sqlite3_vfs, from: &str, to: &str) -> Result<(), Code> {
    type Rename = unsafe extern "C" fn(*const c_char, *const c_char) -> c_int;
    let name = |path| CString::new(path).map_err(|_| Code::CANTOPEN);
    let (from, to) = (name(from)?, name(to)?);
    // SAFETY: the VFS below lives for ever. Its system call "rename" takes two names, as rename(2)
    // does.
    let code = unsafe {
        let find = (*vfs).xGetSystemCall.filter(|_| (*vfs).iVersion >= 3).ok_or(Code::CANTOPEN)?;
        let found = find(vfs, c"rename".as_ptr()).ok_or(Code::CANTOPEN)?;
        std::mem::transmute::<unsafe extern "C" fn(), Rename>(found)(from.as_ptr(), to.as_ptr())
    };
    if code == sqlite::SQLITE_OK { Ok(()) } else { Err(Code(code)) }
}

fn copy(vfs: *mut sqlite::sqlite3_vfs, from: &str, to: &str) -> Result<(), Code> {
    let open = |path, flags| {
        VfsFile::open(vfs, path, sqlite::SQLITE_OPEN_READWRITE | flags)?.ok_or(Code::CANTOPEN)
    };
    let (from, to) = (open(from, 0)?, open(to, sqlite::SQLITE_OPEN_CREATE)?);
    let (size_bytes, mut piece) = (from.below.size_bytes()?, vec![0; 64 << 10]);
    for offset in (0..size_bytes).step_by(piece.len()) {
        let length = (size_bytes - offset).min(piece.len() as u64) as usize;
        from.below.read(&mut piece[..length], offset)?;
        to.below.write(&piece[..length], offset)?;
    }
    to.below.sync(SyncRequest::ALL)
}

fn full_name(vfs: *mut sqlite::sqlite3_vfs, path: &str) -> Result<String, Code> {
    let name = CString::new(path).map_err(|_| Code::CANTOPEN)?;
    // SAFETY: the VFS below lives for ever; the name is a C string, and the answer has room for the
    // longest one.
    let (code, full) = unsafe {
        let mut full = vec![0_u8; (*vfs).mxPathname as usize + 1];
        let answer = full.as_mut_ptr().cast();
        let code = (*vfs).xFullPathname.map_or(sqlite::SQLITE_CANTOPEN, |method| {
            method(vfs, name.as_ptr(), full.len() as c_int, answer)
        });
        (code, full)
    };
    if code != sqlite::SQLITE_OK {
        return Err(Code(code));
    }
    let full = CStr::from_bytes_until_nul(&full).ok().and_then(|full| full.to_str().ok());
    full.map(str::to_owned).ok_or(Code::CANTOPEN)
}
