//! A file in memory with a volatile cache, so that tests can lose power.
//!
//! What was written is read back at once. What was not flushed survives [`Memory::crash`] sector by
//! sector (512 bytes), as the test chooses. `write_durable` flushes only its own bytes, as a forced
//! write (FUA) does, and nothing that was written before.

pub mod arbitrary;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use oneflush_blocklog::{CHUNK_BYTES, Epoch, Error, Head, KIND_RELEASE, Log, Lsn, Storage, Uuid};

pub const SECTOR_BYTES: usize = 512;
pub const UUID: Uuid = Uuid(*b"a log of a test.");

#[derive(Debug, Default)]
struct State {
    durable: Vec<u8>,
    /// By sector number: contents newer than the durable ones.
    cached: BTreeMap<usize, Vec<u8>>,
    /// Writes, flushes and extensions until now.
    operations: Vec<Operation>,
    /// Further writes and flushes that succeed.
    fuel: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    WriteDurable { offset: u64, length: usize },
    Write { offset: u64, length: usize },
    Flush,
    Extend { size_bytes: u64 },
}

/// Clones are the same file.
#[derive(Clone, Debug)]
pub struct Memory {
    block_bytes: usize,
    state: Arc<Mutex<State>>,
}

impl Memory {
    pub fn new(block_bytes: usize) -> Memory {
        Memory { block_bytes, state: Arc::default() }
    }

    /// A file that holds exactly this.
    pub fn of(block_bytes: usize, durable: Vec<u8>) -> Memory {
        let state = State { durable, ..State::default() };
        Memory { block_bytes, state: Arc::new(Mutex::new(state)) }
    }

    /// What is on the medium and in the cache.
    pub fn bytes(&self) -> Vec<u8> {
        let state = self.state.lock().unwrap();
        let mut bytes = state.durable.clone();
        for (sector, content) in &state.cached {
            let start = sector * SECTOR_BYTES;
            bytes[start..start + SECTOR_BYTES].copy_from_slice(content);
        }
        bytes
    }

    pub fn edit(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.state.lock().unwrap().durable);
    }

    /// The file after a loss of power: `survives` is asked for each sector in flight, in order.
    pub fn crash(&self, mut survives: impl FnMut(usize) -> bool) -> Memory {
        let state = self.state.lock().unwrap();
        let mut durable = state.durable.clone();
        for (index, (sector, content)) in state.cached.iter().enumerate() {
            if survives(index) {
                let start = sector * SECTOR_BYTES;
                durable[start..start + SECTOR_BYTES].copy_from_slice(content);
            }
        }
        Memory::of(self.block_bytes, durable)
    }

    /// After so many further writes, flushes and extensions all fail. A failed write leaves its
    /// bytes in the cache.
    pub fn fail_after(&self, operations: usize) {
        self.state.lock().unwrap().fuel = Some(operations);
    }

    pub fn heal(&self) {
        self.state.lock().unwrap().fuel = None;
    }

    pub fn take_operations(&self) -> Vec<Operation> {
        std::mem::take(&mut self.state.lock().unwrap().operations)
    }

    fn begin(&self, operation: Operation) -> (std::sync::MutexGuard<'_, State>, bool) {
        let mut state = self.state.lock().unwrap();
        state.operations.push(operation);
        let works = match &mut state.fuel {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        };
        (state, works)
    }

    fn check(&self, state: &State, offset: u64, blocks: &[u8]) {
        assert!(
            offset.is_multiple_of(self.block_bytes as u64)
                && blocks.len().is_multiple_of(self.block_bytes)
        );
        assert!((blocks.as_ptr() as usize).is_multiple_of(4096), "memory is not aligned");
        assert!(
            offset as usize + blocks.len() <= state.durable.len(),
            "a write behind the end of the file"
        );
    }
}

fn to_cache(state: &mut State, blocks: &[u8], offset: u64) {
    for (index, sector) in blocks.chunks(SECTOR_BYTES).enumerate() {
        state.cached.insert(offset as usize / SECTOR_BYTES + index, sector.to_vec());
    }
}

fn broken() -> io::Error {
    io::Error::other("the test's device fails")
}

