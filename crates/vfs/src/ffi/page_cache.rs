//! Tells the kernel which pages of a database will be read, or should be written out.
//!
//! - Before a recovery: the pages that will be read, so that the kernel reads them all at once.
//!   After a crash of the machine nothing is in memory. Thousands of pages, one after the other,
//!   take seconds.
//! - During a checkpoint: the pages that were copied, so that the kernel begins to write them. The
//!   sync then has less left to write at once.
//!
//! A descriptor of our own would do harm: POSIX releases all locks of a process on a file when it
//! closes any descriptor of it. So SQLite's own descriptor is searched among those of the process.
//! All this is advice; where anything is missing, nothing happens.

use std::fs;
use std::num::NonZeroU64;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use oneflush_blocklog::page_cache;
use rustix::fs::{Advice, fadvise};

use super::descriptor::open_files;

/// Says that pages will be read. `pages` are sorted, and counted from 1.
pub fn will_read(database: &Path, pages: &[u32], page_bytes: u64) {
    let Some(descriptor) = descriptor_of(database) else { return };
    for run in pages.chunk_by(|page, next| page + 1 == *next) {
        let Some(first) = run.first().and_then(|page| page.checked_sub(1)) else { continue };
        // SAFETY: SQLite keeps the descriptor open while it recovers. If it were another file's by
        // now, that file would be read ahead, and no more.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let length = NonZeroU64::new(run.len() as u64 * page_bytes);
        if fadvise(descriptor, u64::from(first) * page_bytes, length, Advice::WillNeed).is_err() {
            return;
        }
    }
}

/// Has a part of a database written, and waits until it is. `descriptor` is the answer of
/// [`descriptor_of`] for it.
pub fn write_out(descriptor: RawFd, offset: u64, length: u64) {
    // SAFETY: a connection had the descriptor open when it was found. If it were another file's by
    // now, a part of that file would be written, and no more. If it were closed, the kernel would
    // say so.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    page_cache::write_out(descriptor, offset, length);
}

pub fn descriptor_of(file: &Path) -> Option<RawFd> {
    let wanted = fs::metadata(file).ok().map(|file| (file.dev(), file.ino()))?;
    open_files().ok()?.find(|&(_, id)| id == wanted).map(|(descriptor, _)| descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_descriptor_of_an_open_file_is_found_by_any_name_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        assert_eq!(descriptor_of(&path), None);
        let file = File::create(&path).unwrap();
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(descriptor_of(&path), Some(file.as_raw_fd()));
        assert_eq!(descriptor_of(&link), Some(file.as_raw_fd()));
        drop(file);
        assert_eq!(descriptor_of(&path), None);
    }

    #[test]
    fn advice_about_pages_that_are_not_there_does_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        will_read(file.path(), &[1, 2, 3, 9, u32::MAX], 4096);
        will_read(file.path(), &[0], 4096);
        will_read(Path::new("/nowhere"), &[1], 4096);
    }
}
