//! A file of the simulated disk, as the engine uses it.

use std::io;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};

use oneflush_blocklog::Storage;

use crate::content::Image;
use crate::disk::{Disk, DiskError, SyncFailures};
use crate::lock::locked;
use crate::log::{Ino, Mark, Op};
use crate::sabotage::Sabotage;
use crate::state::{Choice, Tear};

pub const FILE: &str = "/a.mvbt";
pub const BLOCK_BYTES: usize = 4096;
/// What a write is aligned to: a sector.
pub const ALIGNMENT_BYTES: usize = 512;
/// Zeros are written in such pieces, which the disk shares.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The engine says that a sector is whole.
pub fn stands(choice: &Choice) -> bool {
    choice.tear != Tear::Garbled
}

/// Clones are the same open file.
#[derive(Clone)]
pub struct DiskFile(Arc<Mutex<State>>);

struct State {
    disk: Disk,
    file: OpenFile,
    /// What ends the process, behind so many operations.
    end: Option<(End, u32)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// No write or flush is done any more.
    Death,
    /// One operation panics, reads included, and does nothing.
    Panic,
}

impl DiskFile {
    /// An empty file on an empty disk.
    pub fn create() -> Result<DiskFile, String> {
        let mut disk = Disk::from_image(&Image::default());
        let ino = disk.create(FILE).map_err(|error| error.to_string())?;
        Ok(DiskFile::of(disk, ino))
    }

    /// The file on a disk that was made anew from what a crash has left.
    pub fn open(image: &Image) -> Result<DiskFile, String> {
        let disk = Disk::from_image(image);
        let ino = disk.lookup(FILE).ok_or("the file is gone")?;
        Ok(DiskFile::of(disk, ino))
    }

    fn of(disk: Disk, ino: Ino) -> DiskFile {
        let state = State { disk, file: OpenFile::new(ino), end: None };
        DiskFile(Arc::new(Mutex::new(state)))
    }

    pub fn mark(&self, mark: Mark) {
        locked(&self.0).disk.mark(mark);
    }

    pub fn image(&self) -> Image {
        locked(&self.0).disk.image()
    }

    pub fn take_log(&self) -> Vec<Op> {
        locked(&self.0).disk.take_log()
    }

    pub fn log_len(&self) -> usize {
        locked(&self.0).disk.log_len()
    }

    pub fn sabotage(&self, sabotage: Sabotage) {
        locked(&self.0).disk.sabotage(sabotage);
    }

    /// After so many writes and flushes the process is dead.
    pub fn die_after(&self, operations: u32) {
        locked(&self.0).end = Some((End::Death, operations));
    }

    /// The operation behind so many panics.
    pub fn panic_after(&self, operations: u32) {
        locked(&self.0).end = Some((End::Panic, operations));
    }

    /// Nothing ends any more: it lives, or another process does. True: a panic did not come.
    pub fn live_on(&self) -> bool {
        locked(&self.0).end.take().is_some()
    }

    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.reading();
        match &mut state.end {
            Some((End::Death, 0)) => return Err(io::Error::other("the process is dead")),
            Some((End::Death, left)) => *left -= 1,
            _ => {}
        }
        Ok(state)
    }

    fn reading(&self) -> MutexGuard<'_, State> {
        let mut state = locked(&self.0);
        match &mut state.end {
            Some((End::Panic, 0)) => {
                state.end = None;
                drop(state);
                panic_as_told();
            }
            Some((End::Panic, left)) => *left -= 1,
            _ => {}
        }
        state
    }
}

/// What the engine knows of a file that it has open.
pub struct OpenFile {
    ino: Ino,
    known: SyncFailures,
}

/// Not by `panic!`: nobody wants to hear of it.
pub fn panic_as_told() -> ! {
    resume_unwind(Box::new("a fault of the crash simulator"))
}

fn failed(error: DiskError) -> io::Error {
    match error {
        DiskError::Panic => panic_as_told(),
        DiskError::NoSpace | DiskError::ShortWrite => io::ErrorKind::StorageFull.into(),
        error => io::Error::other(error),
    }
}

impl OpenFile {
    pub fn new(ino: Ino) -> OpenFile {
        OpenFile { ino, known: SyncFailures::default() }
    }

    pub fn size_bytes(&self, disk: &Disk) -> u64 {
        disk.size(self.ino)
    }

    pub fn read(&self, disk: &mut Disk, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let there = disk.read(self.ino, offset, buffer).map_err(failed)?;
        if there < buffer.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    pub fn write(&self, disk: &mut Disk, data: &[u8], offset: u64) -> io::Result<()> {
        disk.write(self.ino, offset, data).map_err(failed)
    }

    /// `covers` and `forced` are as in [`crate::Op::Sync`].
    pub fn sync(&mut self, disk: &mut Disk, covers: Option<u32>, forced: bool) -> io::Result<()> {
        disk.sync(self.ino, &mut self.known, covers, forced).map_err(failed)
    }

    /// A forced write (FUA): it flushes nothing else.
    pub fn write_durable(&mut self, disk: &mut Disk, data: &[u8], offset: u64) -> io::Result<()> {
        self.write(disk, data, offset)?;
        self.sync(disk, None, true)
    }

    pub fn zero(&self, disk: &mut Disk, range: Range<u64>) -> io::Result<()> {
        for offset in range.clone().step_by(ZEROS.len()) {
            let length = (range.end - offset).min(ZEROS.len() as u64) as usize;
            self.write(disk, &ZEROS[..length], offset)?;
        }
        Ok(())
    }

    pub fn extend(&mut self, disk: &mut Disk, size_bytes: u64) -> io::Result<()> {
        self.zero(disk, self.size_bytes(disk)..size_bytes)?;
        self.sync(disk, None, false)
    }

    pub fn cut(&self, disk: &mut Disk, size_bytes: u64) -> io::Result<()> {
        disk.truncate(self.ino, size_bytes).map_err(failed)
    }
}

impl Storage for DiskFile {
    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn alignment_bytes(&self) -> usize {
        ALIGNMENT_BYTES
    }

    fn size_bytes(&self) -> io::Result<u64> {
        let state = locked(&self.0);
        Ok(state.file.size_bytes(&state.disk))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let State { disk, file, .. } = &mut *self.reading();
        file.read(disk, buffer, offset)
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let State { disk, file, .. } = &mut *self.alive()?;
        file.write_durable(disk, blocks, offset)
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let State { disk, file, .. } = &mut *self.alive()?;
        file.write(disk, blocks, offset)
    }

    fn flush(&self) -> io::Result<()> {
        let State { disk, file, .. } = &mut *self.alive()?;
        file.sync(disk, None, false)
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        let State { disk, file, .. } = &mut *self.alive()?;
        file.extend(disk, size_bytes)
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        let State { disk, file, .. } = &mut *self.alive()?;
        file.zero(disk, range)
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        let State { disk, file, .. } = &mut *self.alive()?;
        file.cut(disk, size_bytes)
    }
}
