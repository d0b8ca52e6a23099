//! A file of the VFS below that this VFS opens itself.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::ops::Range;

use libsqlite3_sys as sqlite;
use oneflush_blocklog::Storage;

use super::below::BelowFile;
use super::descriptor;
use crate::error::Code;
use crate::port::{Below, DeviceCharacteristics, LockLevel, SyncRequest};
use crate::strategy::ImageMemory;

/// One of SQLite's own VFSes for Unix.
///
/// # Safety
/// The VFS lives for ever.
pub unsafe fn is_unix(vfs: *const sqlite::sqlite3_vfs) -> bool {
    // SAFETY: as the caller promises. A registered VFS has a name, which lives as long.
    unsafe { CStr::from_ptr((*vfs).zName) }.to_bytes().starts_with(b"unix")
}

pub fn exists(vfs: *mut sqlite::sqlite3_vfs, name: &CStr) -> Result<bool, Code> {
    let mut exists = 0;
    // SAFETY: the VFS below lives for ever; the name is a C string.
    let code = unsafe {
        (*vfs).xAccess.map_or(sqlite::SQLITE_IOERR_ACCESS, |method| {
            method(vfs, name.as_ptr(), sqlite::SQLITE_ACCESS_EXISTS, &mut exists)
        })
    };
    if code == sqlite::SQLITE_OK { Ok(exists != 0) } else { Err(Code(code)) }
}

/// A file of the VFS below that this VFS opened, and not SQLite. The log uses it from one thread at
/// a time.
pub struct VfsFile {
    pub below: BelowFile,
    /// The memory and the name that `xOpen` was given. The VFS below may keep pointers to both.
    _file: Box<[u64]>,
    _name: Vec<u8>,
}

/// The blocks of such a log are as large as those of the devices that real logs are on.
const BLOCK_BYTES: usize = 4096;

/// A VFS may not take 128 KiB or more at once.
const PIECE_BYTES: usize = 64 << 10;

impl VfsFile {
    /// The flag of a journal makes the first sync of the file sync its directory too.
    pub fn open(
        vfs: *mut sqlite::sqlite3_vfs,
        path: &str,
        flags: c_int,
    ) -> Result<Option<VfsFile>, Code> {
        VfsFile::open_as(vfs, path, flags | sqlite::SQLITE_OPEN_MAIN_JOURNAL)
    }

    pub fn open_as(
        vfs: *mut sqlite::sqlite3_vfs,
        path: &str,
        flags: c_int,
    ) -> Result<Option<VfsFile>, Code> {
        // URI parameters may follow a name in memory. Here there are none.
        let name = CString::new(path).map_err(|_| Code::CANTOPEN)?;
        if flags & sqlite::SQLITE_OPEN_CREATE == 0 && !exists(vfs, &name)? {
            return Ok(None);
        }
        VfsFile::open_raw(vfs, path, flags).map(Some)
    }

    /// Opens a file with these flags and no others. The caller knows whether it is there.
    pub fn open_raw(
        vfs: *mut sqlite::sqlite3_vfs,
        path: &str,
        flags: c_int,
    ) -> Result<VfsFile, Code> {
        let name = CString::new(path).map_err(|_| Code::CANTOPEN)?;
        // "Database filenames are double-zero terminated", and more names may follow.
        let name = [name.as_bytes(), &[0; 4]].concat();
        // SAFETY: the VFS below lives for ever. The file gets as much memory as the VFS asks for,
        // aligned as SQLite aligns it.
        unsafe {
            let mut file = vec![0_u64; ((*vfs).szOsFile as usize).div_ceil(8)].into_boxed_slice();
            let raw = file.as_mut_ptr().cast::<sqlite::sqlite3_file>();
            let open = (*vfs).xOpen.ok_or(Code::CANTOPEN)?;
            let code = open(vfs, name.as_ptr().cast(), raw, flags, std::ptr::null_mut());
            if code != sqlite::SQLITE_OK {
                return Err(Code(code));
            }
            let is_database = flags & sqlite::SQLITE_OPEN_MAIN_DB != 0 && is_unix(vfs);
            let descriptor = is_database.then(|| descriptor::of_unix_file(vfs, raw)).flatten();
            let below = BelowFile::new(raw).with_descriptor(descriptor, is_database);
            Ok(VfsFile { below, _file: file, _name: name })
        }
    }
}

impl Drop for VfsFile {
    fn drop(&mut self) {
        self.below.close();
    }
}

/// Such a file as a strategy uses one.
pub struct VfsBelow(pub VfsFile);

impl Below for VfsBelow {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        self.0.below.read(buffer, offset)
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        for (at, piece) in data.chunks(PIECE_BYTES).enumerate() {
            self.0.below.write(piece, offset + (at * PIECE_BYTES) as u64)?;
        }
        Ok(())
    }

    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        self.0.below.truncate(size_bytes)
    }

    fn sync(&self, request: SyncRequest) -> Result<(), Code> {
        self.0.below.sync(request)
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        self.0.below.size_bytes()
    }

    fn lock(&self, level: LockLevel) -> Result<(), Code> {
        self.0.below.lock(level)
    }

    fn unlock(&self, level: LockLevel) -> Result<(), Code> {
        self.0.below.unlock(level)
    }

    fn sector_size(&self) -> i32 {
        self.0.below.sector_size()
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        self.0.below.device_characteristics()
    }
}

fn io_error(code: Code) -> io::Error {
    match code {
        Code::SHORT_READ => io::ErrorKind::UnexpectedEof.into(),
        Code::FULL => io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()),
        Code(code) => io::Error::other(format!("code {code}")),
    }
}

impl Storage for VfsFile {
    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn alignment_bytes(&self) -> usize {
        512
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.below.size_bytes().map_err(io_error)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.below.read(buffer, offset).map_err(io_error)
    }

    /// A forced write is one write of the disk below. So each piece is forced.
    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        for (at, piece) in blocks.chunks(PIECE_BYTES).enumerate() {
            self.write(piece, offset + (at * PIECE_BYTES) as u64)?;
            let forced = self.below.sync(SyncRequest { full: false, data_only: true });
            forced.map_err(io_error)?;
        }
        Ok(())
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        for (at, piece) in blocks.chunks(PIECE_BYTES).enumerate() {
            let offset = offset + (at * PIECE_BYTES) as u64;
            self.below.write(piece, offset).map_err(io_error)?;
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.below.sync(SyncRequest::ALL).map_err(io_error)
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.zero(self.size_bytes()?..size_bytes)?;
        self.flush()
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
        let mut offset = range.start;
        while offset < range.end {
            let len = (range.end - offset).min(ZEROS.len() as u64);
            self.write(&ZEROS[..len as usize], offset)?;
            offset += len;
        }
        Ok(())
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.below.truncate(size_bytes).map_err(io_error)
    }
}

/// Stands for mapped memory, without signals. A store that would end the process there fails here,
/// with an error that the caller does not expect.
impl ImageMemory for VfsFile {
    fn page_bytes(&self) -> u64 {
        BLOCK_BYTES as u64
    }

    fn prepare(&self, range: Range<u64>) -> bool {
        self.below.size_bytes().is_ok_and(|size_bytes| range.end <= size_bytes)
    }

    fn store(&self, data: &[u8], offset: u64) -> bool {
        if let Ok(size_bytes) = self.below.size_bytes() {
            assert!(
                offset + data.len() as u64 <= size_bytes,
                "a store to memory that the image has not"
            );
        }
        self.below.write(data, offset).is_ok()
    }
}
