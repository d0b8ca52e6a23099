//! Where a recording of several files goes on in the next one.
//!
//! A boundary is *due* when the file is as long, or holds as much time, as was asked for.
//!
//! Invariants:
//! 1. A boundary stands between two events: each event is in exactly one file.
//! 2. A due boundary stands at the first place where all of these hold, as far as events say:
//!    - The events before and behind it are at least 1 ms apart.
//!    - No thread synchronizes a file.
//!    - No request is on its way to a device.
//! 3. If there is no such place within a second, or within a tenth more than the length (at least
//!    64 KiB more), it stands before the next event.
//!
//! So a boundary mostly stands between transactions: within one, the program waits for syncs, and
//! computes for less than 1 ms between them. Only events of the recorded devices and of their file
//! systems count here.
//!
//! A sync or a request that has not ended for ten seconds is taken for one whose end was lost.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

const GAP_NS: u64 = 1_000_000;
const LATE_NS: u64 = 1_000_000_000;
const LATE_BYTES_LEAST: u64 = 64 << 10;
const NEVER_ENDS_NS: u64 = 10_000_000_000;

/// When a file is complete, whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Of the file, as it is packed.
    pub bytes: Option<u64>,
    pub time: Option<Duration>,
}

/// What an event says of syncs and requests. A disk and a sector name a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    SyncBegins(u32),
    SyncEnds(u32),
    Asked(Disk, Range<u64>),
    Ended(Disk, Range<u64>),
    Else,
}

type Disk = (u32, u32);

/// Follows the events in the order of time.
pub(super) struct Boundary {
    limit: Limit,
    begun_ns: u64,
    due_since_ns: Option<u64>,
    last_ns: u64,
    /// Thread → since when it synchronizes.
    syncing: HashMap<u32, u64>,
    /// Disk and first sector of what is on its way → since when. A flush has no sector.
    asked: HashMap<(Disk, Option<u64>), u64>,
}

impl Boundary {
    pub(super) fn new(limit: Limit, begun_ns: u64) -> Boundary {
        Boundary {
            limit,
            begun_ns,
            due_since_ns: None,
            last_ns: begun_ns,
            syncing: HashMap::new(),
            asked: HashMap::new(),
        }
    }

    pub(super) fn see(&mut self, time_ns: u64, seen: Seen) {
        match seen {
            Seen::SyncBegins(thread) => drop(self.syncing.insert(thread, time_ns)),
            Seen::SyncEnds(thread) => drop(self.syncing.remove(&thread)),
            Seen::Asked(disk, sectors) => drop(self.asked.insert((disk, begin(&sectors)), time_ns)),
            Seen::Ended(disk, sectors) => self.ended(disk, &sectors),
            Seen::Else => {}
        }
        self.last_ns = time_ns;
    }

    /// Its end is told before that of its files.
    pub(super) fn thread_ended(&mut self, thread: u32) {
        self.syncing.remove(&thread);
    }

    /// The end of a request is also that of all that was made part of it.
    fn ended(&mut self, disk: Disk, sectors: &Range<u64>) {
        match begin(sectors) {
            Some(_) => self.asked.retain(|(of, sector), _| {
                *of != disk || !sector.is_some_and(|sector| sectors.contains(&sector))
            }),
            None => drop(self.asked.remove(&(disk, None))),
        }
    }

    /// Whether the boundary stands before what comes at this time. `bytes`: length of the file up
    /// to here.
    pub(super) fn is_before(&mut self, time_ns: u64, bytes: u64) -> bool {
        let Limit { bytes: bytes_max, time } = self.limit;
        let is_due = || {
            let of_time = |time: Duration| u128::from(time_ns - self.begun_ns) >= time.as_nanos();
            bytes_max.is_some_and(|max| bytes >= max)
                || (time_ns > self.begun_ns && time.is_some_and(of_time))
        };
        let due_since_ns = match self.due_since_ns {
            Some(since_ns) => since_ns,
            None if is_due() => *self.due_since_ns.insert(time_ns),
            None => return false,
        };
        let is_late = time_ns.saturating_sub(due_since_ns) >= LATE_NS
            || bytes_max
                .is_some_and(|max| bytes >= max.saturating_add((max / 10).max(LATE_BYTES_LEAST)));
        is_late || (time_ns.saturating_sub(self.last_ns) >= GAP_NS && self.is_quiet(time_ns))
    }

