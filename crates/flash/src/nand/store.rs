//! Where the bytes of the array lie.
//!
//! What belongs to the array's rules (states, out-of-band data, wear) is in memory in any case. A
//! file that is left behind is therefore no device that could be opened again: it ends with the
//! process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHashMap;

use crate::geometry::Physical;

#[derive(Debug)]
pub enum Store {
    /// For tests.
    Memory(FxHashMap<u32, Box<[u8]>>),
    /// A sparse image: unit `u` is at `u × unit_bytes`.
    File(File),
    /// All bytes are zeros: for counting only.
    Nothing,
}

impl Store {
    pub fn memory() -> Store {
        Store::Memory(FxHashMap::default())
    }

    pub(super) fn write(&mut self, unit: Physical, bytes: &[u8]) -> io::Result<()> {
        match self {
            Store::Memory(units) => {
                units.insert(unit.0, bytes.into());
                Ok(())
            }
            Store::File(file) => file.write_all_at(bytes, u64::from(unit.0) * bytes.len() as u64),
            Store::Nothing => Ok(()),
        }
    }

    pub(super) fn read(&self, unit: Physical, into: &mut [u8]) -> io::Result<()> {
        match self {
            Store::Memory(units) => match units.get(&unit.0) {
                Some(bytes) => into.copy_from_slice(bytes),
                None => into.fill(0),
            },
            Store::File(file) => {
                file.read_exact_at(into, u64::from(unit.0) * into.len() as u64)?;
            }
            Store::Nothing => into.fill(0),
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, unit: Physical) {
        // A file keeps what is erased: it is written over before it is read again (N1).
        if let Store::Memory(units) = self {
            units.remove(&unit.0);
        }
    }
}
