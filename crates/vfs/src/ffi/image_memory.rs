//! The image of `eager` in the memory of the process, where a store costs less than a write.
//!
//! The kernel ends a process by a signal if it cannot carry out a store: the file has no such byte,
//! or the disk has no room. The kernel is therefore asked for the pages first, to write to them.
//! Its answer is an error and no signal (`MADV_POPULATE_WRITE`, Linux 5.14; an older kernel always
//! answers with an error).
//!
//! On ext4 such a page has its block, or room for it is set aside, until the file is cut. A store
//! that follows can then fail in one case only: the page was written out, left memory, and cannot
//! be read again. SQLite's own WAL index, beside the image and mapped in the same way, has the same
//! risk.
//!
//! On other file systems the image is written as any file. Where each version of a block gets a new
//! place (btrfs, a reflinked file on XFS), there may be no room for it. On XFS a write also costs
//! less: 12 KB through the page cache take 4 µs there, and 13 µs on ext4.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;

use oneflush_blocklog::ground::mounts;
use rustix::fs::OFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;

use crate::strategy::{IMAGE_MEMORY_BYTES, ImageMemory};

const LEN_BYTES: usize = IMAGE_MEMORY_BYTES as usize;

/// An address range of [`LEN_BYTES`]. How much of it the file has changes.
pub struct MappedImage(NonNull<c_void>);

// SAFETY: the mapping lives as long as the value, and there are no references into it.
unsafe impl Send for MappedImage {}
// SAFETY: as above. SQLite's write lock decides who may store where at a time, as it does for
// writes to the file.
unsafe impl Sync for MappedImage {}

impl MappedImage {
    /// None: the image cannot be mapped here, or the file of this path does not begin with
    /// `header`.
    pub fn open(path: &Path, header: &[u8]) -> Option<MappedImage> {
        // The close of this descriptor releases POSIX locks on the file. SQLite has none on a WAL.
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
        let mut found = vec![0; header.len()];
        file.read_exact_at(&mut found, 0).ok()?;
        let device = rustix::fs::fstat(&file).ok()?.st_dev;
        let is_on_ext4 = is_mounted_as_ext4(&mounts().ok()?, device);
        if found == header && is_on_ext4 { MappedImage::map(&file) } else { None }
    }

    fn map(file: &File) -> Option<MappedImage> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping. A page is used only after the kernel has said that it is there.
        let start = unsafe {
            mmap(std::ptr::null_mut(), LEN_BYTES, access, MapFlags::SHARED, file.as_fd(), 0)
        };
        NonNull::new(start.ok()?).map(MappedImage)
    }
}

impl ImageMemory for MappedImage {
    fn page_bytes(&self) -> u64 {
        page_size() as u64
    }

    fn prepare(&self, range: Range<u64>) -> bool {
        let Some(range) = within(&range) else { return false };
        let begin = range.start / page_size() * page_size();
        // SAFETY: pages of the mapping, and nothing in them changes.
        unsafe {
            madvise(self.0.byte_add(begin).as_ptr(), range.end - begin, Advice::LinuxPopulateWrite)
                .is_ok()
        }
    }

    fn store(&self, data: &[u8], offset: u64) -> bool {
        let Some(range) = within(&(offset..offset.saturating_add(data.len() as u64))) else {
            return false;
        };
        // SAFETY: inside of the mapping. The caller's data is elsewhere, since no reference into
        // the mapping exists.
        unsafe {
            std::ptr::copy_nonoverlapping(
                data.as_ptr(),
                self.0.byte_add(range.start).cast().as_ptr(),
                data.len(),
            );
        }
        true
    }
}

/// ext2's own driver has the same magic number as ext4. It finds out whether there is room for a
/// page only when it writes the page out.
fn is_mounted_as_ext4(mountinfo: &str, device: u64) -> bool {
    let name = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let is_ext4 = |line: &str| {
        // "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
        // (proc(5))
        let (mount, kind) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == name).then_some(kind.split(' ').next()? == "ext4")
    };
    mountinfo.lines().find_map(is_ext4) == Some(true)
}

/// The range in the mapping. None: not all of it is mapped.
fn within(range: &Range<u64>) -> Option<Range<usize>> {
    let is_within = range.start <= range.end && range.end <= IMAGE_MEMORY_BYTES;
    is_within.then_some(range.start as usize..range.end as usize)
}

impl Drop for MappedImage {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, and nobody uses it any more.
        let _ = unsafe { munmap(self.0.as_ptr(), LEN_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(size_bytes: u64) -> (File, MappedImage) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size_bytes).unwrap();
        let image = MappedImage::map(&file).unwrap();
        (file, image)
    }

    #[test]
    fn what_is_stored_is_what_a_read_of_the_file_finds() {
        let (file, image) = mapped(1 << 20);
        assert!(image.prepare(100_000..120_000));
        assert!(image.store(&[7; 12_000], 104_000));
        let mut found = [1; 14_000];
        file.read_exact_at(&mut found, 103_000).unwrap();
        assert!(
            found[..1000] == [0; 1000]
                && found[1000..13_000] == [7; 12_000]
                && found[13_000..] == [0; 1000]
        );
    }

    #[test]
    fn pages_that_the_file_has_no_more_are_refused_without_a_signal() {
        let (file, image) = mapped(1 << 20);
        assert!(image.prepare(0..1 << 20));
        file.set_len(32).unwrap();
        assert!(image.prepare(0..32));
        assert!(!image.prepare(0..page_size() as u64 + 1));
        assert!(!image.prepare(65_536..70_000));
        file.set_len(1 << 20).unwrap();
        assert!(image.prepare(65_536..70_000));
        assert!(!image.prepare(LEN_BYTES as u64 - 10..LEN_BYTES as u64 + 10));
        assert!(!image.store(&[1; 20], LEN_BYTES as u64 - 10));
    }

    #[test]
    fn only_what_is_mounted_as_ext4_is_taken_for_it() {
        let mounts = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                      36 22 98:0 /a /b rw master:1 - ext2 /dev/loop0 rw\n\
                      37 22 0:25 / /c rw - ext4x none rw\n";
        let is_ext4 = |major, minor| is_mounted_as_ext4(mounts, rustix::fs::makedev(major, minor));
        assert!(is_ext4(254, 0));
        assert!(!is_ext4(98, 0) && !is_ext4(0, 25) && !is_ext4(254, 1));
    }

    #[test]
    fn a_file_that_begins_otherwise_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, [1; 5000]).unwrap();
        assert!(MappedImage::open(&path, &[2; 32]).is_none());
        assert!(MappedImage::open(&folder.path().join("none"), &[1; 32]).is_none());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(MappedImage::open(&link, &[1; 32]).is_none());
    }
}
