//! The file, to be read alone.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use oneflush_blocklog::Storage;

pub struct ReadOnly(File);

impl ReadOnly {
    pub fn open(path: &Path) -> io::Result<Arc<ReadOnly>> {
        let file = File::open(path)?;
        match file.metadata()?.is_file() {
            true => Ok(Arc::new(ReadOnly(file))),
            false => Err(io::Error::other("it is no regular file")),
        }
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Storage for ReadOnly {
    fn block_bytes(&self) -> usize {
        4096
    }

    fn alignment_bytes(&self) -> usize {
        512
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn write_durable(&self, _: &[u8], _: u64) -> io::Result<()> {
        refused()
    }

    fn write(&self, _: &[u8], _: u64) -> io::Result<()> {
        refused()
    }

    /// What is asked for before a judgement after a crash. Here nothing follows from it.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn extend(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn zero(&self, _: Range<u64>) -> io::Result<()> {
        refused()
    }

    fn cut(&self, _: u64) -> io::Result<()> {
        refused()
    }
}
