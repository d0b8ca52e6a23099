//! The shape of a slice's writes, as in the eager synching thesis, section 5.1: how large the
//! requests are, and which part of the sectors belongs to long bursts.
//!
//! A *burst* is writes that follow each other in time and on the device: each begins where the one
//! before ended. Whether the kernel made one request of two adjacent writes or two does not matter
//! for it. A flush without data does not end a burst: nothing is written elsewhere.

use oneflush_trace::kernel::attribute::{Event, What};
use oneflush_trace::model::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

/// A burst of more sectors than this is a long one.
const LONG_SECTORS: u64 = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteShape {
    /// With data, as the device got them.
    pub requests: u64,
    pub sectors: u64,
    /// In bursts longer than 128 sectors.
    pub long_burst_sectors: u64,
}

impl WriteShape {
    /// `events` are those of a slice, in the order of time.
    pub(super) fn of(events: &[Event]) -> WriteShape {
        let mut shape = WriteShape::default();
        let (mut burst_sectors, mut burst_end) = (0, None);
        for event in events {
            match &event.what {
                What::Queued(write) if write.length_bytes > 0 => {
                    let sectors = write.length_bytes / SECTOR_BYTES;
                    shape.requests += 1;
                    shape.sectors += sectors;
                    if burst_end != Some(write.start) {
                        shape.end_burst(burst_sectors);
                        burst_sectors = 0;
                    }
                    burst_sectors += sectors;
                    burst_end = Some(write.start + write.length_bytes);
                }
                What::Merged(_) => shape.requests = shape.requests.saturating_sub(1),
                What::Split(_) => shape.requests += 1,
                _ => {}
            }
        }
        shape.end_burst(burst_sectors);
        shape
    }

    fn end_burst(&mut self, sectors: u64) {
        if sectors > LONG_SECTORS {
            self.long_burst_sectors += sectors;
        }
    }

    /// Of a request, in sectors. None where nothing was written.
    pub fn request_sectors_mean(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.sectors as f64 / self.requests as f64)
    }

    /// The part of the sectors that is in long bursts, from 0 to 1.
    pub fn sequential_ratio(&self) -> Option<f64> {
        (self.sectors > 0).then(|| self.long_burst_sectors as f64 / self.sectors as f64)
    }
}

#[cfg(test)]
mod tests {
    use oneflush_trace::kernel::attribute::{Write, Writer};

    use super::*;

    fn events(list: Vec<What>) -> Vec<Event> {
        let event = |(time, what)| Event { time_ns: time as u64, thread: 1, volume: 0, what };
        list.into_iter().enumerate().map(event).collect()
    }

    fn write(start_sector: u64, sectors: u64) -> Write {
        Write {
            start: start_sector * SECTOR_BYTES,
            length_bytes: sectors * SECTOR_BYTES,
            metadata: false,
            by: Writer::Any,
        }
    }

    #[test]
    fn a_burst_is_long_from_129_sectors_on_and_ends_where_the_device_is_written_elsewhere() {
        let queued = |start, sectors| What::Queued(write(start, sectors));
        let of = |list| WriteShape::of(&events(list));
        let exactly = of(vec![queued(0, 64), queued(64, 64)]);
        assert_eq!(exactly, WriteShape { requests: 2, sectors: 128, long_burst_sectors: 0 });
        let longer = of(vec![queued(0, 64), queued(64, 64), queued(128, 8)]);
        assert_eq!(longer.sequential_ratio(), Some(1.0));
        let broken = of(vec![queued(0, 64), queued(64, 64), queued(5000, 8), queued(128, 64)]);
        assert_eq!(broken.sequential_ratio(), Some(0.0));
        let half = of(vec![queued(0, 200), queued(1000, 200), queued(8000, 8), queued(90, 8)]);
        assert_eq!(half.long_burst_sectors, 400);
        assert_eq!(half.request_sectors_mean(), Some(104.0));
    }

    #[test]
    fn flushes_are_no_requests_and_merges_and_splits_are_counted_as_the_device_got_them() {
        let shape = WriteShape::of(&events(vec![
            What::Queued(write(0, 100)),
            What::Queued(write(0, 0)),
            What::Queued(write(100, 100)),
            What::Merged(write(100, 100)),
            What::Split(write(200, 8)),
        ]));
        assert_eq!(shape, WriteShape { requests: 2, sectors: 200, long_burst_sectors: 200 });
        assert_eq!(WriteShape::default().request_sectors_mean(), None);
        assert_eq!(WriteShape::default().sequential_ratio(), None);
    }
}
