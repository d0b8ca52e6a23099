//! The atomic writes of a simulated disk.
//!
//! | provider | what the VFS below offers |
//! |---|---|
//! | F2FS | `SQLITE_FCNTL_BEGIN_ATOMIC_WRITE` and its companions, on the database file |
//! | XFS | temporary files with a name, and a system call "exchange" |

use std::ffi::{CString, c_char, c_int};
use std::ops::Range;

use libsqlite3_sys as sqlite;

use super::carried::arrived;
use super::vfs_file::VfsFile;
use crate::error::Code;
use crate::port::{AtomicWrite, Below, ExchangeFile};

/// An open database file of its own, for the writes of one connection.
pub struct SimulatedWrite(VfsFile);

impl SimulatedWrite {
    pub fn open(vfs: *mut sqlite::sqlite3_vfs, database: &str) -> Result<SimulatedWrite, String> {
        let flags = sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_MAIN_DB;
        let file = VfsFile::open_raw(vfs, database, flags);
        let file = SimulatedWrite(file.map_err(|code| format!("code {}", code.0))?);
        let started = file.control(sqlite::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE);
        started.map_err(|code| format!("it is not there: code {}", code.0))?;
        let _ = file.control(sqlite::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE);
        Ok(file)
    }

    fn control(&self, op: c_int) -> Result<(), Code> {
        arrived(self.0.below.file_control(op, std::ptr::null_mut()))
    }
}

impl AtomicWrite for SimulatedWrite {
    fn start(&self, _: &dyn Below, _: Option<Range<u64>>) -> bool {
        self.control(sqlite::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE).is_ok()
    }

    fn write(&self, _: &dyn Below, data: &[u8], offset: u64) -> Result<(), Code> {
        self.0.below.write(data, offset)
    }

    fn commit(&self, _: &dyn Below) -> Result<(), Code> {
        self.control(sqlite::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE)
    }

    fn abort(&self, _: &dyn Below) {
        let _ = self.control(sqlite::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE);
    }

    fn say_unknown(&self) {}
}

/// The temporary file, the database, and the range: `exchange(file, name, from, to)`.
type Exchange = unsafe extern "C" fn(*mut sqlite::sqlite3_file, *const c_char, i64, i64) -> c_int;

/// A temporary file without a place among the names of the disk.
pub struct SimulatedExchange {
    temporary: VfsFile,
    database: CString,
    exchange: Exchange,
}

/// The block of the simulated file system.
const BLOCK_BYTES: u64 = 4096;

impl SimulatedExchange {
    pub fn open(
        vfs: *mut sqlite::sqlite3_vfs,
        database: &str,
    ) -> Result<SimulatedExchange, String> {
        // SAFETY: the VFS below lives for ever. Its system call "exchange" is of this type.
        let exchange = unsafe {
            let find = (*vfs).xGetSystemCall.filter(|_| (*vfs).iVersion >= 3);
            let found = find.and_then(|find| find(vfs, c"exchange".as_ptr()));
            let found = found.ok_or("it is not there")?;
            std::mem::transmute::<unsafe extern "C" fn(), Exchange>(found)
        };
        let flags = sqlite::SQLITE_OPEN_READWRITE
            | sqlite::SQLITE_OPEN_CREATE
            | sqlite::SQLITE_OPEN_DELETEONCLOSE
            | sqlite::SQLITE_OPEN_TEMP_DB;
        let temporary = VfsFile::open_raw(vfs, &format!("{database}-exchange"), flags);
        let temporary = temporary.map_err(|code| format!("code {}", code.0))?;
        let database = CString::new(database).map_err(|error| error.to_string())?;
        Ok(SimulatedExchange { temporary, database, exchange })
    }
}

impl ExchangeFile for SimulatedExchange {
    fn block_bytes(&self) -> u64 {
        BLOCK_BYTES
    }

    fn empty(&self) -> Result<(), Code> {
        self.temporary.below.truncate(0)
    }

    fn resize(&self, size_bytes: u64) -> Result<(), Code> {
        self.temporary.below.truncate(size_bytes)
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        self.temporary.below.write(data, offset)
    }

    fn exchange(&self, _: &dyn Below, range: Range<u64>) -> Result<bool, Code> {
        let (from, to) = (range.start as i64, range.end as i64);
        // SAFETY: the temporary file is open, and the name is a C string.
        let code = unsafe {
            (self.exchange)(self.temporary.below.raw(), self.database.as_ptr(), from, to)
        };
        arrived(code).map(|()| true)
    }

    fn say_unknown(&self) {}
}
