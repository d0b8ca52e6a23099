//! Random histories of a directory's log against a model. The model is two lists: the records of
//! the newest epoch, and those of the epoch before while that is live.

use oneflush_blocklog::{CHUNK_BYTES, Epoch, Error, FIRST_CHUNK_BYTES, Head, Log};
use proptest::prelude::*;

use crate::common::arbitrary::{after_failure, damage, length, payload};
use crate::common::{
    Memory, OfEpoch, UUID, create_for_directory, open_and_scan_epochs, scan_epochs,
};

#[derive(Clone, Copy, Debug)]
enum Write {
    Append { length: usize },
    Begin { length: usize },
    Release,
}

#[derive(Clone, Debug)]
enum Step {
    Write(Write),
    Grow {
        chunks: u64,
    },
    Reopen,
    /// The device fails at the n-th operation of a write. Then the power is gone, or only the
    /// process.
    Fail {
        write: Write,
        at: usize,
        power: bool,
        seed: u64,
    },
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        6 => length().prop_map(|length| Write::Append { length }),
        3 => length().prop_map(|length| Write::Begin { length }),
        3 => Just(Write::Release),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => write().prop_map(Step::Write),
        1 => (1..40u64).prop_map(|chunks| Step::Grow { chunks }),
        1 => Just(Step::Reopen),
        5 => (write(), 0..4usize, any::<bool>(), any::<u64>())
            .prop_map(|(write, at, power, seed)| Step::Fail { write, at, power, seed }),
    ]
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    /// `None`: it is released, or there is none.
    before: Option<Vec<OfEpoch>>,
    newest: Vec<OfEpoch>,
}

impl Model {
    fn shown(&self) -> Vec<OfEpoch> {
        self.before.iter().flatten().chain(&self.newest).cloned().collect()
    }

    /// After a write that is whole.
    fn after(&self, write: Write, record: OfEpoch) -> Model {
        let mut after = self.clone();
        match write {
            Write::Append { .. } => after.newest.push(record),
            Write::Begin { .. } => {
                let before = std::mem::replace(&mut after.newest, vec![record]);
                after.before = Some(before).filter(|before| !before.is_empty());
            }
            Write::Release => after.before = None,
        }
        after
    }
}

struct World {
    log: Log<Memory>,
    head: Head,
    model: Model,
}

impl World {
    fn may(&self, write: Write) -> bool {
        match write {
            Write::Append { .. } => self.head.epoch.0 > 0,
            Write::Begin { .. } => self.model.before.is_none(),
            Write::Release => self.head.epoch.0 > 1,
        }
    }

    /// What the log answers, and the record that it then has.
    fn write(&self, write: Write, number: usize) -> (Result<Head, Error>, OfEpoch) {
        let Head { epoch: Epoch(epoch), lsn, .. } = self.head;
        let payload = |length| payload(length, (number * 5) as u8);
        let kind = number as u8 % 16;
        match write {
            Write::Append { length } => (
                self.log.append(&self.head, kind, &payload(length)),
                (epoch, kind, lsn.0 + 1, payload(length)),
            ),
            Write::Begin { length } => (
                self.log.begin_epoch(&self.head, kind, &payload(length)),
                (epoch + 1, kind, lsn.0 + 1, payload(length)),
            ),
            Write::Release => (
                self.log.release(&self.head, Epoch(epoch.saturating_sub(1))),
                (epoch, kind, lsn.0 + 1, vec![]),
            ),
        }
    }

    fn check(&self) {
        let (records, head) = scan_epochs(&self.log).unwrap();
        assert_eq!(records, self.model.shown());
        assert_eq!(head.unwrap_or_else(|| self.log.empty_head().unwrap()), self.head);
    }

    fn step(&mut self, step: &Step, number: usize) {
        match *step {
            Step::Write(write) => {
                let (answer, record) = self.write(write, number);
                match answer {
                    Ok(head) => {
                        assert!(self.may(write), "{write:?} was not refused");
                        self.model = self.model.after(write, record);
                        self.head = head;
                    }
                    Err(Error::Full { needed, free }) => assert!(needed > free),
                    Err(Error::BadHead { .. }) => assert!(!self.may(write), "{write:?}"),
                    Err(other) => panic!("{other}"),
                }
            }
            Step::Grow { chunks } => {
                self.head = self.log.grow(&self.head, chunks * FIRST_CHUNK_BYTES).unwrap()
            }
            Step::Reopen => {
                self.log = Log::open_for_directory(self.log.storage().clone()).unwrap();
                self.check();
            }
            Step::Fail { write, at, power, seed } => {
                self.log.storage().fail_after(at);
                let (answer, record) = self.write(write, number);
                let memory = after_failure(self.log.storage(), power, seed);
                self.log = Log::open_for_directory(memory).unwrap();
                let (records, head) = scan_epochs(&self.log).unwrap();
                let head = head.unwrap_or_else(|| self.log.empty_head().unwrap());
                match answer {
                    Ok(next) => assert_eq!(head, next),
                    Err(Error::Full { .. } | Error::BadHead { .. }) => assert_eq!(head, self.head),
                    Err(_) => assert!(self.may(write), "{write:?} was not refused"),
                }
                if head != self.head {
                    assert_eq!(head.lsn.0, self.head.lsn.0 + 1);
                    self.model = self.model.after(write, record);
                    self.head = head;
                }
                assert_eq!(records, self.model.shown());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_log_shows_the_live_epochs_whatever_happens(
        block_bytes in prop::sample::select(vec![512, 4096, 65_536]),
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let memory = Memory::new(block_bytes);
        let (log, head) = Log::create_for_directory(memory, UUID, 1).unwrap();
        let mut world = World { log, head, model: Model::default() };
        for (number, step) in steps.iter().enumerate() {
            world.step(step, number);
        }
        world.check();
    }

    /// Anything may happen but a panic, with no more memory than the file is large.
    #[test]
    fn any_damage_gives_an_error_or_records_of_two_epochs_that_were_written(
        writes in prop::collection::vec((0..3000usize, 0..5u8), 1..16),
        damage in damage(),
    ) {
        let (log, head) = create_for_directory(512, CHUNK_BYTES);
        let mut head = log.begin_epoch(&head, 1, b"first").unwrap();
        let mut written = vec![(1, 1, 1, b"first".to_vec())];
        for (index, (length, what)) in writes.into_iter().enumerate() {
            let payload = vec![index as u8; length];
            if what == 0 {
                head = log.begin_epoch(&head, 1, &payload).unwrap();
            } else {
                head = log.append(&head, 1, &payload).unwrap();
            }
            written.push((head.epoch.0, 1, head.lsn.0, payload));
            if what == 0 && head.epoch.0 > 1 {
                head = log.release(&head, Epoch(head.epoch.0 - 1)).unwrap();
            }
        }
        if let Ok((records, _)) = open_and_scan_epochs(&damage.done_to(log.storage())) {
            prop_assert!(records.iter().all(|record| written.contains(record)));
            let first = records.first().map_or(0, |record| record.0);
            prop_assert!(records.iter().all(|record| record.0 <= first + 1));
            prop_assert!(records.is_sorted_by_key(|record| record.2));
        }
    }
}