    fn is_quiet(&mut self, time_ns: u64) -> bool {
        let goes_on = |since_ns: &u64| time_ns.saturating_sub(*since_ns) < NEVER_ENDS_NS;
        self.syncing.retain(|_, since_ns| goes_on(since_ns));
        self.asked.retain(|_, since_ns| goes_on(since_ns));
        self.syncing.is_empty() && self.asked.is_empty()
    }

    /// The next file begins.
    pub(super) fn is_placed(&mut self, time_ns: u64) {
        self.begun_ns = time_ns;
        self.due_since_ns = None;
    }
}

/// `None` for a flush.
fn begin(sectors: &Range<u64>) -> Option<u64> {
    (!sectors.is_empty()).then_some(sectors.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;
    const DISK: Disk = (7, 0);

    fn every(bytes: Option<u64>, seconds: Option<u64>) -> Boundary {
        Boundary::new(Limit { bytes, time: seconds.map(Duration::from_secs) }, 100 * S)
    }

    #[test]
    fn it_is_due_by_time_or_by_bytes() {
        let mut boundary = every(Some(1000), Some(10));
        assert!(!boundary.is_before(109 * S, 999));
        assert!(boundary.is_before(110 * S, 999));
        assert!(every(Some(1000), Some(10)).is_before(101 * S, 1000));
        assert!(!every(Some(1000), None).is_before(1000 * S, 999));
        boundary.is_placed(110 * S);
        assert!(!boundary.is_before(119 * S, 0) && boundary.is_before(120 * S, 0));
    }

    #[test]
    fn it_stands_where_nothing_happens_for_a_millisecond() {
        let mut boundary = every(None, Some(10));
        boundary.see(110 * S, Seen::Else);
        assert!(!boundary.is_before(110 * S + MS / 2, 0));
        boundary.see(110 * S + MS / 2, Seen::Else);
        assert!(!boundary.is_before(110 * S + MS, 0));
        assert!(boundary.is_before(110 * S + 2 * MS, 0));
    }

    #[test]
    fn it_does_not_stand_in_a_sync_or_before_the_end_of_a_request() {
        for (begin, end) in [
            (Seen::SyncBegins(1), Seen::SyncEnds(1)),
            (Seen::Asked(DISK, 8..16), Seen::Ended(DISK, 0..64)),
            (Seen::Asked(DISK, 0..0), Seen::Ended(DISK, 0..0)),
        ] {
            let mut boundary = every(None, Some(10));
            boundary.see(110 * S, begin.clone());
            for other in [Seen::SyncEnds(2), Seen::Ended((8, 0), 8..16), Seen::Ended(DISK, 9..16)] {
                boundary.see(110 * S, other);
            }
            assert!(!boundary.is_before(110 * S + 9 * MS, 0), "{begin:?}");
            boundary.see(110 * S + 9 * MS, end);
            assert!(boundary.is_before(110 * S + 10 * MS, 0), "{begin:?}");
        }
    }

    #[test]
    fn it_does_not_wait_longer_than_a_second_or_a_tenth_of_the_length() {
        let mut boundary = every(Some(1 << 20), None);
        boundary.see(110 * S, Seen::SyncBegins(1));
        assert!(!boundary.is_before(110 * S, 1 << 20));
        assert!(!boundary.is_before(111 * S - 1, 1 << 20));
        assert!(boundary.is_before(111 * S, 1 << 20));
        assert!(boundary.is_before(110 * S, (1 << 20) / 10 * 11 + 10));
        // A short file has 64 KiB.
        let mut boundary = every(Some(1000), None);
        boundary.see(110 * S, Seen::SyncBegins(1));
        assert!(!boundary.is_before(110 * S, 1000 + (64 << 10) - 1));
        assert!(boundary.is_before(110 * S, 1000 + (64 << 10)));
    }

    #[test]
    fn what_never_ends_is_forgotten() {
        let mut boundary = every(None, Some(20));
        boundary.see(101 * S, Seen::SyncBegins(1));
        boundary.see(101 * S, Seen::Asked(DISK, 8..16));
        assert!(boundary.is_before(120 * S, 0));
        let mut boundary = every(None, Some(10));
        boundary.see(110 * S, Seen::SyncBegins(1));
        boundary.thread_ended(1);
        assert!(boundary.is_before(110 * S + MS, 0));
    }
}
