//! Writers, and one reader that keeps its snapshot for a while. Meanwhile no checkpoint can finish
//! and the WAL grows. What does that do to the writers, before, while and after?
//!
//! In thirds of the time that the reader holds its snapshot:
//!
//! ```text
//! 0 ──── before ──── 1/3 ──────────── while (hold) ──────────── 4/3 ──── after ──── 5/3
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::table::{Operation, TableStream};
use super::{Step, Stream, Task, WorkloadError};
use crate::clock;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LongReader {
    /// How long the reader keeps its snapshot.
    pub hold: Duration,
}

impl LongReader {
    pub const DEFAULT_HOLD: Duration = Duration::from_secs(30);

    /// Where before, while and after end, since the begin.
    pub fn phase_ends(self) -> [Duration; 3] {
        let third = self.hold / 3;
        [third, third + self.hold, third + self.hold + third]
    }

    pub(super) fn companion(self) -> Task {
        let [from, to, _] = self.phase_ends();
        Task::KeepSnapshot { from, to }
    }

    pub(super) fn describe(self) -> String {
        format!(
            "insert one row of 100 bytes a transaction for {:.1} s, beside a reader that keeps its \
                snapshot for {:.1} s of them",
            self.phase_ends()[2].as_secs_f64(),
            self.hold.as_secs_f64()
        )
    }
}

/// Inserts until the time is over.
pub struct LongReaderStream {
    inserts: TableStream,
    length: Duration,
    /// Known at the first step: the workers begin together, not when they open.
    end_ns: Option<u64>,
}

impl LongReaderStream {
    pub fn new(connection: Connection, long_reader: LongReader, part: Part) -> LongReaderStream {
        LongReaderStream {
            inserts: TableStream::new(connection, Operation::Insert, part),
            length: long_reader.phase_ends()[2],
            end_ns: None,
        }
    }
}

impl Stream for LongReaderStream {
    fn step(&mut self) -> Result<Step, WorkloadError> {
        let now_ns = clock::now_ns();
        let end_ns = *self.end_ns.get_or_insert(now_ns + self.length.as_nanos() as u64);
        if now_ns >= end_ns { Ok(Step::Finished) } else { self.inserts.step() }
    }

    fn finish(&mut self) -> Result<(), WorkloadError> {
        self.inserts.finish()
    }

    fn failures(&self) -> BTreeMap<String, u64> {
        self.inserts.failures()
    }

    fn connection(&self) -> Option<&Connection> {
        self.inserts.connection()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_holds_between_two_thirds_of_its_time() {
        let long_reader = LongReader { hold: Duration::from_secs(30) };
        assert_eq!(long_reader.phase_ends().map(|end| end.as_secs()), [10, 40, 50]);
        let task =
            Task::KeepSnapshot { from: Duration::from_secs(10), to: Duration::from_secs(40) };
        assert_eq!(long_reader.companion(), task);
    }
}
