//! F2FS's atomic write, as the trait `AtomicWrite`.
//!
//! F2FS tells everybody that it has the feature. So a file is tried: what was written and aborted
//! must not be there afterwards. That costs no flush, and is done once per process and file system.
//!
//! What the kernel does (fs/f2fs/file.c, Linux 5.0 to 6.18):
//!
//! - The start makes a hidden file in the folder in which the file was made. A file of `O_TMPFILE`
//!   has none, and neither has a file whose folder is gone.
//! - The start wants the inode's owner, and a descriptor that writes without direct I/O. It
//!   succeeds if an atomic write is on already, whoever began it. So an abort goes first.
//! - The commit succeeds, as a sync, if no atomic write is on. The locks of SQLite keep everybody
//!   else from ending ours.
//! - The close of another descriptor ends an atomic write only if no further descriptor writes.
//!   Ours does.
//! - A process that dies in the middle ends its atomic write. But if it had several threads, and
//!   another process has the file open for writing, it may go on. Until it is aborted everybody
//!   reads its pages. The provider aborts it before the next read.

use std::collections::HashSet;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};

use super::api::Api;
use super::descriptor::Identity;
use super::file_system::{F2FS, FileSystem, code_of, say_unknown, unnamed_file};
use crate::error::Code;
use crate::port::{AtomicWrite, Below};
use crate::sync::{Mutex, lock};

// linux/f2fs.h
const START: Opcode = opcode::none(0xF5, 1);
const COMMIT: Opcode = opcode::none(0xF5, 2);
const ABORT: Opcode = opcode::none(0xF5, 5);

/// The file systems on which the trial has succeeded, by their devices.
static WORKS: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

/// F2FS's atomic write for an open database. The error says why there is none.
pub fn of_database(api: Api, database: &str) -> Result<Box<dyn AtomicWrite>, String> {
    let path = Path::new(database);
    must_be_f2fs(path)?;
    let identity = Identity::of(path).map_err(|error| error.to_string())?;
    let me = rustix::process::geteuid();
    if !me.is_root() && me.as_raw() != identity.owner {
        return Err("the database is another user's, and only its owner may use F2FS's atomic \
                    write"
            .to_owned());
    }
    if !lock(&WORKS).contains(&identity.device) {
        attempt(path.parent().unwrap_or(path), false)?;
        lock(&WORKS).insert(identity.device);
    }
    Ok(Box::new(F2fsFile { api, path: database.to_owned(), identity }))
}

/// Tries all of it in a folder, a durable commit included. The error says what does not work.
pub fn try_in(folder: &Path) -> Result<(), String> {
    must_be_f2fs(folder)?;
    attempt(folder, true)
}

fn must_be_f2fs(path: &Path) -> Result<(), String> {
    FileSystem::of(path)?.must_be(F2FS, "this atomic write")
}

fn attempt(folder: &Path, tries_commit: bool) -> Result<(), String> {
    let failed =
        |step, reason: std::io::Error| format!("F2FS's atomic write fails at {step}: {reason}");
    let file = unnamed_file(folder)?;
    let new = [2; 4096];
    for (commits, step) in [(false, "its abort"), (true, "its commit")] {
        if commits && !tries_commit {
            break;
        }
        call::<START>(file.as_fd()).map_err(|errno| failed("its start", errno.into()))?;
        file.write_all_at(&new, 0).map_err(|reason| failed("a write", reason))?;
        let ended = match commits {
            false => call::<ABORT>(file.as_fd()),
            true => call::<COMMIT>(file.as_fd()),
        };
        ended.map_err(|errno| failed(step, errno.into()))?;
        let mut found = [0; 4096];
        let is_there = file.read_exact_at(&mut found, 0).is_ok() && found == new;
        if is_there != commits {
            return Err(format!("F2FS's atomic write does not do what it should: {step}"));
        }
    }
    Ok(())
}

fn call<const CODE: Opcode>(file: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: these calls of F2FS take no argument. Another file system does not know them.
    unsafe { ioctl(file, NoArg::<CODE>::new()) }
}

struct F2fsFile {
    api: Api,
    path: String,
    identity: Identity,
}

impl AtomicWrite for F2fsFile {
    fn start(&self, main: &dyn Below, in_parts: Option<Range<u64>>) -> bool {
        self.identity.descriptor_of(main).is_some_and(|file| {
            let _ = call::<ABORT>(file);
            // The commit fails with ENOENT where a part of a new block lies in a node block that is
            // not there yet (Linux 6.1). With space it is there.
            let has_space = in_parts.is_none_or(|new| {
                let length = new.end - new.start;
                fallocate(file, FallocateFlags::KEEP_SIZE, new.start, length).is_ok()
            });
            has_space && call::<START>(file).is_ok()
        })
    }

    fn commit(&self, main: &dyn Below) -> Result<(), Code> {
        let file = self.identity.descriptor_of(main).ok_or(Code::IOERR_WRITE)?;
        call::<COMMIT>(file).map_err(|errno| match code_of(errno) {
            Code::FULL => Code::FULL,
            _ => Code::IOERR_FSYNC,
        })
    }

    fn abort(&self, main: &dyn Below) {
        if let Some(file) = self.identity.descriptor_of(main) {
            let _ = call::<ABORT>(file);
        }
    }

    fn say_unknown(&self) {
        say_unknown(&self.api, &self.path, "F2FS");
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_calls_are_those_of_the_kernel() {
        assert_eq!([START, COMMIT, ABORT], [0xF501, 0xF502, 0xF505]);
    }

    #[test]
    fn a_file_system_that_is_not_f2fs_is_named() {
        let reason = try_in(Path::new("/proc")).unwrap_err();
        assert!(reason.contains("of type 0x9fa0, and only F2FS has"), "{reason}");
    }
}