impl Storage for Memory {
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn alignment_bytes(&self) -> usize {
        self.block_bytes
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().durable.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(
            offset.is_multiple_of(self.block_bytes as u64)
                && buffer.len().is_multiple_of(self.block_bytes)
        );
        let state = self.state.lock().unwrap();
        let start = offset as usize;
        let end = start + buffer.len();
        buffer.copy_from_slice(state.durable.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        for (sector, content) in
            state.cached.range(start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES))
        {
            let at = sector * SECTOR_BYTES - start;
            buffer[at..at + SECTOR_BYTES].copy_from_slice(content);
        }
        Ok(())
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let (mut state, works) =
            self.begin(Operation::WriteDurable { offset, length: blocks.len() });
        self.check(&state, offset, blocks);
        if !works {
            to_cache(&mut state, blocks, offset);
            return Err(broken());
        }
        let start = offset as usize;
        state.durable[start..start + blocks.len()].copy_from_slice(blocks);
        state
            .cached
            .retain(|sector, _| !(start..start + blocks.len()).contains(&(sector * SECTOR_BYTES)));
        Ok(())
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let (mut state, works) = self.begin(Operation::Write { offset, length: blocks.len() });
        self.check(&state, offset, blocks);
        to_cache(&mut state, blocks, offset);
        if works { Ok(()) } else { Err(broken()) }
    }

    fn flush(&self) -> io::Result<()> {
        let (mut state, works) = self.begin(Operation::Flush);
        if !works {
            return Err(broken());
        }
        for (sector, content) in std::mem::take(&mut state.cached) {
            let start = sector * SECTOR_BYTES;
            state.durable[start..start + SECTOR_BYTES].copy_from_slice(&content);
        }
        Ok(())
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        let (mut state, works) = self.begin(Operation::Extend { size_bytes });
        if !works {
            return Err(broken());
        }
        let size = state.durable.len().max(size_bytes as usize);
        state.durable.resize(size, 0);
        Ok(())
    }

    fn zero(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        unreachable!("a log of records is extended: {range:?}")
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        unreachable!("a log of records is never cut: {size_bytes}")
    }
}

/// A record as a scan shows it.
pub type Record = (u8, u64, Vec<u8>);

pub fn create(block_bytes: usize, lane_bytes: u64) -> (Log<Memory>, Head) {
    Log::create(Memory::new(block_bytes), UUID, 4096, lane_bytes).unwrap()
}

/// What a scan shows, and a replay after it.
pub fn scan<S: Storage>(log: &Log<S>) -> Result<(Vec<Record>, Option<Head>), Error> {
    let mut records = Vec::new();
    let head = log.scan(|kind, Lsn(lsn), payload| {
        records.push((kind, lsn, payload.to_vec()));
        Ok::<(), Error>(())
    })?;
    if let Some(head) = &head {
        assert_eq!(replay(log, head).unwrap(), records);
    }
    Ok((records, head))
}

pub fn replay<S: Storage>(log: &Log<S>, to: &Head) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    log.replay(to, |kind, Lsn(lsn), payload| {
        records.push((kind, lsn, payload.to_vec()));
        Ok::<(), Error>(())
    })?;
    Ok(records)
}

pub fn open_and_scan(memory: &Memory) -> Result<(Vec<Record>, Option<Head>), Error> {
    scan(&Log::open(memory.clone())?)
}

/// What a visitor of a scan ends it with: an error of its own, or one of the log.
#[derive(Debug)]
pub enum Ended {
    ByVisitor,
    ByLog,
}

impl From<Error> for Ended {
    fn from(_: Error) -> Ended {
        Ended::ByLog
    }
}

/// Begins an epoch with a record that leaves one block of 4096 bytes in the first chunk.
pub fn begin_to_the_chunks_border(log: &Log<Memory>, head: &Head) -> Head {
    log.begin_epoch(head, 1, &vec![1; CHUNK_BYTES as usize - 4096 - 52]).unwrap()
}

