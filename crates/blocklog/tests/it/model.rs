//! Random histories against a model. The model is two lists: the records of the epoch, and those of
//! the epoch before.

use oneflush_blocklog::{CHUNK_BYTES, Error, FIRST_CHUNK_BYTES, Head, Log};
use proptest::prelude::*;

use crate::common::arbitrary::{after_failure, damage, length, payload};
use crate::common::{Memory, Record, UUID, open_and_scan, scan};

#[derive(Clone, Debug)]
enum Step {
    Append {
        length: usize,
    },
    Begin {
        length: usize,
    },
    Grow {
        chunks: u64,
    },
    Reopen,
    /// The device fails at the n-th operation of the next append or begin. Then the power is gone,
    /// or only the process.
    Fail {
        begin: bool,
        length: usize,
        at: usize,
        power: bool,
        seed: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => length().prop_map(|length| Step::Append { length }),
        2 => (0..5000usize).prop_map(|length| Step::Begin { length }),
        1 => (1..40u64).prop_map(|chunks| Step::Grow { chunks }),
        1 => Just(Step::Reopen),
        4 => (any::<bool>(), length(), 0..4usize, any::<bool>(), any::<u64>())
            .prop_map(|(begin, length, at, power, seed)| {
                Step::Fail { begin, length, at, power, seed }
            }),
    ]
}

struct World {
    log: Log<Memory>,
    head: Head,
    /// The records of the head's epoch. A scan must show them.
    records: Vec<Record>,
}

impl World {
    fn write(&self, begin: bool, kind: u8, payload: &[u8]) -> Result<Head, Error> {
        if begin || self.head.epoch.0 == 0 {
            self.log.begin_epoch(&self.head, kind, payload)
        } else {
            self.log.append(&self.head, kind, payload)
        }
    }

    /// The records after a write that was whole.
    fn records_after(&self, begin: bool, record: Record) -> Vec<Record> {
        let mut records = if begin { Vec::new() } else { self.records.clone() };
        records.push(record);
        records
    }

    fn check(&self) {
        let (records, head) = scan(&self.log).unwrap();
        assert_eq!(records, self.records);
        assert_eq!(head.unwrap_or_else(|| self.log.empty_head().unwrap()), self.head);
    }

    fn step(&mut self, step: &Step, number: usize) {
        let kind = number as u8;
        let payload = |length| payload(length, kind);
        match *step {
            Step::Append { length } | Step::Begin { length } => {
                let begin = matches!(step, Step::Begin { .. });
                match self.write(begin, kind, &payload(length)) {
                    Ok(head) => {
                        self.records =
                            self.records_after(begin, (kind, head.lsn.0, payload(length)));
                        self.head = head;
                    }
                    Err(Error::Full { needed, free }) => assert!(needed > free),
                    Err(other) => panic!("{other}"),
                }
            }
            Step::Grow { chunks } => {
                self.head = self.log.grow(&self.head, chunks * FIRST_CHUNK_BYTES).unwrap()
            }
            Step::Reopen => self.log = Log::open(self.log.storage().clone()).unwrap(),
            Step::Fail { begin, length, at, power, seed } => {
                let begin = begin || self.head.epoch.0 == 0;
                self.log.storage().fail_after(at);
                let written = self.write(begin, kind, &payload(length));
                let after = self.records_after(begin, (kind, self.head.lsn.0 + 1, payload(length)));
                let memory = after_failure(self.log.storage(), power, seed);
                self.log = Log::open(memory).unwrap();
                let (records, head) = scan(&self.log).unwrap();
                let known = match written {
                    Ok(_) => records == after,
                    Err(Error::Full { .. }) => records == self.records,
                    Err(_) => records == self.records || records == after,
                };
                assert!(known, "{} records, neither those before nor those after", records.len());
                self.head = head.unwrap_or_else(|| self.log.empty_head().unwrap());
                self.records = records;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_log_shows_what_was_acknowledged_whatever_happens(
        block_bytes in prop::sample::select(vec![512, 4096, 65_536]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (log, head) = Log::create(Memory::new(block_bytes), UUID, 4096, 1).unwrap();
        let mut world = World { log, head, records: Vec::new() };
        for (number, step) in steps.iter().enumerate() {
            world.step(step, number);
        }
        world.check();
    }

    /// Anything may happen but a panic, with no more memory than the file is large.
    #[test]
    fn any_damage_gives_an_error_or_records_that_were_written(
        lengths in prop::collection::vec(0..3000usize, 1..12),
        damage in damage(),
    ) {
        let (log, head) = Log::create(Memory::new(512), UUID, 4096, CHUNK_BYTES).unwrap();
        let mut head = head;
        let mut written = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            let payload = vec![index as u8; *length];
            head = if index % 5 == 0 {
                log.begin_epoch(&head, 1, &payload)
            } else {
                log.append(&head, 1, &payload)
            }
            .unwrap();
            written.push((1, head.lsn.0, payload));
        }
        if let Ok((records, _)) = open_and_scan(&damage.done_to(log.storage())) {
            prop_assert!(records.iter().all(|record| written.contains(record)));
        }
    }
}
