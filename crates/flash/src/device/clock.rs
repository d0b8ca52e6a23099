//! Who is busy until when: queue, bus, lanes. Times are nanoseconds of a clock that nobody waits
//! for.
//!
//! Each lane does one operation after the other, in the order in which they were asked for. That a
//! program is suspended for a read is not modelled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::timing::Timing;

#[derive(Debug)]
pub(super) struct Clock {
    pub timing: Timing,
    depth: usize,
    /// When the requests that are under way are done.
    under_way: BinaryHeap<Reverse<u64>>,
    bus_free_ns: u64,
    lanes_free_ns: Vec<u64>,
    pub lane_busy_ns: u64,
    busy_until_ns: u64,
    pub busy_ns: u64,
}

impl Clock {
    pub fn new(timing: Timing, depth: u32, lanes: u32) -> Clock {
        Clock {
            timing,
            depth: depth.max(1) as usize,
            under_way: BinaryHeap::new(),
            bus_free_ns: 0,
            lanes_free_ns: vec![0; lanes as usize],
            lane_busy_ns: 0,
            busy_until_ns: 0,
            busy_ns: 0,
        }
    }

    /// When a request that comes now begins: at once, unless the queue is full.
    pub fn admit(&mut self, now_ns: u64) -> u64 {
        if self.under_way.len() < self.depth {
            return now_ns;
        }
        let Reverse(first_done_ns) = self.under_way.pop().unwrap_or(Reverse(now_ns));
        now_ns.max(first_done_ns)
    }

    pub fn done(&mut self, begin_ns: u64, end_ns: u64) {
        self.under_way.push(Reverse(end_ns));
        self.busy_ns += end_ns.saturating_sub(begin_ns.max(self.busy_until_ns));
        self.busy_until_ns = self.busy_until_ns.max(end_ns);
    }

    pub fn transfer(&mut self, ready_ns: u64, bytes: u64) -> u64 {
        let end_ns = ready_ns.max(self.bus_free_ns) + self.timing.transfer_ns(bytes);
        self.bus_free_ns = end_ns;
        end_ns
    }

    fn on_lane(&mut self, lane: u32, ready_ns: u64, takes_ns: u64) -> u64 {
        let free_ns = &mut self.lanes_free_ns[lane as usize];
        *free_ns = ready_ns.max(*free_ns) + takes_ns;
        self.lane_busy_ns += takes_ns;
        *free_ns
    }

    pub fn read(&mut self, lane: u32, ready_ns: u64) -> u64 {
        self.on_lane(lane, ready_ns, self.timing.read_ns)
    }

    pub fn program(&mut self, lane: u32, ready_ns: u64) -> u64 {
        self.on_lane(lane, ready_ns, self.timing.program_ns)
    }

    /// A block of each lane. All that the lanes were asked for before is done first: an old copy is
    /// never gone while the new one is under way on another lane.
    pub fn erase(&mut self, ready_ns: u64) {
        let ready_ns = self.lanes_free_ns.iter().fold(ready_ns, |at_ns, &free| at_ns.max(free));
        for lane in 0..self.lanes_free_ns.len() as u32 {
            self.on_lane(lane, ready_ns, self.timing.erase_ns);
        }
    }
}
