//! The absorbed journal as a file of SQLite's, with no file below.
//!
//! Its connection carries out every call ([`Maw`](super::Maw)). Nothing comes here.

use crate::error::Code;
use crate::port::{Below, DeviceCharacteristics, LockLevel, SyncRequest};

pub struct Absorbed;

impl Below for Absorbed {
    fn read(&self, _: &mut [u8], _: u64) -> Result<(), Code> {
        Err(Code::IOERR_READ)
    }

    fn write(&self, _: &[u8], _: u64) -> Result<(), Code> {
        Err(Code::IOERR_WRITE)
    }

    fn truncate(&self, _: u64) -> Result<(), Code> {
        Err(Code::IOERR_WRITE)
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        Err(Code::IOERR_FSYNC)
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        Err(Code::IOERR_READ)
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn sector_size(&self) -> i32 {
        512
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(0)
    }
}
