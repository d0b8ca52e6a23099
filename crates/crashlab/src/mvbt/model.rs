//! What a database holds: ordered maps, one a tree.

use std::collections::{BTreeMap, BTreeSet};

use oneflush_mvbt::{Probe, Read, Result, TreeId};

use crate::mix::{mix, mix_bytes, mix2};
use crate::mvbt::act::{Act, META_WORD};

#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Each key with the hash of its payload.
    pub integers: BTreeMap<TreeId, BTreeMap<i64, u64>>,
    pub records: BTreeMap<TreeId, BTreeSet<Vec<u8>>>,
    pub meta: u32,
}

impl Model {
    /// One number of all contents.
    pub fn digest(&self) -> u64 {
        let mut sum = u64::from(self.meta);
        for (tree, rows) in &self.integers {
            let of_row = |(key, hash): (&i64, &u64)| mix2(mix(*key as u64), *hash);
            sum = add_tree(sum, *tree, false, rows.iter().map(of_row));
        }
        for (tree, records) in &self.records {
            sum = add_tree(sum, *tree, true, records.iter().map(|record| mix_bytes(record)));
        }
        sum
    }

    /// All that a snapshot holds, or a transaction sees.
    pub fn read(read: &dyn Read) -> Result<Model> {
        let source = read.source();
        let mut model = Model { meta: read.meta()?[META_WORD], ..Model::default() };
        for id in read.trees()? {
            let mut cursor = read.cursor(id)?;
            cursor.seek(source, Probe::First)?;
            if cursor.tree().is_record {
                let records = model.records.entry(id).or_default();
                while let Some(record) = cursor.payload(source)? {
                    records.insert(record);
                    cursor.next(source)?;
                }
            } else {
                let rows = model.integers.entry(id).or_default();
                while let Some(key) = cursor.integer_key(source)? {
                    let payload = cursor.payload(source)?.unwrap_or_default();
                    rows.insert(key, mix_bytes(&payload));
                    cursor.next(source)?;
                }
            }
        }
        Ok(model)
    }

    /// Changes what one act changes. Savepoints are the planner's.
    pub fn apply(&mut self, act: &Act) {
        match act {
            Act::Insert { tree, key, payload } => {
                self.integers.entry(*tree).or_default().insert(*key, mix_bytes(payload));
            }
            Act::Delete { tree, key } => {
                self.integers.entry(*tree).or_default().remove(key);
            }
            Act::InsertRecord { tree, record } => {
                self.records.entry(*tree).or_default().insert(record.clone());
            }
            Act::DeleteRecord { tree, record } => {
                self.records.entry(*tree).or_default().remove(record);
            }
            Act::Create { tree, is_record: false } => {
                drop(self.integers.insert(*tree, BTreeMap::new()))
            }
            Act::Create { tree, is_record: true } => {
                drop(self.records.insert(*tree, BTreeSet::new()))
            }
            Act::Drop { tree } => {
                self.integers.remove(tree);
                self.records.remove(tree);
            }
            Act::Clear { tree } => {
                self.integers.get_mut(tree).into_iter().for_each(BTreeMap::clear);
                self.records.get_mut(tree).into_iter().for_each(BTreeSet::clear);
            }
            Act::SetMeta { value } => self.meta = *value,
            Act::Savepoint | Act::RollBackTo { .. } | Act::Release { .. } => {}
        }
    }

    /// How many cells the trees have, for messages.
    pub fn cells(&self) -> usize {
        let rows: usize = self.integers.values().map(BTreeMap::len).sum();
        rows + self.records.values().map(BTreeSet::len).sum::<usize>()
    }
}

fn add_tree(sum: u64, tree: TreeId, is_record: bool, cells: impl Iterator<Item = u64>) -> u64 {
    let salt = mix2(u64::from(tree.0) + 1, u64::from(is_record));
    cells.fold(sum.wrapping_add(salt), |sum, cell| sum.wrapping_add(mix2(salt, cell)))
}
