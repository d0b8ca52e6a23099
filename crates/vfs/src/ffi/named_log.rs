//! A log whose commits are acknowledged only while its name leads to it.
//!
//! A program may delete or replace the files of a database in use. Another process does so, too,
//! where a `close` has cancelled this process's locks on the database. What goes into a deleted log
//! is lost with the last descriptor of it.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use oneflush_blocklog::{DirectFile, Storage, Written};

pub struct NamedLog {
    file: DirectFile,
    path: PathBuf,
}

impl NamedLog {
    pub fn new(file: DirectFile, path: &Path) -> NamedLog {
        NamedLog { file, path: path.to_owned() }
    }

    /// After what was written is durable, and before anybody is told.
    fn check_name(&self) -> io::Result<()> {
        if self.file.has_name(&self.path) {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the log was deleted or replaced while it was in use",
        ))
    }
}

impl Storage for NamedLog {
    fn block_bytes(&self) -> usize {
        self.file.block_bytes()
    }

    fn alignment_bytes(&self) -> usize {
        self.file.alignment_bytes()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_durable(blocks, offset)?;
        self.check_name()
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.file.write(blocks, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.flush()?;
        self.check_name()
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.file.extend(size_bytes)
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.file.zero(range)
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.file.cut(size_bytes)
    }

    fn written(&self) -> Written {
        self.file.written()
    }
}
