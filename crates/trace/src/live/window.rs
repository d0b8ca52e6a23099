//! Something for each half second of the last ten.
//!
//! Slots lie on the clock's own half seconds. The window is therefore between 9.5 and 10 s long:
//! its first slot is whole, its last one is still being filled. Late data are put where they
//! belong, or nowhere once that slot is over.

use std::collections::VecDeque;

pub const WINDOW_NS: u64 = 10_000_000_000;
const SLOT_NS: u64 = 500_000_000;
const SLOTS: u64 = WINDOW_NS / SLOT_NS;

#[derive(Clone, Debug)]
pub(super) struct Window<T> {
    /// By number (time / [`SLOT_NS`]), ascending. Empty slots are left out.
    slots: VecDeque<(u64, T)>,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Window { slots: VecDeque::new() }
    }
}

impl<T: Default> Window<T> {
    /// The slot of a time. `None` if the window has moved on.
    pub(super) fn at(&mut self, time_ns: u64, now_ns: u64) -> Option<&mut T> {
        self.expire(now_ns);
        let number = time_ns / SLOT_NS;
        if number < first(now_ns) {
            return None;
        }
        let at = self.slots.partition_point(|(known, _)| *known < number);
        if self.slots.get(at).is_none_or(|(known, _)| *known != number) {
            self.slots.insert(at, (number, T::default()));
        }
        self.slots.get_mut(at).map(|(_, slot)| slot)
    }

    pub(super) fn expire(&mut self, now_ns: u64) {
        while self.slots.front().is_some_and(|(number, _)| *number < first(now_ns)) {
            self.slots.pop_front();
        }
    }

    pub(super) fn slots(&self, now_ns: u64) -> impl Iterator<Item = &T> {
        self.slots.iter().filter(move |(number, _)| *number >= first(now_ns)).map(|(_, slot)| slot)
    }
}

/// Number of the first slot of the window.
fn first(now_ns: u64) -> u64 {
    (now_ns / SLOT_NS).saturating_sub(SLOTS - 1)
}

/// The length of the window of which something was seen, in seconds. 0 before anything was.
pub(super) fn seconds(begin_ns: u64, now_ns: u64) -> f64 {
    now_ns.saturating_sub(begin_ns.max(first(now_ns) * SLOT_NS)) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sum(window: &Window<u64>, now_ns: u64) -> u64 {
        window.slots(now_ns).sum()
    }

    #[test]
    fn what_is_ten_seconds_old_is_out_and_what_is_younger_is_in() {
        let mut window = Window::<u64>::default();
        for second in 0..20 {
            *window.at(second * SECOND, second * SECOND).unwrap() += 1 << second;
        }
        // 19 s: from 9.5 s on.
        assert_eq!(sum(&window, 19 * SECOND), 0b1111_1111_1100_0000_0000);
        assert_eq!(sum(&window, 28 * SECOND), 1 << 19);
        assert_eq!(sum(&window, 30 * SECOND), 0);
    }

    #[test]
    fn what_comes_late_is_put_where_it_belongs_or_nowhere() {
        let mut window = Window::<u64>::default();
        *window.at(20 * SECOND, 20 * SECOND).unwrap() += 1;
        *window.at(12 * SECOND, 20 * SECOND).unwrap() += 2;
        assert!(window.at(10 * SECOND, 20 * SECOND).is_none());
        assert_eq!(sum(&window, 20 * SECOND), 3);
        assert_eq!(sum(&window, 22 * SECOND), 1, "the late one leaves first");
    }

    #[test]
    fn it_never_has_more_slots_than_its_length() {
        let mut window = Window::<u64>::default();
        for n in 0..10_000 {
            let now_ns = n * SLOT_NS / 3;
            *window.at(now_ns, now_ns).unwrap() += 1;
        }
        assert_eq!(window.slots.len() as u64, SLOTS);
    }

    #[test]
    fn rates_are_over_the_time_that_was_seen() {
        assert_eq!(seconds(100 * SECOND, 103 * SECOND), 3.0);
        assert_eq!(seconds(SECOND, 100 * SECOND), 9.5);
        assert_eq!(seconds(SECOND, 100 * SECOND + SLOT_NS - 1), 9.999_999_999);
        assert_eq!(seconds(SECOND, SECOND), 0.0);
    }
}
