//! Limits how often something is said, without a lock. A message may come from any thread, and
//! while any lock is held.
//!
//! Two threads that say the same at the same instant may both say it. Nothing is said without end.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest number of lines in a minute.
pub const LINES_MAX: u64 = 100;

/// How long the same message is not repeated.
const PAUSE_SECONDS: u64 = 60;

const SLOTS_COUNT: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Say,
    /// The message has come this many times since it was last said.
    SayAgain {
        left_out: u64,
    },
    LeaveOut,
    /// As [`Verdict::LeaveOut`], for the first time in this minute: there were too many different
    /// messages.
    TooMany,
}

/// The message that was said last, of all messages that fall into this slot.
struct Slot {
    hash: AtomicU64,
    said_at: AtomicU64,
    left_out: AtomicU64,
}

pub struct Limit {
    slots: [Slot; SLOTS_COUNT],
    minute: AtomicU64,
    lines_in_minute: AtomicU64,
}

impl Limit {
    pub const fn new() -> Limit {
        let slots = [const {
            Slot {
                hash: AtomicU64::new(0),
                said_at: AtomicU64::new(0),
                left_out: AtomicU64::new(0),
            }
        }; SLOTS_COUNT];
        Limit { slots, minute: AtomicU64::new(0), lines_in_minute: AtomicU64::new(0) }
    }

    /// Decides whether a message may be said at this second of a clock that never goes back.
    pub fn ask(&self, message: &str, now: u64) -> Verdict {
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write(message.as_bytes());
        // 0 is an empty slot.
        let hash = hasher.finish() | 1;
        let slot = &self.slots[(hash >> 32) as usize % SLOTS_COUNT];
        let is_known = slot.hash.load(Relaxed) == hash;
        if is_known && now < slot.said_at.load(Relaxed) + PAUSE_SECONDS {
            slot.left_out.fetch_add(1, Relaxed);
            return Verdict::LeaveOut;
        }
        let minute = now / 60 + 1;
        if self.minute.swap(minute, Relaxed) != minute {
            self.lines_in_minute.store(0, Relaxed);
        }
        match self.lines_in_minute.fetch_add(1, Relaxed) {
            lines if lines < LINES_MAX => {}
            LINES_MAX => return Verdict::TooMany,
            _ => return Verdict::LeaveOut,
        }
        slot.said_at.store(now, Relaxed);
        slot.hash.store(hash, Relaxed);
        match slot.left_out.swap(0, Relaxed) {
            left_out if is_known && left_out > 0 => Verdict::SayAgain { left_out },
            _ => Verdict::Say,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_message_is_said_once_a_minute_with_how_often_it_came() {
        let limit = Limit::new();
        assert_eq!(limit.ask("a", 1000), Verdict::Say);
        for _ in 0..7 {
            assert_eq!(limit.ask("a", 1059), Verdict::LeaveOut);
        }
        assert_eq!(limit.ask("a", 1060), Verdict::SayAgain { left_out: 7 });
        assert_eq!(limit.ask("a", 1061), Verdict::LeaveOut);
        assert_eq!(limit.ask("b", 1061), Verdict::Say);
    }

    #[test]
    fn a_minute_has_a_bounded_number_of_lines_however_different_they_are() {
        let limit = Limit::new();
        let ask = |now: u64| {
            (0..1000).map(|n| limit.ask(&format!("message {n} at {now}"), now)).collect::<Vec<_>>()
        };
        for now in [6000, 6060] {
            let verdicts = ask(now);
            let count =
                |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count() as u64;
            assert_eq!((count(Verdict::Say), count(Verdict::TooMany)), (LINES_MAX, 1), "at {now}");
        }
    }
}
