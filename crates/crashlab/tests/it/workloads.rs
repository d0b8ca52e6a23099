//! The workloads for a log do what they are for, shown with the strategy that has one.

use std::collections::BTreeMap;

use oneflush_crashlab::{Journal, Op, Recording, Script, Setting, Workload, record, register};

/// What was done to the files of a recording that have this name, with their numbers.
struct Done<'a> {
    names: BTreeMap<u32, &'a str>,
    recording: &'a Recording,
}

impl<'a> Done<'a> {
    fn of(recording: &'a Recording) -> Done<'a> {
        // Numbered as the disk does: the files that were there, then those that were created.
        let mut names: BTreeMap<u32, &str> =
            (1..).zip(recording.initial.files.keys().map(String::as_str)).collect();
        for op in &recording.log {
            if let Op::Create { name, ino } = op {
                names.insert(*ino, name);
            }
        }
        Done { names, recording }
    }

    fn is(&self, ino: u32, name: &str) -> bool {
        self.names.get(&ino) == Some(&name)
    }

    /// The end of the furthest write to the file.
    fn reached(&self, name: &str) -> u64 {
        let end = |op: &Op| match op {
            Op::Write { ino, offset, data } if self.is(*ino, name) => {
                Some(offset + data.0.len() as u64)
            }
            _ => None,
        };
        self.recording.log.iter().filter_map(end).max().unwrap_or(0)
    }

    fn syncs(&self, name: &str) -> usize {
        self.recording
            .log
            .iter()
            .filter(|op| matches!(op, Op::Sync { ino, .. } if self.is(*ino, name)))
            .count()
    }

    /// How often a file of this name was created.
    fn creations(&self, name: &str) -> usize {
        self.recording
            .log
            .iter()
            .filter(|op| matches!(op, Op::Create { name: created, .. } if created == name))
            .count()
    }
}

fn recordings(workload: Workload) -> impl Iterator<Item = Recording> {
    register().unwrap();
    (1..=4).map(move |seed| {
        let setting = Setting::new("eager", Journal::Wal).with_uri(workload.uri());
        record(&Script::draw(workload, seed), &setting).unwrap()
    })
}

const LOG: &str = "/a.db-oneflush";
const IMAGE: &str = "/a.db-oneflush-wal";
/// Two lanes of 32 KiB behind a block.
const LOG_BYTES_AT_FIRST: u64 = (64 << 10) + 4096;
/// Two lanes of 512 KiB, where the log may not become larger than 1 MiB.
const LOG_BYTES_AT_LAST: u64 = (1 << 20) + 4096;

#[test]
fn the_log_grows_and_the_image_stays_volatile() {
    for recording in recordings(Workload::Growing) {
        let done = Done::of(&recording);
        assert!(done.reached(LOG) > LOG_BYTES_AT_FIRST, "{}", done.reached(LOG));
        assert_eq!(done.syncs(IMAGE), 0);
    }
}

#[test]
fn a_log_that_may_not_grow_is_full_and_the_image_is_synced() {
    for recording in recordings(Workload::Full) {
        let done = Done::of(&recording);
        assert_eq!(done.reached(LOG), LOG_BYTES_AT_LAST);
        assert!(done.syncs(IMAGE) > 0);
    }
}

#[test]
fn a_transaction_larger_than_the_log_goes_through_the_image() {
    for recording in recordings(Workload::Huge) {
        let done = Done::of(&recording);
        assert_eq!(done.reached(LOG), LOG_BYTES_AT_FIRST);
        assert!(done.syncs(IMAGE) > 0);
    }
}

/// Each log has its guard. The guard is set before the log's first commit and cleared by the last
/// close.
#[test]
fn cycles_make_and_end_a_log_at_every_step() {
    for recording in recordings(Workload::Cycles) {
        assert!(Done::of(&recording).creations(LOG) >= 7);
    }
}
