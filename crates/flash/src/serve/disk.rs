//! Requests of the kernel become requests of the model, and answers get their time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::Errno;
use rustix::fs::FallocateFlags;
use serde::Serialize;

use super::answers::{Answers, Late};
use super::options::Options;
use crate::device::{Content, Counters, Device, DeviceError, Request};
use crate::nand::Array;

/// The file "counters".
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    pub options: &'a Options,
    pub physical_bytes: u64,
    /// Physical to logical, without the reserve.
    pub alpha: f64,
    pub counters: Counters,
    pub late: Late,
    /// False: without CAP_SYS_RESOURCE it may stall when memory is short.
    pub is_io_flusher: bool,
}

pub(super) struct Disk {
    device: Mutex<Device<Array>>,
    pub answers: Answers,
    /// The clock of the model begins here.
    begin: Instant,
    is_io_flusher: bool,
}

impl Disk {
    pub fn new(device: Device<Array>, answers: Answers, is_io_flusher: bool) -> Disk {
        Disk { device: Mutex::new(device), answers, begin: Instant::now(), is_io_flusher }
    }

    fn device(&self) -> MutexGuard<'_, Device<Array>> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn bytes(&self) -> u64 {
        self.device().geometry().logical_bytes()
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn request(&self, now_ns: u64, request: Request<'_>) -> Result<Instant, Errno> {
        let end_ns = self.device().request(now_ns, request).map_err(|error| {
            if !matches!(error, DeviceError::Beyond { .. }) {
                eprintln!("oneflush-flash: {error}");
            }
            Errno::EIO
        })?;
        Ok(self.begin + Duration::from_nanos(end_ns))
    }

    /// At the end of the device a read is short.
    pub fn read(&self, offset: u64, size: u32) -> Result<(Instant, Vec<u8>), Errno> {
        let now_ns = self.now_ns();
        let left = self.bytes().saturating_sub(offset);
        let mut bytes = vec![0; u64::from(size).min(left) as usize];
        let due = self.request(now_ns, Request::Read { offset, into: &mut bytes })?;
        Ok((due, bytes))
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<Instant, Errno> {
        let content = Content::Bytes(bytes);
        self.request(self.now_ns(), Request::Write { offset, content, fua: false })
    }

    pub fn flush(&self) -> Result<Instant, Errno> {
        self.request(self.now_ns(), Request::Flush)
    }

    /// A hole, or zeros: both must read as zeros. Whole mapping units are trimmed, and what is left
    /// at the edges is written.
    pub fn fallocate(&self, offset: u64, bytes: u64, mode: i32) -> Result<Instant, Errno> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        let zeroing = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !mode.intersects(zeroing) {
            return Err(Errno::EOPNOTSUPP);
        }
        let now_ns = self.now_ns();
        let unit_bytes = u64::from(self.device().geometry().shape.unit_bytes);
        let end = offset.saturating_add(bytes);
        let (first, last) = (offset.next_multiple_of(unit_bytes), end / unit_bytes * unit_bytes);
        let mut due = self.request(now_ns, Request::Trim { offset, bytes })?;
        let edges =
            if first > last { [(offset, end), (end, end)] } else { [(offset, first), (last, end)] };
        for (from, to) in edges {
            if from < to {
                let content = Content::Zeros(to - from);
                let request = Request::Write { offset: from, content, fua: false };
                due = due.max(self.request(now_ns, request)?);
            }
        }
        Ok(due)
    }

    pub fn report(&self, options: &Options) -> Vec<u8> {
        let device = self.device();
        let report = Report {
            options,
            physical_bytes: device.geometry().physical_bytes(),
            alpha: device.geometry().alpha(),
            counters: device.counters(),
            late: self.answers.late(),
            is_io_flusher: self.is_io_flusher,
        };
        let mut text = serde_json::to_vec_pretty(&report).unwrap_or_default();
        text.push(b'\n');
        text
    }
}
