//! A file in memory that can lose power.

pub mod clock;
pub mod forge;
pub mod model;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use oneflush_blocklog::Storage;
use oneflush_mvbt::{Database, Options, Result};

const SECTOR_BYTES: usize = 512;

#[derive(Debug, Default)]
struct State {
    durable: Vec<u8>,
    /// In order: offset and bytes. A length alone is growth.
    in_flight: Vec<(usize, Vec<u8>)>,
    seen: Vec<u8>,
    /// Further writes and flushes that succeed. None: all do.
    fuel: Option<usize>,
    /// So often something was read.
    reads: usize,
    /// The disk has no room behind this.
    bytes_max: Option<u64>,
}

/// Clones are the same file.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl Memory {
    /// The file after a loss of power. `survives` is asked for each sector of each write in flight.
    pub fn crash(&self, mut survives: impl FnMut() -> bool) -> Memory {
        let state = self.0.lock().unwrap();
        let mut durable = state.durable.clone();
        for (offset, bytes) in &state.in_flight {
            for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let at = offset + index * SECTOR_BYTES;
                if survives() {
                    durable.resize(durable.len().max(at + sector.len()), 0);
                    durable[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        let seen = durable.clone();
        Memory(Arc::new(Mutex::new(State { seen, durable, ..State::default() })))
    }

    /// The power fails after so many writes and flushes: nothing more is done.
    pub fn fail_after(&self, operations: usize) {
        self.0.lock().unwrap().fuel = Some(operations);
    }

    /// The disk is full where the file would get longer than this.
    pub fn no_more_than(&self, bytes: u64) {
        self.0.lock().unwrap().bytes_max = Some(bytes);
    }

    pub fn reads(&self) -> usize {
        self.0.lock().unwrap().reads
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().seen.clone()
    }

    /// A file with these bytes.
    pub fn of(bytes: Vec<u8>) -> Memory {
        let (seen, durable) = (bytes.clone(), bytes);
        Memory(Arc::new(Mutex::new(State { seen, durable, ..State::default() })))
    }

    fn begin(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.0.lock().unwrap();
        match &mut state.fuel {
            Some(0) => return Err(io::Error::other("the power is off")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(state)
    }

    pub fn create(&self, options: Options) -> Result<Database> {
        Database::create_on(Arc::new(self.clone()), PathBuf::from("a.mvbt"), options)
    }

    pub fn open(&self, options: Options) -> Result<Database> {
        Database::open_on(Arc::new(self.clone()), PathBuf::from("a.mvbt"), options)
    }
}

impl State {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let at = offset as usize;
        self.seen.resize(self.seen.len().max(at + bytes.len()), 0);
        self.seen[at..at + bytes.len()].copy_from_slice(bytes);
        self.in_flight.push((at, bytes.to_vec()));
    }

    fn flush(&mut self) {
        self.durable = self.seen.clone();
        self.in_flight.clear();
    }
}

impl Storage for Memory {
    fn block_bytes(&self) -> usize {
        4096
    }

    fn alignment_bytes(&self) -> usize {
        512
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().seen.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.reads += 1;
        let at = offset as usize;
        match state.seen.get(at..at + buffer.len()) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.begin()?;
        // A forced write (FUA) flushes nothing else.
        state.put(offset, blocks);
        // The power may fail in the middle of it.
        if state.fuel == Some(0) {
            return Err(io::Error::other("the power is off"));
        }
        let (at, bytes) = state.in_flight.pop().unwrap();
        state.durable[at..at + bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.begin()?.put(offset, blocks);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.begin()?.flush();
        Ok(())
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        let mut state = self.begin()?;
        let size = state.seen.len().max(size_bytes as usize);
        state.seen.resize(size, 0);
        state.flush();
        Ok(())
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        let zeros = vec![0; (range.end - range.start) as usize];
        let mut state = self.begin()?;
        if state.bytes_max.is_some_and(|most| most < range.end) {
            const NO_SPACE: i32 = 28;
            return Err(io::Error::from_raw_os_error(NO_SPACE));
        }
        state.put(range.start, &zeros);
        Ok(())
    }

    /// It is durable with the next flush. A write in flight behind the new end makes the file
    /// longer again, with zeros.
    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.begin()?.seen.truncate(size_bytes as usize);
        Ok(())
    }
}
