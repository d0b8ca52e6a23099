//! Opening: whether direct I/O is possible, and with which blocks.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{
    Advice, AtFlags, OFlags, StatxFlags, fadvise, fcntl_getfl, fcntl_setfl, fstatfs, statx,
};

use super::DirectFile;
use super::measure::Measuring;
use crate::aligned::MEMORY_ALIGNMENT_BYTES;
use crate::belonging::{create_beside, open_beside};
use crate::layout::is_block_size;
use crate::page_cache::cached_pages;
use crate::{AlignedBuffer, Error, Storage};

/// Smaller blocks save nothing: flash and file systems rewrite 4 KiB for each.
const BLOCK_BYTES_MIN: usize = 4096;

impl DirectFile {
    /// Opens a file. With `create` it makes the file, which must not exist, with mode 0644 less the
    /// umask. The first durable writes of one block tell which kind costs least.
    pub fn open(path: &Path, create: bool) -> Result<DirectFile, Error> {
        if create { self::create(path, None) } else { existing(path, true) }
    }

    /// Opens a file for reading only. Every write fails.
    pub fn open_to_read(path: &Path) -> Result<DirectFile, Error> {
        existing(path, false)
    }

    /// Makes a file that must not exist, with the database's owner, group and mode
    /// ([`crate::belonging`]).
    pub fn create_beside(path: &Path, database: &Path) -> Result<DirectFile, Error> {
        create(path, Some(database))
    }

    /// Opens a file and gives it the database's owner, group and mode.
    pub fn open_beside(path: &Path, database: &Path) -> Result<DirectFile, Error> {
        existing_beside(path, database)
    }
}

/// Makes a file that must not exist, as one beside `database`. `None`: with mode 0644 less the
/// umask.
fn create(path: &Path, database: Option<&Path>) -> Result<DirectFile, Error> {
    let file = match database {
        Some(database) => create_beside(path, database),
        None => OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path),
    };
    let file = file.map_err(failed(path, "create it"))?;
    let made = || {
        let opened = with_direct_io(file, path)?;
        let block = AlignedBuffer::zeroed(opened.block_bytes);
        opened.write(&block, 0).map_err(failed(path, "write to it"))?;
        // The block was written a moment ago. If the page cache has it now, the write went through
        // the cache.
        if opened.is_direct() && is_cached(&opened, block.len() as u64) {
            opened.direct.store(false, Ordering::Relaxed);
        }
        Ok(opened)
    };
    // Nobody has seen the file that this call made. It is not left behind.
    made().inspect_err(|_| drop(std::fs::remove_file(path)))
}

fn existing(path: &Path, writes: bool) -> Result<DirectFile, Error> {
    of_file(path, OpenOptions::new().read(true).write(writes).open(path))
}

fn existing_beside(path: &Path, database: &Path) -> Result<DirectFile, Error> {
    of_file(path, open_beside(path, database))
}

fn of_file(path: &Path, file: io::Result<File>) -> Result<DirectFile, Error> {
    let file = file.map_err(failed(path, "open it"))?;
    // If a sync failed, the page cache may hold newer bytes than the device. This is a hint: they
    // may stay in the cache.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let opened = with_direct_io(file, path)?;
    if opened.is_direct() && reads_through_the_page_cache(&opened) {
        opened.direct.store(false, Ordering::Relaxed);
    }
    Ok(opened)
}

