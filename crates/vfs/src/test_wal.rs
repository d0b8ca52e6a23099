//! A WAL in memory for tests; only what reads, writes and syncs bytes works.

use crate::error::Code;
use crate::port::{Below, DeviceCharacteristics, LockLevel, SyncRequest};
use crate::sync::{Mutex, lock, ranks};

#[derive(Default)]
pub struct Wal {
    bytes: Mutex<Vec<u8>, { ranks::STUB }>,
    /// Which bytes were written through [`Below`].
    written: Mutex<Vec<bool>, { ranks::STUB }>,
    writes: Mutex<Vec<(u64, usize)>, { ranks::STUB }>,
}

impl Wal {
    pub fn extend(&self, bytes: impl IntoIterator<Item = u8>) {
        lock(&self.bytes).extend(bytes);
    }

    pub fn set(&self, offset: usize, bytes: &[u8]) {
        lock(&self.bytes)[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes(&self) -> Vec<u8> {
        lock(&self.bytes).clone()
    }

    /// Offset and length of each write through [`Below`].
    pub fn writes(&self) -> Vec<(u64, usize)> {
        lock(&self.writes).clone()
    }

    /// How many bytes from the beginning were written without a gap, and how many in all.
    pub fn written(&self) -> (usize, usize) {
        let written = lock(&self.written);
        (
            written.iter().take_while(|&&written| written).count(),
            written.iter().filter(|&&written| written).count(),
        )
    }
}

impl Below for Wal {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let bytes = lock(&self.bytes);
        let there = bytes.get(offset as usize..).unwrap_or_default();
        let len = there.len().min(buffer.len());
        buffer[..len].copy_from_slice(&there[..len]);
        buffer[len..].fill(0);
        if len < buffer.len() { Err(Code::SHORT_READ) } else { Ok(()) }
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        let end = offset as usize + data.len();
        {
            let mut bytes = lock(&self.bytes);
            let len = bytes.len().max(end);
            bytes.resize(len, 0);
        }
        self.set(offset as usize, data);
        let mut written = lock(&self.written);
        let len = written.len().max(end);
        written.resize(len, false);
        written[offset as usize..end].fill(true);
        lock(&self.writes).push((offset, data.len()));
        Ok(())
    }

    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        lock(&self.bytes).resize(size_bytes as usize, 0);
        Ok(())
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        Ok(lock(&self.bytes).len() as u64)
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        unreachable!()
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        unreachable!()
    }

    fn sector_size(&self) -> i32 {
        unreachable!()
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        unreachable!()
    }
}
