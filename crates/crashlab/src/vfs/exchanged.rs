//! A temporary file whose written blocks change places with a database's, as XFS does it.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::content::Content;
use crate::disk::{Disk, DiskError};
use crate::log::Ino;

const BLOCK_BYTES: u64 = 4096;

#[derive(Default)]
pub struct Exchanged {
    pub content: Content,
    /// Blocks that are no holes.
    written: BTreeSet<u64>,
}

impl Exchanged {
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.content.write(offset, data);
        let end = (offset + data.len() as u64).div_ceil(BLOCK_BYTES);
        self.written.extend(offset / BLOCK_BYTES..end);
    }

    /// Cuts the file, or extends it by a hole.
    pub fn set_size(&mut self, size_bytes: u64) {
        self.content.set_size(size_bytes);
        self.written.split_off(&size_bytes.div_ceil(BLOCK_BYTES));
    }

    /// The written blocks of this range change places with the database's, all or none, durably.
    /// Bytes behind the end of the database are not part of it.
    pub fn exchange(
        &mut self,
        disk: &mut Disk,
        database: Ino,
        range: Range<u64>,
    ) -> Result<(), DiskError> {
        let size_bytes = disk.size(database);
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for &block in self.written.range(blocks) {
            let offset = block * BLOCK_BYTES;
            let len = size_bytes.saturating_sub(offset).min(BLOCK_BYTES) as usize;
            let mut bytes = vec![0; len];
            disk.read(database, offset, &mut bytes)?;
            old.push((offset, bytes.clone()));
            self.content.read(offset, &mut bytes);
            new.push((offset, bytes));
        }
        disk.write_atomically(database, new)?;
        old.iter().for_each(|(offset, bytes)| self.content.write(*offset, bytes));
        Ok(())
    }
}
