//! A disk for the tests of the providers: calls fail where a test says so.

use std::ops::Range;

use super::overlay::Overlay;
use crate::error::Code;
use crate::port::{Below, DeviceCharacteristics, LockLevel, SyncRequest};
use crate::sync::{Mutex, lock, ranks};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Start,
    Write,
    Commit,
    /// The change is in the file and does not become durable.
    Durable,
    Truncate,
    Empty,
    Resize,
    TemporaryWrite,
    Exchange,
    /// Fails: the kernel does not want these two files.
    Refused,
}

/// A database file, and what an atomic write keeps apart.
#[derive(Default)]
pub struct Disk(Mutex<State, { ranks::STUB }>);

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    before: Option<Vec<u8>>,
    failing: Option<(Call, Code)>,
    has_said: bool,
}

impl Disk {
    pub fn bytes(&self) -> Vec<u8> {
        lock(&self.0).bytes.clone()
    }

    /// The next call of this kind fails.
    pub fn fail(&self, call: Call, code: Code) {
        lock(&self.0).failing = Some((call, code));
    }

    pub fn heal(&self) {
        lock(&self.0).failing = None;
    }

    pub fn step(&self, call: Call) -> Result<(), Code> {
        let mut state = lock(&self.0);
        match state.failing {
            Some((failing, code)) if failing == call => {
                state.failing = None;
                Err(code)
            }
            _ => Ok(()),
        }
    }

    pub fn begin(&self) {
        let mut state = lock(&self.0);
        state.before = Some(state.bytes.clone());
    }

    pub fn end(&self, commits: bool) {
        let mut state = lock(&self.0);
        if let Some(before) = state.before.take().filter(|_| !commits) {
            state.bytes = before;
        }
    }

    pub fn say(&self) {
        lock(&self.0).has_said = true;
    }

    pub fn has_said(&self) -> bool {
        lock(&self.0).has_said
    }
}

impl Below for Disk {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let state = lock(&self.0);
        let there = state.bytes.get(offset as usize..).unwrap_or_default();
        let len = there.len().min(buffer.len());
        buffer[..len].copy_from_slice(&there[..len]);
        buffer[len..].fill(0);
        if len < buffer.len() { Err(Code::SHORT_READ) } else { Ok(()) }
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        self.step(Call::Write)?;
        let mut state = lock(&self.0);
        let end = offset as usize + data.len();
        let len = state.bytes.len().max(end);
        state.bytes.resize(len, 0);
        state.bytes[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        self.step(Call::Truncate)?;
        lock(&self.0).bytes.resize(size_bytes as usize, 0);
        Ok(())
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        unreachable!()
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        Ok(lock(&self.0).bytes.len() as u64)
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

/// A file whose blocks can change places with a disk's, as the kernel checks it.
pub struct Temporary {
    pub block_bytes: u64,
    file: Mutex<(Vec<u8>, Vec<bool>), { ranks::STUB }>,
}

impl Temporary {
    pub fn new(block_bytes: u64) -> Temporary {
        Temporary { block_bytes, file: Mutex::default() }
    }

    pub fn resize(&self, size_bytes: u64) {
        let mut file = lock(&self.file);
        file.0.resize(size_bytes as usize, 0);
        file.1.resize(size_bytes.div_ceil(self.block_bytes) as usize, false);
    }

    pub fn write(&self, data: &[u8], offset: u64) {
        assert!(offset.is_multiple_of(self.block_bytes), "whole blocks only");
        let mut file = lock(&self.file);
        let end = offset as usize + data.len();
        assert!(end == file.0.len() || data.len().is_multiple_of(self.block_bytes as usize));
        file.0[offset as usize..end].copy_from_slice(data);
        let first = (offset / self.block_bytes) as usize;
        file.1[first..end.div_ceil(self.block_bytes as usize)].fill(true);
    }

    pub fn exchange(&self, disk: &Disk, range: Range<u64>) {
        let (mut file, mut state) = (lock(&self.file), lock(&disk.0));
        let (bytes, written) = &mut *file;
        assert!(range.start.is_multiple_of(self.block_bytes) && range.start < range.end);
        assert!(range.end as usize <= bytes.len().min(state.bytes.len()));
        let at_end = range.end as usize == bytes.len() && bytes.len() == state.bytes.len();
        assert!(at_end || range.end.is_multiple_of(self.block_bytes));
        for block in range.start / self.block_bytes..range.end.div_ceil(self.block_bytes) {
            if written[block as usize] {
                let from = (block * self.block_bytes) as usize;
                let to = (from + self.block_bytes as usize).min(range.end as usize);
                bytes[from..to].swap_with_slice(&mut state.bytes[from..to]);
            }
        }
    }
}

const PAGE: u64 = 1024;
const PAGES: u64 = 11;

/// Page numbers that are written, and the pages of the file afterwards.
pub type Change = (&'static [u64], u64);

pub fn changes() -> Vec<(&'static str, Change)> {
    vec![
        ("some pages", (&[1, 2, 6], PAGES)),
        ("the last page", (&[1, 11], PAGES)),
        ("growth", (&[1, 11, 12, 13, 17], 17)),
        ("growth with a hole", (&[1, 16], 16)),
        ("growth to a whole block", (&[1, 12], 12)),
        ("shrink", (&[1, 3], 5)),
        ("shrink within a block", (&[1, 9], 9)),
        ("shrink to one page", (&[1], 1)),
        ("cut", (&[], 3)),
    ]
}

/// A disk, such a change of it that is not committed yet, and the file with it.
pub fn overlay_of((pages, after): Change) -> (std::sync::Arc<Disk>, Overlay, Vec<u8>) {
    let disk = Disk::default();
    lock(&disk.0).bytes = (0..PAGES * PAGE).map(|at| (at / 7 % 251) as u8).collect();
    let mut overlay = Overlay::default();
    let mut expected = disk.bytes();
    expected.resize((after * PAGE) as usize, 0);
    if after < PAGES {
        overlay.truncate(&disk, PAGE, after * PAGE).unwrap();
    }
    for page in pages {
        let (data, at) = (vec![0xa0 + *page as u8; PAGE as usize], (page - 1) * PAGE);
        overlay.write(&disk, PAGE, &data, at).unwrap();
        expected[at as usize..][..PAGE as usize].copy_from_slice(&data);
    }
    (std::sync::Arc::new(disk), overlay, expected)
}
