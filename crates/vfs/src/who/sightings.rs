//! Since when: the first time that something was seen by one who looks again and again.
//!
//! The kernel does not tell how old a lock is.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use super::rows::Row;

/// A process by its number and the time of its start, and one of its locks.
type Seen = (u32, u64, Option<Lock>);
/// File, name, exclusive, waits.
type Lock = (String, String, bool, bool);

#[derive(Default)]
pub struct Sightings {
    first_ms: HashMap<Seen, u64>,
}

impl Sightings {
    /// Notes when each row, and each lock, was seen first. What is gone is forgotten.
    pub fn note(&mut self, rows: &mut [Row], now: SystemTime) {
        let now_ms = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        let before = std::mem::take(&mut self.first_ms);
        let mut first = |seen: Seen| {
            let since_ms = before.get(&seen).copied().unwrap_or(now_ms);
            self.first_ms.insert(seen, since_ms);
            Some(since_ms)
        };
        for row in rows {
            let Some(pid) = row.pid else { continue };
            row.since_ms = first((pid, row.start_ticks, None));
            for hold in &mut row.holds {
                let lock = (hold.file.clone(), hold.lock.clone(), hold.exclusive, hold.waits);
                hold.since_ms = first((pid, row.start_ticks, Some(lock)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::held::Hold;
    use std::time::Duration;

    #[test]
    fn a_lock_that_was_let_go_and_taken_again_is_a_new_one() {
        let hold = Hold {
            file: "a.db-shm".to_owned(),
            lock: "write".to_owned(),
            exclusive: true,
            waits: false,
            frames_behind: None,
            says: String::new(),
            since_ms: None,
        };
        let mut sightings = Sightings::default();
        let mut look = |second: u64, start_ticks: u64, has_lock: bool| {
            let mut row = Row { pid: Some(7), start_ticks, ..Row::of_unseen(1) };
            row.holds.extend(has_lock.then(|| hold.clone()));
            let mut rows = [row];
            sightings.note(&mut rows, UNIX_EPOCH + Duration::from_secs(second));
            (rows[0].since_ms, rows[0].holds.first().and_then(|hold| hold.since_ms))
        };
        assert_eq!(look(1, 5, true), (Some(1000), Some(1000)));
        assert_eq!(look(2, 5, true), (Some(1000), Some(1000)));
        assert_eq!(look(3, 5, false), (Some(1000), None));
        assert_eq!(look(4, 5, true), (Some(1000), Some(4000)));
        // Another process with the same number.
        assert_eq!(look(5, 6, true), (Some(5000), Some(5000)));
    }
}
