//! Reads: the cache first, then the array.
//!
//! A unit whose program is under way is read from its lane, and so waits for that program. A real
//! controller may still have it in memory.

use super::{Device, DeviceError};
use crate::geometry::Logical;
use crate::nand::{Nand, Payload};

impl<N: Nand> Device<N> {
    pub(super) fn read(
        &mut self,
        ready_ns: u64,
        offset: u64,
        into: &mut [u8],
    ) -> Result<u64, DeviceError> {
        self.counters.host.reads += 1;
        self.counters.host.read_bytes += into.len() as u64;
        let bytes = into.len() as u64;
        let unit_bytes = self.unit_bytes();
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let within = (at % unit_bytes) as usize;
            let length = rest.len().min(unit_bytes as usize - within);
            let (part, after) = rest.split_at_mut(length);
            match self.newest(Logical((at / unit_bytes) as u32))? {
                Some(unit) => part.copy_from_slice(&unit[within..within + length]),
                None => part.fill(0),
            }
            at += length as u64;
            rest = after;
        }
        let read_ns = self.run(ready_ns).reads_ns;
        Ok(self.clock.transfer(read_ns, bytes))
    }

    pub(super) fn unit_bytes(&self) -> u64 {
        u64::from(self.geometry().shape.unit_bytes)
    }

    pub(super) fn newest(&mut self, logical: Logical) -> Result<Payload, DeviceError> {
        match self.cache.get(logical) {
            Some(payload) => Ok(payload.clone()),
            None => Ok(self.ftl.read(logical)?),
        }
    }
}
