//! The bytes of one file, and of all files of a disk, cheap to copy: pages are shared until one
//! side writes.
//!
//! A page of zeros takes no memory, so a preallocated log costs nothing. Each page remembers its
//! hash. The hash of a whole image is a sum over its pages. So equal images are found among
//! millions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::mix::{mix_bytes, mix2};

/// The unit of sharing. It has nothing to do with the sectors of the fault model.
const PAGE_BYTES: usize = 4096;

static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

struct Page {
    bytes: [u8; PAGE_BYTES],
    /// 0: not known yet.
    hash: AtomicU64,
}

impl Clone for Page {
    fn clone(&self) -> Page {
        Page { bytes: self.bytes, hash: AtomicU64::new(0) }
    }
}

impl Page {
    pub(crate) fn hash(&self) -> u64 {
        let known = self.hash.load(Relaxed);
        if known != 0 {
            return known;
        }
        let hash = if self.bytes == ZEROS { 0 } else { mix_bytes(&self.bytes) | 1 };
        self.hash.store(hash, Relaxed);
        hash
    }
}

/// The bytes of one file.
#[derive(Clone, Default)]
pub struct Content {
    size: u64,
    /// `None`: zeros. Bytes behind `size` are always zero.
    pages: Vec<Option<Arc<Page>>>,
}

impl Content {
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn from_bytes(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.write(0, bytes);
        content
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Fills `buffer` from `offset` on, with zeros behind the end. Answers how many bytes were
    /// there.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let there = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        for (at, within, len) in pieces(offset, buffer.len()) {
            let page = (offset as usize + at) / PAGE_BYTES;
            let target = &mut buffer[at..at + len];
            match self.pages.get(page) {
                Some(Some(page)) => target.copy_from_slice(&page.bytes[within..within + len]),
                Some(None) | None => target.fill(0),
            }
        }
        there
    }

    /// The pieces that are not all zeros, each with its offset.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let pages = (0..).step_by(PAGE_BYTES).zip(&self.pages);
        pages.filter_map(|(offset, page)| {
            let len = (self.size - offset).min(PAGE_BYTES as u64) as usize;
            Some((offset, &page.as_ref()?.bytes[..len]))
        })
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.size = self.size.max(offset + data.len() as u64);
        self.pages.resize((self.size as usize).div_ceil(PAGE_BYTES), None);
        for (at, within, len) in pieces(offset, data.len()) {
            let slot = &mut self.pages[(offset as usize + at) / PAGE_BYTES];
            let source = &data[at..at + len];
            if slot.is_none() && *source == ZEROS[..len] {
                continue;
            }
            let page = slot.get_or_insert_with(|| {
                Arc::new(Page { bytes: [0; PAGE_BYTES], hash: AtomicU64::new(0) })
            });
            let page = Arc::make_mut(page);
            page.bytes[within..within + len].copy_from_slice(source);
            *page.hash.get_mut() = 0;
        }
    }

    /// Cuts the file, or extends it by zeros.
    pub fn set_size(&mut self, size: u64) {
        if size < self.size {
            let kept = size as usize % PAGE_BYTES;
            self.pages.truncate((size as usize).div_ceil(PAGE_BYTES));
            if kept != 0
                && let Some(Some(page)) = self.pages.last_mut()
            {
                let page = Arc::make_mut(page);
                page.bytes[kept..].fill(0);
                *page.hash.get_mut() = 0;
            }
        }
        self.size = size;
        self.pages.resize((size as usize).div_ceil(PAGE_BYTES), None);
    }

    pub(crate) fn hash(&self) -> u64 {
        let pages = self.pages.iter().enumerate().filter_map(|(at, page)| {
            let hash = page.as_ref()?.hash();
            (hash != 0).then(|| mix2(at as u64, hash))
        });
        mix2(self.size, pages.fold(0, u64::wrapping_add))
    }
}

/// Splits a range at the borders of pages. For each part: its start in the range, its start in the
/// page, its length.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let within = (offset as usize + at) % PAGE_BYTES;
        let piece = (at, within, (PAGE_BYTES - within).min(len - at));
        at += piece.2;
        Some(piece)
    })
}

/// All files of a disk, by path.
#[derive(Clone, Default)]
pub struct Image {
    pub files: BTreeMap<String, Content>,
}

impl Image {
    pub fn hash(&self) -> u64 {
        self.files.iter().fold(0, |hash, (name, content)| {
            mix2(hash, mix2(mix_bytes(name.as_bytes()), content.hash()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_see_later_writes() {
        let mut content = Content::from_bytes(&[1; 5000]);
        let copy = content.clone();
        content.write(4090, &[2; 20]);
        assert_eq!(copy.to_bytes(), vec![1; 5000]);
        assert_eq!(content.to_bytes()[4090..4110], [2; 20]);
    }

    #[test]
    fn what_was_cut_off_reads_as_zeros_when_the_file_grows_again() {
        let mut content = Content::from_bytes(&[1; 5000]);
        content.set_size(100);
        content.set_size(5000);
        assert_eq!(content.to_bytes()[..100], [1; 100]);
        assert!(content.to_bytes()[100..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_read_behind_the_end_says_how_much_was_there() {
        let content = Content::from_bytes(&[1; 10]);
        let mut buffer = [9; 8];
        assert_eq!(content.read(6, &mut buffer), 4);
        assert_eq!(buffer, [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(content.read(10, &mut buffer), 0);
    }

    #[test]
    fn equal_images_have_equal_hashes_however_they_came_about() {
        let mut a = Content::from_bytes(&[1; 9000]);
        a.write(4096, &[0; 4096]);
        let mut b = Content::default();
        b.write(8192, &[1; 808]);
        assert_ne!(a.hash(), b.hash());
        b.write(0, &[1; 4096]);
        assert_eq!(a.hash(), b.hash());
        b.set_size(9001);
        assert_ne!(a.hash(), b.hash());
    }
}