/// Turns direct I/O on where it is possible. This is done on the open file. An `open` with the flag
/// may create the file before the file system refuses.
fn with_direct_io(file: File, path: &Path) -> Result<DirectFile, Error> {
    let blocks = blocks(&file).map_err(failed(path, "ask for its alignment"))?;
    let direct = blocks.is_some()
        && match fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::DIRECT)) {
            Ok(()) => true,
            Err(rustix::io::Errno::INVAL) => false,
            Err(errno) => return Err(failed(path, "turn direct I/O on")(errno.into())),
        };
    let heeds_dsync = heeds_dsync(&file).map_err(failed(path, "ask for its file system"))?;
    Ok(DirectFile {
        file,
        block_bytes: blocks.map_or(BLOCK_BYTES_MIN, |(block_bytes, _)| block_bytes),
        // Buffered I/O wants none.
        alignment_bytes: blocks.map_or(512, |(_, alignment_bytes)| alignment_bytes),
        direct: AtomicBool::new(direct),
        dsync: AtomicBool::new(heeds_dsync),
        measuring: Mutex::new(heeds_dsync.then(Measuring::default)),
        poisoned: AtomicBool::new(false),
        #[cfg(feature = "uring")]
        in_flight: Mutex::default(),
        written_bytes: AtomicU64::new(0),
        zeros_bytes: AtomicU64::new(0),
        #[cfg(feature = "uring")]
        reading: Mutex::default(),
        pid: std::process::id(),
    })
}

/// True where `RWF_DSYNC` is known to be heeded. Some file systems take it and do nothing.
/// That would look like the cheapest durable write of all. 9p, and everything on Linux's netfs
/// library, ignores it for direct writes. FUSE ignores it for files with `FOPEN_DIRECT_IO`. F2FS
/// flushes for every second direct write only (Linux 6.1, `guest/power-cut --fs f2fs`). It notes
/// that a write wants a flush after that write has been synced.
fn heeds_dsync(file: &File) -> io::Result<bool> {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const TMPFS: i64 = 0x0102_1994;
    #[allow(clippy::unnecessary_cast, reason = "its type is another on other architectures")]
    let kind = fstatfs(file)?.f_type as i64;
    Ok([EXT4, XFS, BTRFS, TMPFS].contains(&kind))
}

/// The blocks that the log has, and the alignment that direct I/O needs. `None`: the kernel says
/// that this file has no direct I/O, or none that is possible here.
fn blocks(file: &File) -> io::Result<Option<(usize, usize)>> {
    let stat = match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => stat,
        // Before Linux 6.1, or a file system that does not say.
        Ok(_) | Err(rustix::io::Errno::NOSYS) => {
            return Ok(Some((BLOCK_BYTES_MIN, BLOCK_BYTES_MIN)));
        }
        Err(errno) => return Err(errno.into()),
    };
    let alignment_bytes = (stat.stx_dio_offset_align as usize).max(512);
    let block_bytes = alignment_bytes.max(BLOCK_BYTES_MIN);
    let possible = stat.stx_dio_offset_align != 0
        && stat.stx_dio_mem_align as usize <= MEMORY_ALIGNMENT_BYTES
        && is_block_size(block_bytes);
    Ok(possible.then_some((block_bytes, alignment_bytes)))
}

/// True if direct reads go through the page cache: then a block that was read is in it. The content
/// of the block does not matter. If it cannot be read the answer is `false`, and the log's own
/// reading will say why.
fn reads_through_the_page_cache(opened: &DirectFile) -> bool {
    let mut block = AlignedBuffer::zeroed(opened.block_bytes);
    opened.read_at(&mut block, 0).is_ok() && is_cached(opened, block.len() as u64)
}

/// The one sign of a file system that takes `O_DIRECT` and does buffered I/O.
fn is_cached(opened: &DirectFile, length: u64) -> bool {
    cached_pages(opened.file.as_fd(), 0, length).is_some_and(|pages| pages.cached > 0)
}

/// Makes durable what was created, renamed or deleted in a directory. `path` is the directory, or a
/// file that is or was in it.
pub fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory: PathBuf = match path.parent() {
        _ if path.is_dir() => path.to_owned(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    File::open(&directory)
        .and_then(|opened| opened.sync_all())
        .map_err(failed(&directory, "sync the directory"))
}

fn failed<'a>(path: &'a Path, doing: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File { path: path.to_owned(), doing, source }
}
