//! A file of the operating system, as a strategy's code reads and writes it.
//!
//! For an inspection, a salvage and a WAL that was kept, where no connection has it open.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::Code;
use crate::port::{Below, DeviceCharacteristics, LockLevel, SyncRequest};

/// None: it is not there, and is read as an empty one.
pub struct FileBelow(pub Option<File>);

impl FileBelow {
    fn to_write(&self) -> Result<&File, Code> {
        self.0.as_ref().ok_or(Code::READONLY)
    }
}

impl Below for FileBelow {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let Some(file) = &self.0 else { return Err(Code::SHORT_READ) };
        match file.read_exact_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Code::SHORT_READ),
            result => result.map_err(|_| Code::IOERR_READ),
        }
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        let size =
            self.0.as_ref().map_or(Ok(0), |file| file.metadata().map(|metadata| metadata.len()));
        size.map_err(|_| Code::IOERR_READ)
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        self.to_write()?.write_all_at(data, offset).map_err(|_| Code::FULL)
    }

    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        self.to_write()?.set_len(size_bytes).map_err(|_| Code::FULL)
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        self.to_write()?.sync_all().map_err(|_| Code::IOERR_FSYNC)
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        Err(Code::READONLY)
    }

    fn sector_size(&self) -> i32 {
        0
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(0)
    }
}
