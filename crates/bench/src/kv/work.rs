//! What is done to a store: rows that are there before, and transactions that are measured.

use super::{Change, Keys, Store, StoreError};

/// Rows that are filled in by one transaction.
const FILL_ROWS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// In the table before.
    pub rows: u64,
    pub keys: Keys,
    pub value_bytes: usize,
    pub task: Task,
}

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Insert,
    Update,
    Delete,
    /// So many percent insert a row and delete another one. The others search a row.
    Mix {
        writes_percent: u64,
    },
    Get,
    /// The whole table. A row counts as a transaction.
    Scan,
    /// Opening, after a crash in a transaction of so many inserts. Transactions of one row were
    /// committed before it, since the last checkpoint.
    Recover {
        committed: u64,
        inserts: u64,
        until: Until,
    },
}

/// What ends an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// A row was read.
    Read,
    /// The same, and a row was committed.
    Commit,
}

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Commit(Vec<Change>),
    Get(u64),
    Scan,
}

impl Work {
    pub fn describe(&self) -> String {
        let Work { rows, keys, value_bytes, task } = self;
        let order = match keys {
            Keys::Sequential => "rising",
            Keys::Random => "random",
        };
        format!("{task:?}, {rows} rows before, values of {value_bytes} B, {order} keys")
    }

    pub fn fill(&self, store: &mut dyn Store) -> Result<(), StoreError> {
        let value = vec![7; self.value_bytes];
        let mut row = 0;
        while row < self.rows && !oneflush_measure::interrupt::requested() {
            let end = (row + FILL_ROWS).min(self.rows);
            let changes: Vec<Change> =
                (row..end).map(|row| Change::Put(self.keys.of(row))).collect();
            store.commit(&changes, &value)?;
            row = end;
        }
        Ok(())
    }

    pub fn steps(&self) -> Steps {
        Steps { work: *self, done: 0, writes: 0, random: fastrand::Rng::with_seed(0) }
    }
}

/// The transactions of a work, one after the other; the same in each slice.
pub struct Steps {
    work: Work,
    done: u64,
    /// Of a mix.
    writes: u64,
    random: fastrand::Rng,
}

impl Steps {
    /// A value for the next transaction, which differs from those before.
    pub fn value(&self) -> Vec<u8> {
        let mut value = vec![0; self.work.value_bytes];
        let number = (self.done + 1).to_le_bytes();
        let length = value.len().min(number.len());
        value[..length].copy_from_slice(&number[..length]);
        value
    }

    pub fn take(&mut self) -> Step {
        let Work { rows, keys, task, .. } = self.work;
        let number = self.done;
        self.done += 1;
        let any = |random: &mut fastrand::Rng, from: u64| keys.of(from + random.u64(..rows.max(1)));
        match task {
            Task::Insert | Task::Recover { .. } => {
                Step::Commit(vec![Change::Put(keys.of(rows + number))])
            }
            Task::Update => Step::Commit(vec![Change::Put(any(&mut self.random, 0))]),
            Task::Delete => Step::Commit(vec![Change::Delete(keys.of(number))]),
            Task::Get => Step::Get(any(&mut self.random, 0)),
            Task::Scan => Step::Scan,
            Task::Mix { writes_percent } => {
                // Evenly among the searches: the n-th transaction writes if the share passes a
                // whole number there.
                let due = self.done * writes_percent / 100;
                if due == self.writes {
                    return Step::Get(any(&mut self.random, self.writes));
                }
                let oldest = self.writes;
                self.writes = due;
                let put = Change::Put(keys.of(rows + oldest));
                Step::Commit(vec![put, Change::Delete(keys.of(oldest))])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn work(task: Task) -> Work {
        Work { rows: 1000, keys: Keys::Random, value_bytes: 100, task }
    }

    #[test]
    fn a_mix_has_its_share_of_writes_and_searches_rows_that_are_there() {
        for (writes_percent, writes) in [(0, 0), (7, 70), (50, 500), (100, 1000)] {
            let work = work(Task::Mix { writes_percent });
            let mut there: BTreeSet<u64> = (0..work.rows).map(|row| work.keys.of(row)).collect();
            let mut steps = work.steps();
            let mut commits = 0;
            for _ in 0..1000 {
                match steps.take() {
                    Step::Commit(changes) => {
                        commits += 1;
                        let [Change::Put(new), Change::Delete(old)] = changes[..] else {
                            panic!("{changes:?}")
                        };
                        assert!(there.insert(new) && there.remove(&old));
                    }
                    Step::Get(key) => assert!(there.contains(&key)),
                    Step::Scan => panic!("a mix does not scan"),
                }
            }
            assert_eq!((commits, there.len()), (writes, 1000));
        }
    }

    #[test]
    fn inserts_are_new_updates_and_deletes_are_of_rows_that_are_there() {
        let there: BTreeSet<u64> = (0..1000).map(|row| Keys::Random.of(row)).collect();
        let keys = |task| {
            let mut steps = work(task).steps();
            let next = |_| match steps.take() {
                Step::Commit(changes) => match changes[..] {
                    [Change::Put(key) | Change::Delete(key)] => key,
                    _ => panic!("{changes:?}"),
                },
                other => panic!("{other:?}"),
            };
            (0..1000).map(next).collect::<Vec<u64>>()
        };
        assert!(keys(Task::Insert).iter().all(|key| !there.contains(key)));
        assert!(keys(Task::Update).iter().all(|key| there.contains(key)));
        assert_eq!(keys(Task::Delete).into_iter().collect::<BTreeSet<_>>(), there);
    }

    #[test]
    fn values_have_their_length_and_differ() {
        let mut steps = work(Task::Insert).steps();
        let first = steps.value();
        steps.take();
        assert!(first.len() == 100 && first != steps.value());
        assert!(Work { value_bytes: 3, ..work(Task::Insert) }.steps().value().len() == 3);
    }
}