/// Writes two records. The second one goes over a chunk's border, which takes two writes and a
/// flush, and its writer dies before the flush.
pub fn write_without_flush(log: &Log<Memory>, head: &Head) {
    let head = begin_to_the_chunks_border(log, head);
    log.storage().fail_after(2);
    log.append(&head, 2, &[2; 6000]).unwrap_err();
    log.storage().heal();
}

/// With up to so many sectors all subsets are tried, with more only samples.
const EXHAUSTIVE_SECTORS_MAX: usize = 12;
const SAMPLES: usize = 2000;

/// Starts what `write` does, loses power in it in every way, and shows each file.
pub fn tear(
    log: &Log<Memory>,
    write: impl FnOnce(&Log<Memory>) -> Result<Head, Error>,
    mut look: impl FnMut(&Memory),
) {
    let memory = log.storage();
    memory.take_operations();
    memory.fail_after(0);
    write(log).unwrap_err();
    let mut sectors = 0;
    memory.crash(|_| {
        sectors += 1;
        true
    });
    assert!(sectors > 0);
    if sectors <= EXHAUSTIVE_SECTORS_MAX {
        for subset in 0..1u32 << sectors {
            look(&memory.crash(|sector| subset >> sector & 1 == 1));
        }
    } else {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..SAMPLES {
            // From nearly nothing to nearly everything.
            let odds = rng.f64();
            look(&memory.crash(|_| rng.f64() < odds));
        }
        look(&memory.crash(|_| true));
    }
}

/// The file offset of a place in a lane, as docs/log-format.md has it, not as the crate computes
/// it.
pub fn offset(block_bytes: usize, lane: u64, position: u64) -> usize {
    let borders =
        [0, 32_768, 65_536, 131_072].into_iter().chain((1..).map(|chunk| chunk * 262_144));
    let chunks = borders.clone().zip(borders.skip(1));
    let (begin, end) = chunks.take_while(|(begin, _)| *begin <= position).last().unwrap();
    block_bytes + (2 * begin + lane * (end - begin) + position - begin) as usize
}

/// The same of a log of version 2.
pub fn offset_in_version_2(block_bytes: usize, lane: u64, position: u64) -> usize {
    const CHUNK: u64 = 262_144;
    (block_bytes as u64 + (2 * (position / CHUNK) + lane) * CHUNK + position % CHUNK) as usize
}

/// An empty log as version 2 made it, its lanes of one chunk.
pub fn of_version_2(block_bytes: usize) -> Memory {
    let memory = create(block_bytes, 262_144).0.storage().clone();
    turn_into_version(&memory, 2);
    memory
}

/// A record as a scan of a directory's log shows it, with its epoch.
pub type OfEpoch = (u64, u8, u64, Vec<u8>);

pub fn create_for_directory(block_bytes: usize, lane_bytes: u64) -> (Log<Memory>, Head) {
    Log::create_for_directory(Memory::new(block_bytes), UUID, lane_bytes).unwrap()
}

pub fn scan_epochs<S: Storage>(log: &Log<S>) -> Result<(Vec<OfEpoch>, Option<Head>), Error> {
    let mut records: Vec<OfEpoch> = Vec::new();
    let head = log.scan_epochs(|Epoch(epoch), kind, Lsn(lsn), payload| {
        records.push((epoch, kind, lsn, payload.to_vec()));
        Ok::<(), Error>(())
    })?;
    assert!(records.is_sorted_by(|one, next| one.0 <= next.0 && one.2 < next.2));
    assert!(records.iter().all(|record| record.1 != KIND_RELEASE));
    Ok((records, head))
}

pub fn open_and_scan_epochs(memory: &Memory) -> Result<(Vec<OfEpoch>, Option<Head>), Error> {
    scan_epochs(&Log::open_for_directory(memory.clone())?)
}

/// Makes a database's log one of a directory. So a test can write what no such log would.
pub fn turn_into_one_of_a_directory(memory: &Memory) {
    turn_into_version(memory, 4);
}

fn turn_into_version(memory: &Memory, version: u8) {
    memory.edit(|bytes| {
        bytes[264] = version;
        let checksum = crc32c::crc32c(&bytes[..508]);
        bytes[508..512].copy_from_slice(&checksum.to_le_bytes());
    });
}
