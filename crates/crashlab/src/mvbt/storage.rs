//! A file of the simulated disk, as the engine uses it.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use oneflush_blocklog::Storage;

use crate::content::Image;
use crate::disk::{Disk, DiskError, SyncFailures};
use crate::log::{Ino, Mark, Op};
use crate::vfs::locked;

pub const FILE: &str = "/a.mvbt";
/// What a write is aligned to: a sector.
const ALIGNMENT_BYTES: usize = 512;
/// Zeros are written in such pieces, which the disk shares.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Clones are the same open file.
#[derive(Clone)]
pub struct DiskFile(Arc<Mutex<State>>);

struct State {
    disk: Disk,
    ino: Ino,
    known: SyncFailures,
    /// The process dies before the write or flush behind so many.
    lives: Option<u32>,
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
        let state = State { disk, ino, known: SyncFailures::default(), lives: None };
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

    /// After so many writes and flushes the process is dead. None: it lives, or another does.
    pub fn die_after(&self, operations: Option<u32>) {
        locked(&self.0).lives = operations;
    }

    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = locked(&self.0);
        match &mut state.lives {
            Some(0) => return Err(io::Error::other("the process is dead")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(state)
    }
}

fn failed(error: DiskError) -> io::Error {
    match error {
        DiskError::NoSpace | DiskError::ShortWrite => io::ErrorKind::StorageFull.into(),
        error => io::Error::other(error),
    }
}

impl State {
    fn write(&mut self, data: &[u8], offset: u64) -> io::Result<()> {
        self.disk.write(self.ino, offset, data).map_err(failed)
    }

    fn sync(&mut self, forced: bool) -> io::Result<()> {
        self.disk.sync(self.ino, &mut self.known, None, forced).map_err(failed)
    }

    fn zero(&mut self, range: Range<u64>) -> io::Result<()> {
        for offset in range.clone().step_by(ZEROS.len()) {
            let length = (range.end - offset).min(ZEROS.len() as u64) as usize;
            self.write(&ZEROS[..length], offset)?;
        }
        Ok(())
    }
}

impl Storage for DiskFile {
    fn block_bytes(&self) -> usize {
        4096
    }

    fn alignment_bytes(&self) -> usize {
        ALIGNMENT_BYTES
    }

    fn size_bytes(&self) -> io::Result<u64> {
        let state = locked(&self.0);
        Ok(state.disk.size(state.ino))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = locked(&self.0);
        let ino = state.ino;
        let there = state.disk.read(ino, offset, buffer).map_err(failed)?;
        if there < buffer.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// A forced write (FUA): it flushes nothing else.
    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.alive()?;
        state.write(blocks, offset)?;
        state.sync(true)
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.alive()?.write(blocks, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.alive()?.sync(false)
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        let mut state = self.alive()?;
        let size = state.disk.size(state.ino);
        state.zero(size..size_bytes)?;
        state.sync(false)
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.alive()?.zero(range)
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        let mut state = self.alive()?;
        let ino = state.ino;
        state.disk.truncate(ino, size_bytes).map_err(failed)
    }
}
