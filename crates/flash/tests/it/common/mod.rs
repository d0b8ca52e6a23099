//! Small models, and how requests are made of them.

use oneflush_flash::nand::{Array, Store};
use oneflush_flash::{Content, Device, Model, Request, Shape, Timing};

pub const UNIT: u64 = 4096;

/// One unit a page, one lane, no cache, no time.
pub fn bare(block_pages: u32, spare_share: f64) -> Model {
    Model {
        shape: Shape {
            unit_bytes: UNIT as u32,
            page_bytes: UNIT as u32,
            block_pages,
            dies: 1,
            planes: 1,
            spare_share,
        },
        timing: Timing::ZERO,
        cache_bytes: 0,
        has_fua: true,
        queue_depth: 1,
        map_cache_bytes: 0,
        endurance_cycles: 1000,
    }
}

/// For counting: bytes are not kept.
pub fn counting(model: Model, logical_units: u64) -> Device<Array> {
    Device::new(model, logical_units * UNIT, Store::Nothing).expect("a valid model")
}

pub fn write(device: &mut Device<Array>, now_ns: u64, unit: u64, units: u64) -> u64 {
    let content = Content::Zeros(units * UNIT);
    let request = Request::Write { offset: unit * UNIT, content, fua: false };
    device.request(now_ns, request).expect("a write")
}

pub fn write_fua(device: &mut Device<Array>, now_ns: u64, unit: u64, units: u64) -> u64 {
    let content = Content::Zeros(units * UNIT);
    let request = Request::Write { offset: unit * UNIT, content, fua: true };
    device.request(now_ns, request).expect("a write")
}

pub fn read(device: &mut Device<Array>, now_ns: u64, unit: u64, units: u64) -> u64 {
    let mut into = vec![0; (units * UNIT) as usize];
    device.request(now_ns, Request::Read { offset: unit * UNIT, into: &mut into }).expect("a read")
}

pub fn flush(device: &mut Device<Array>, now_ns: u64) -> u64 {
    device.request(now_ns, Request::Flush).expect("a flush")
}

/// Xorshift, for requests.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
