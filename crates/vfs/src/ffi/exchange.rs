//! XFS's exchange of file contents, as the trait `ExchangeFile`.
//!
//! The feature has to be in the file system (`mkfs.xfs -i exchange=1`) and in the kernel (Linux
//! 6.10). So two files without names are tried, once per process and file system.
//!
//! What the kernel does (fs/xfs/xfs_exchrange.c):
//!
//! - Both ranges begin at a block. They end at a block, or where their files end.
//! - Before it begins, it writes out the dirty pages of both ranges and drops the clean ones.
//! - `FILE1_WRITTEN` leaves holes of the temporary file alone. So only written blocks go over.
//! - The mappings change in one chain of transactions, which recovery finishes. An error before the
//!   chain leaves both files as they were. An error within it shuts the file system down.
//! - `DSYNC` forces the log. Its flush covers the data that were written before.

use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::LazyLock;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

use super::api::Api;
use super::descriptor::Identity;
use super::file_system::{FileSystem, XFS, code_of, code_of_io, say_unknown, temporary_file};
use crate::error::Code;
use crate::port::{Below, ExchangeFile};
use crate::sync::{Mutex, lock};

/// `struct xfs_exchange_range` (xfs_fs.h). File 2 is the one that gets the call.
#[repr(C)]
struct ExchangeRange {
    file1: i32,
    pad: u32,
    offset1: u64,
    offset2: u64,
    length: u64,
    flags: u64,
}

const EXCHANGE: Opcode = opcode::write::<ExchangeRange>(b'X', 129);
const DSYNC: u64 = 1 << 1;
const FILE1_WRITTEN: u64 = 1 << 3;

/// The file systems on which the trial has succeeded, by their devices.
static WORKS: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

/// A temporary file for this open database. The error says why there is none.
pub fn of_database(api: Api, database: &str) -> Result<Box<dyn ExchangeFile>, String> {
    let path = Path::new(database);
    let block_bytes = must_be_xfs(path)?.block_bytes;
    let identity = Identity::of(path).map_err(|error| error.to_string())?;
    let folder = path.parent().unwrap_or(path);
    let file = temporary_file(folder)?;
    if file.metadata().map_err(|error| error.to_string())?.dev() != identity.device {
        return Err("the database and its folder are on different file systems".to_owned());
    }
    if !lock(&WORKS).contains(&identity.device) {
        attempt(folder, block_bytes)?;
        lock(&WORKS).insert(identity.device);
    }
    Ok(Box::new(XfsFile { api, path: database.to_owned(), identity, file, block_bytes }))
}

/// Tries all of it in a folder. The error says what does not work.
pub fn try_in(folder: &Path) -> Result<(), String> {
    attempt(folder, must_be_xfs(folder)?.block_bytes)
}

fn must_be_xfs(path: &Path) -> Result<FileSystem, String> {
    let here = FileSystem::of(path)?;
    here.must_be(XFS, "an exchange of file contents").map(|()| here)
}

fn attempt(folder: &Path, block_bytes: u64) -> Result<(), String> {
    let io = |error: std::io::Error| format!("the trial of XFS's exchange: {error}");
    let (file1, file2) = (temporary_file(folder)?, temporary_file(folder)?);
    let block = block_bytes as usize;
    // The first block is written to both. The second one is not in file 1, and must stay.
    file1.write_all_at(&vec![1; block], 0).map_err(io)?;
    file1.set_len(2 * block_bytes).map_err(io)?;
    file2.write_all_at(&vec![2; 2 * block], 0).map_err(io)?;
    exchange(&file1, file2.as_fd(), 0..2 * block_bytes).map_err(reason)?;
    let mut found = vec![0; 2 * block];
    file2.read_exact_at(&mut found, 0).map_err(io)?;
    let (first, second) = found.split_at(block);
    if first.iter().all(|&byte| byte == 1) && second.iter().all(|&byte| byte == 2) {
        return Ok(());
    }
    Err("XFS's exchange does not do what it should".to_owned())
}

/// Why a file system has no exchange.
fn reason(errno: Errno) -> String {
    match errno {
        Errno::NOTTY => {
            "this kernel has no exchange of file contents; Linux 6.10 and later have".to_owned()
        }
        Errno::OPNOTSUPP => {
            "this XFS was made without the feature exchange; mkfs.xfs -i exchange=1 \
                             makes it"
                .to_owned()
        }
        _ => format!("XFS's exchange fails: {errno}"),
    }
}

fn exchange(file1: &File, file2: BorrowedFd<'_>, range: Range<u64>) -> Result<(), Errno> {
    let argument = ExchangeRange {
        file1: file1.as_raw_fd(),
        pad: 0,
        offset1: range.start,
        offset2: range.start,
        length: range.end - range.start,
        flags: DSYNC | FILE1_WRITTEN,
    };
    // SAFETY: the call reads this struct, which lives that long, and both files are open.
    unsafe { ioctl(file2, Setter::<EXCHANGE, ExchangeRange>::new(argument)) }
}

struct XfsFile {
    api: Api,
    path: String,
    identity: Identity,
    file: File,
    block_bytes: u64,
}

impl ExchangeFile for XfsFile {
    fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    fn empty(&self) -> Result<(), Code> {
        self.resize(0)
    }

    fn resize(&self, size_bytes: u64) -> Result<(), Code> {
        self.file.set_len(size_bytes).map_err(|error| code_of_io(&error))
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        self.file.write_all_at(data, offset).map_err(|error| code_of_io(&error))
    }

    fn exchange(&self, main: &dyn Below, range: Range<u64>) -> Result<bool, Code> {
        let Some(main) = self.identity.descriptor_of(main) else { return Ok(false) };
        match exchange(&self.file, main, range) {
            Ok(()) => Ok(true),
            // The kernel looks at the two files before it does anything.
            Err(
                Errno::NOTTY
                | Errno::OPNOTSUPP
                | Errno::INVAL
                | Errno::PERM
                | Errno::XDEV
                | Errno::TXTBSY,
            ) => Ok(false),
            Err(errno) => Err(match code_of(errno) {
                Code::FULL => Code::FULL,
                _ => Code::IOERR_FSYNC,
            }),
        }
    }

    fn say_unknown(&self) {
        say_unknown(&self.api, &self.path, "XFS");
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn the_call_is_the_kernels() {
        assert_eq!(size_of::<ExchangeRange>(), 40);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(EXCHANGE, 0x4028_5881);
    }

    #[test]
    fn a_missing_feature_and_an_old_kernel_are_told_apart() {
        assert!(reason(Errno::OPNOTSUPP).contains("mkfs.xfs -i exchange=1"));
        assert!(reason(Errno::NOTTY).contains("Linux 6.10"));
        let reason = try_in(Path::new("/proc")).unwrap_err();
        assert!(reason.contains("of type 0x9fa0, and only XFS has"), "{reason}");
    }
}
