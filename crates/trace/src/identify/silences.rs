//! Silences of the whole trace: the machine was suspended or idle.

use std::collections::VecDeque;

/// A silence is at least this long.
const SILENCE_NS_MIN: u64 = 1_000_000_000;
const SILENCES_COUNT_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Silences {
    /// The last ones: begin and end.
    kept: VecDeque<(u64, u64)>,
    last_event_ns: Option<u64>,
}

impl Silences {
    /// Notes the time of an event.
    pub(super) fn see(&mut self, time_ns: u64) {
        if let Some(last_ns) = self.last_event_ns
            && time_ns >= last_ns + SILENCE_NS_MIN
        {
            if self.kept.len() == SILENCES_COUNT_MAX {
                self.kept.pop_front();
            }
            self.kept.push_back((last_ns, time_ns));
        }
        self.last_event_ns = self.last_event_ns.max(Some(time_ns));
    }

    /// How much of this time was silent.
    pub(super) fn within_ns(&self, begin_ns: u64, end_ns: u64) -> u64 {
        let within = |&(from, to): &(u64, u64)| to.min(end_ns).saturating_sub(from.max(begin_ns));
        self.kept.iter().map(within).sum()
    }
}
