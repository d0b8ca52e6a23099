//! Plans the acts of one transaction, by seed, on what the database holds.

use fastrand::Rng;
use oneflush_mvbt::TreeId;

use crate::mvbt::act::Act;
use crate::mvbt::model::Model;
use crate::mvbt::script::Kind;

/// Random keys lie below this, on both sides of zero.
const KEYS: i64 = 500;
const TREES_MAX: usize = 4;

/// Plans a transaction, and follows in a model what it does.
pub struct Planner<'a> {
    pub model: Model,
    pub acts: Vec<Act>,
    /// The number of the next tree.
    pub next_tree: u32,
    saved: Vec<(Model, u32)>,
    page_bytes: usize,
    rng: &'a mut Rng,
}

impl<'a> Planner<'a> {
    pub fn new(model: Model, next_tree: u32, page_bytes: usize, rng: &'a mut Rng) -> Planner<'a> {
        Planner { model, acts: Vec::new(), next_tree, saved: Vec::new(), page_bytes, rng }
    }

    pub fn plan(&mut self, kind: Kind) {
        match kind {
            Kind::Append => self.append(),
            Kind::Scatter => self.scatter(),
            Kind::Update => self.update(),
            Kind::Thin => (0..self.rng.usize(1..5)).for_each(|_| self.delete_any()),
            Kind::Empty => self.empty(),
            Kind::Bulk => {
                let is_ascending = self.rng.bool();
                for _ in 0..self.rng.usize(10..60) {
                    if is_ascending { self.append() } else { self.scatter() }
                }
            }
            Kind::Long => {
                for _ in 0..self.rng.usize(1..3) {
                    let bytes = self.rng.usize(self.page_bytes / 4..self.page_bytes * 8);
                    self.insert_any(bytes);
                }
            }
            Kind::Records => (0..self.rng.usize(1..8)).for_each(|_| self.record()),
            Kind::Trees => (0..self.rng.usize(2..6)).for_each(|_| self.change_trees()),
            Kind::Drop => self.drop_tree(),
            Kind::Savepoints => self.savepoints(),
            Kind::Huge => self.huge(),
            Kind::Any => (0..self.rng.usize(1..6)).for_each(|_| self.any()),
        }
    }

    fn act(&mut self, act: Act) {
        self.model.apply(&act);
        self.acts.push(act);
    }

    fn integer_tree(&mut self) -> TreeId {
        let trees: Vec<TreeId> = self.model.integers.keys().copied().collect();
        match trees.is_empty() {
            true => self.create(false),
            // The first one gets most.
            false if self.rng.bool() => trees[0],
            false => trees[self.rng.usize(..trees.len())],
        }
    }

    fn record_tree(&mut self) -> TreeId {
        let trees: Vec<TreeId> = self.model.records.keys().copied().collect();
        match trees.is_empty() {
            true => self.create(true),
            false => trees[self.rng.usize(..trees.len())],
        }
    }

    fn create(&mut self, is_record: bool) -> TreeId {
        let tree = TreeId(self.next_tree);
        self.next_tree += 1;
        self.act(Act::Create { tree, is_record });
        tree
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.rng.fill(&mut bytes);
        bytes
    }

    fn insert(&mut self, tree: TreeId, key: i64, bytes: usize) {
        let payload = self.bytes(bytes);
        self.act(Act::Insert { tree, key, payload });
    }

    fn insert_any(&mut self, bytes: usize) {
        let (tree, key) = (self.integer_tree(), self.rng.i64(-KEYS..KEYS));
        self.insert(tree, key, bytes);
    }

    fn append(&mut self) {
        let tree = self.integer_tree();
        let last = self.model.integers[&tree].last_key_value();
        let key = last.map_or(1, |(key, _)| key + 1);
        let bytes = self.rng.usize(8..60);
        self.insert(tree, key, bytes);
    }

    fn scatter(&mut self) {
        let bytes = self.rng.usize(8..60);
        self.insert_any(bytes);
    }

    /// A key that is there, if the tree has one.
    fn a_key(&mut self, tree: TreeId) -> Option<i64> {
        let rows = &self.model.integers[&tree];
        let from = self.rng.i64(-KEYS..KEYS);
        rows.range(from..).next().or_else(|| rows.first_key_value()).map(|(key, _)| *key)
    }

    fn update(&mut self) {
        let tree = self.integer_tree();
        let bytes = match self.rng.u8(..6) {
            0 => self.rng.usize(..self.page_bytes * 3),
            1 => 0,
            _ => self.rng.usize(..self.page_bytes / 4),
        };
        match self.a_key(tree) {
            Some(key) => self.insert(tree, key, bytes),
            None => self.append(),
        }
    }

    fn delete_any(&mut self) {
        let tree = self.integer_tree();
        match self.a_key(tree) {
            Some(key) => self.act(Act::Delete { tree, key }),
            None => self.append(),
        }
    }

    /// Deletes all rows of a tree one by one, or many of them.
    fn empty(&mut self) {
        let tree = self.integer_tree();
        let keys: Vec<i64> = self.model.integers[&tree].keys().copied().collect();
        let is_backwards = self.rng.bool();
        let count = if self.rng.bool() { keys.len() } else { keys.len() / 2 };
        for at in 0..count {
            let key = if is_backwards { keys[keys.len() - 1 - at] } else { keys[at] };
            self.act(Act::Delete { tree, key });
        }
        if count == 0 {
            self.append();
        }
    }

    fn record(&mut self) {
        let tree = self.record_tree();
        let mut record = self.rng.u16(..300).to_be_bytes().to_vec();
        if self.rng.u8(..3) == 0
            && let Some(there) = self.model.records[&tree].range(record.clone()..).next()
        {
            let record = there.clone();
            return self.act(Act::DeleteRecord { tree, record });
        }
        let more = match self.rng.u8(..8) {
            0 => self.rng.usize(..self.page_bytes * 3),
            _ => self.rng.usize(..60),
        };
        record.resize(2 + more, 7);
        self.act(Act::InsertRecord { tree, record });
    }

    fn change_trees(&mut self) {
        let mut trees: Vec<TreeId> = self.model.integers.keys().copied().collect();
        trees.extend(self.model.records.keys());
        let any = |rng: &mut Rng| trees[rng.usize(..trees.len())];
        match self.rng.u8(..8) {
            0 | 1 if trees.len() < TREES_MAX => {
                let is_record = self.rng.u8(..3) == 0;
                self.create(is_record);
            }
            2 if trees.len() > 1 => {
                let tree = any(self.rng);
                self.act(Act::Drop { tree });
            }
            3 if !trees.is_empty() => {
                let tree = any(self.rng);
                self.act(Act::Clear { tree });
            }
            4 => self.record(),
            5 => {
                let value = self.rng.u32(..);
                self.act(Act::SetMeta { value });
            }
            _ => (0..self.rng.usize(1..12)).for_each(|_| self.scatter()),
        }
    }

    fn drop_tree(&mut self) {
        let tree = self.integer_tree();
        self.act(Act::Drop { tree });
    }

    fn savepoints(&mut self) {
        for _ in 0..self.rng.usize(3..14) {
            let open = self.saved.len();
            match self.rng.u8(..6) {
                0 | 1 if open < 4 => {
                    self.saved.push((self.model.clone(), self.next_tree));
                    self.act(Act::Savepoint);
                }
                2 if open > 0 => {
                    let savepoint = self.rng.usize(1..=open);
                    self.saved.truncate(savepoint);
                    let (model, next_tree) = self.saved[savepoint - 1].clone();
                    (self.model, self.next_tree) = (model, next_tree);
                    self.acts.push(Act::RollBackTo { savepoint });
                }
                3 if open > 0 => {
                    let savepoint = self.rng.usize(1..=open);
                    self.saved.truncate(savepoint - 1);
                    self.act(Act::Release { savepoint });
                }
                _ => self.any(),
            }
        }
    }

    /// More pages than a commit block lists.
    fn huge(&mut self) {
        let tree = self.integer_tree();
        let mut pages = 0;
        while pages < 345 {
            let (key, more) = (self.rng.i64(-KEYS..KEYS), self.rng.usize(5..40));
            pages += more;
            self.insert(tree, key, self.page_bytes * more);
        }
    }

    fn any(&mut self) {
        match self.rng.u8(..16) {
            0..=2 => self.append(),
            3..=5 => self.scatter(),
            6..=8 => self.update(),
            9 | 10 => self.delete_any(),
            11 => self.plan(Kind::Long),
            12 | 13 => self.record(),
            14 => self.change_trees(),
            _ => (0..self.rng.usize(5..30)).for_each(|_| self.scatter()),
        }
    }
}
