//! Opening: whether direct I/O is to be had, and with which blocks.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, fadvise, fcntl_getfl, fcntl_setfl, fstatfs, statx};

use super::DirectFile;
use super::measure::Measuring;
use crate::aligned::MEMORY_ALIGNMENT_BYTES;
use crate::belonging::{create_beside, open_beside};
use crate::layout::is_block_size;
use crate::page_cache::cached_pages;
use crate::{AlignedBuffer, Error, Storage};

/// Smaller blocks save nothing: flash and file systems rewrite 4 KiB for each.
const BLOCK_BYTES_MIN: usize = 4096;

/// Makes a file that must not exist, as one beside `database`; None: with mode 0644 less the umask.
pub(super) fn create(path: &Path, database: Option<&Path>) -> Result<DirectFile, Error> {
    let file = match database {
        Some(database) => create_beside(path, database),
        None => OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path),
    };
    let file = file.map_err(failed(path, "create it"))?;
    let made = || {
        let opened = with_direct_io(file, path)?;
        let block = AlignedBuffer::zeroed(opened.block_bytes);
        opened.write(&block, 0).map_err(failed(path, "write to it"))?;
        // Written a moment ago: what is in the page cache now went through it.
        if opened.is_direct() && is_cached(&opened, block.len() as u64) {
            opened.direct.store(false, Ordering::Relaxed);
        }
        Ok(opened)
    };
    // What this call made and nobody has seen is not left behind.
    made().inspect_err(|_| drop(std::fs::remove_file(path)))
}

pub(super) fn existing(path: &Path, writes: bool) -> Result<DirectFile, Error> {
    of_file(path, OpenOptions::new().read(true).write(writes).open(path))
}

pub(super) fn existing_beside(path: &Path, database: &Path) -> Result<DirectFile, Error> {
    of_file(path, open_beside(path, database))
}

fn of_file(path: &Path, file: io::Result<File>) -> Result<DirectFile, Error> {
    let file = file.map_err(failed(path, "open it"))?;
    // What the page cache holds of it may be newer than what the device does, if a sync failed. A hint: it may stay.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let opened = with_direct_io(file, path)?;
    if opened.is_direct() && reads_through_the_page_cache(&opened) {
        opened.direct.store(false, Ordering::Relaxed);
    }
    Ok(opened)
}

/// Turns direct I/O on where it is to be had. Done on the open file: with `open`, a file system that refuses the flag may have
/// created the file before it says so.
fn with_direct_io(file: File, path: &Path) -> Result<DirectFile, Error> {
    let block_bytes = block_bytes(&file).map_err(failed(path, "ask for its alignment"))?;
    let direct = block_bytes.is_some()
        && match fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags | OFlags::DIRECT)) {
            Ok(()) => true,
            Err(rustix::io::Errno::INVAL) => false,
            Err(errno) => return Err(failed(path, "turn direct I/O on")(errno.into())),
        };
    let heeds_dsync = heeds_dsync(&file).map_err(failed(path, "ask for its file system"))?;
    Ok(DirectFile {
        file,
        block_bytes: block_bytes.unwrap_or(BLOCK_BYTES_MIN),
        direct: AtomicBool::new(direct),
        dsync: AtomicBool::new(heeds_dsync),
        measuring: Mutex::new(heeds_dsync.then(Measuring::default)),
        poisoned: AtomicBool::new(false),
        pid: std::process::id(),
    })
}

/// True where `RWF_DSYNC` is known to be heeded. Some file systems take it and do nothing, which
/// would be the cheapest durable write of all. 9p, and what uses Linux's netfs library, ignore it
/// for direct writes; FUSE, for those of files with `FOPEN_DIRECT_IO`.
fn heeds_dsync(file: &File) -> io::Result<bool> {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const F2FS: i64 = 0xf2f5_2010;
    const TMPFS: i64 = 0x0102_1994;
    #[allow(clippy::unnecessary_cast, reason = "its type is another on other architectures")]
    let kind = fstatfs(file)?.f_type as i64;
    Ok([EXT4, XFS, BTRFS, F2FS, TMPFS].contains(&kind))
}

/// The blocks that direct I/O needs; `None` where the kernel says that there is no direct I/O on this file, or none that we can do.
fn block_bytes(file: &File) -> io::Result<Option<usize>> {
    let stat = match statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => stat,
        // Before Linux 6.1, or a file system that does not say.
        Ok(_) | Err(rustix::io::Errno::NOSYS) => return Ok(Some(BLOCK_BYTES_MIN)),
        Err(errno) => return Err(errno.into()),
    };
    let block_bytes = (stat.stx_dio_offset_align as usize).max(BLOCK_BYTES_MIN);
    let possible = stat.stx_dio_offset_align != 0
        && stat.stx_dio_mem_align as usize <= MEMORY_ALIGNMENT_BYTES
        && is_block_size(block_bytes);
    Ok(possible.then_some(block_bytes))
}

/// Some file systems take the flag and read and write through the page cache all the same: then a block that is read is in it.
/// Its content does not matter, nor that it cannot be read: `false` then, and the log's own reading will say why.
fn reads_through_the_page_cache(opened: &DirectFile) -> bool {
    let mut block = AlignedBuffer::zeroed(opened.block_bytes);
    opened.read_at(&mut block, 0).is_ok() && is_cached(opened, block.len() as u64)
}

/// The one sign of a file system that takes `O_DIRECT` and does buffered I/O.
fn is_cached(opened: &DirectFile, length: u64) -> bool {
    cached_pages(opened.file.as_fd(), 0, length).is_some_and(|pages| pages.cached > 0)
}

/// Makes what was created, renamed or deleted in a directory durable. `path` is the directory, or a file that is or was in it.
pub fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory: PathBuf = match path.parent() {
        _ if path.is_dir() => path.to_owned(),
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    File::open(&directory).and_then(|opened| opened.sync_all()).map_err(failed(&directory, "sync the directory"))
}

fn failed<'a>(path: &'a Path, doing: &'static str) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::File { path: path.to_owned(), doing, source }
}
