//! When a line of strace's was written, whatever option gave it its time.
//!
//! | option | line | its time |
//! |---|---|---|
//! | `-ttt` | `1795199476.845520 fdatasync(…` | seconds since 1970 |
//! | `-tt` | `12:00:00.000100 fdatasync(…` | the time of day |
//! | `-t` | `12:00:00 fdatasync(…` | the time of day in whole seconds |
//! | `-r` | `     0.000123 fdatasync(…` | seconds since the line before |
//! | none | `fdatasync(…` | unknown |
//!
//! All become nanoseconds of one clock. At midnight a day is added.
//!
//! Lines without times are put a microsecond apart, and so are lines of the same whole second. They
//! therefore stay in their order. How long anything took is then unknown ([`Stamps::lacks`]).

use super::super::text::Cursor;

/// `-ttt` counts from 1970. A smaller number of seconds counts from the last line.
const EPOCH_NS_MIN: u64 = 1_000_000 * 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;
/// Lines of several threads may be out of order by so much.
const BACK_NS_MAX: u64 = DAY_NS / 2;
const STEP_NS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    Epoch(u64),
    OfDay { ns: u64, is_whole: bool },
    Since(u64),
    Missing,
}

/// Reads a stamp and leaves the cursor at the call.
pub(super) fn stamp(cursor: &mut Cursor) -> Option<Stamp> {
    cursor.spaces();
    let mut ahead = *cursor;
    if let Some(stamp) = of_day(&mut ahead) {
        *cursor = ahead;
        return Some(stamp);
    }
    let mut ahead = *cursor;
    if let Some(ns) = ahead.seconds() {
        ahead.eat(b" ")?;
        ahead.spaces();
        *cursor = ahead;
        return Some(if ns >= EPOCH_NS_MIN { Stamp::Epoch(ns) } else { Stamp::Since(ns) });
    }
    Some(Stamp::Missing)
}

/// `12:00:00` or `12:00:00.000100`, and a blank.
fn of_day(cursor: &mut Cursor) -> Option<Stamp> {
    let hours = cursor.number().filter(|hours| *hours < 24)?;
    cursor.eat(b":")?;
    let minutes = cursor.number().filter(|minutes| *minutes < 60)?;
    cursor.eat(b":")?;
    let mut ahead = *cursor;
    let (seconds_ns, is_whole) = match ahead.seconds() {
        Some(ns) => {
            *cursor = ahead;
            (ns, false)
        }
        None => (cursor.number()? * SECOND_NS, true),
    };
    cursor.eat(b" ")?;
    cursor.spaces();
    (seconds_ns < 61 * SECOND_NS).then_some(Stamp::OfDay {
        ns: (hours * 60 + minutes) * 60 * SECOND_NS + seconds_ns,
        is_whole,
    })
}

/// Makes the trace's clock out of stamps.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    days: u64,
    last_of_day_ns: u64,
    now_ns: u64,
    lacks: Option<&'static str>,
}

impl Stamps {
    /// The time of a stamp. `None` if the line has no time, though others have.
    pub fn time_ns(&mut self, stamp: Stamp) -> Option<u64> {
        match stamp {
            Stamp::Epoch(ns) => {
                self.now_ns = self.now_ns.max(ns);
                return Some(ns);
            }
            Stamp::OfDay { ns, is_whole: false } => {
                let ns = self.of_day(ns);
                self.now_ns = self.now_ns.max(ns);
                return Some(ns);
            }
            Stamp::OfDay { ns, is_whole: true } => {
                self.lacks = Some("times are whole seconds (strace -t)");
                self.now_ns = self.of_day(ns).max(self.now_ns + STEP_NS);
            }
            Stamp::Since(ns) => self.now_ns += ns,
            Stamp::Missing if self.now_ns > 0 && self.lacks.is_none() => return None,
            Stamp::Missing => {
                self.lacks = Some("lines have no times");
                self.now_ns += STEP_NS;
            }
        }
        Some(self.now_ns)
    }

    fn of_day(&mut self, ns: u64) -> u64 {
        if ns + BACK_NS_MAX < self.last_of_day_ns {
            self.days += 1;
        }
        self.last_of_day_ns = ns;
        self.days * DAY_NS + ns
    }

    /// Why the length of a call is unknown. `None` if the times say it.
    pub fn lacks(&self) -> Option<&'static str> {
        self.lacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (Stamp, &str) {
        let mut cursor = Cursor::new(line.as_bytes());
        let stamp = stamp(&mut cursor).unwrap();
        (stamp, std::str::from_utf8(cursor.rest).unwrap())
    }

    #[test]
    fn each_options_time_is_read() {
        assert_eq!(
            read("1795199476.845520 close(3"),
            (Stamp::Epoch(1_795_199_476_845_520_000), "close(3")
        );
        assert_eq!(
            read("01:00:02.5 close(3"),
            (Stamp::OfDay { ns: 3_602_500_000_000, is_whole: false }, "close(3")
        );
        assert_eq!(
            read("00:01:02 close(3"),
            (Stamp::OfDay { ns: 62_000_000_000, is_whole: true }, "close(3")
        );
        assert_eq!(read("     0.000123 close(3"), (Stamp::Since(123_000), "close(3"));
        assert_eq!(read("  close(3"), (Stamp::Missing, "close(3"));
    }

    #[test]
    fn the_clock_goes_on_over_midnight() {
        let mut stamps = Stamps::default();
        let of_day = |ns| Stamp::OfDay { ns, is_whole: false };
        let before = stamps.time_ns(of_day(DAY_NS - 5)).unwrap();
        assert_eq!(stamps.time_ns(of_day(5)), Some(before + 10));
        assert_eq!(
            stamps.time_ns(of_day(3)),
            Some(before + 8),
            "lines of two threads, out of order"
        );
        assert_eq!(stamps.lacks(), None);
    }
}
