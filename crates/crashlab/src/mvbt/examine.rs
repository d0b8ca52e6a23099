//! What the engine makes of a disk after a loss of power.

use std::collections::HashMap;

use fastrand::Rng;
use oneflush_mvbt::{Database, Options, TreeId};

use crate::content::Image;
use crate::log::{Mark, Op};
use crate::model::Found;
use crate::mvbt::act::Act;
use crate::mvbt::model::Model;
use crate::mvbt::record::{open, unpanicked};
use crate::mvbt::script::Script;
use crate::mvbt::storage::{DiskFile, stands};
use crate::state::Choice;
use crate::subject::{Recovery, Settled, Subject};

/// Keys that no script uses.
const LATER_KEY: i64 = 1 << 40;

/// The engine, and the states that a recording has begun.
pub struct Engine {
    options: Options,
    orders: HashMap<u64, u32>,
    /// Older states are not among them.
    first_order: u32,
    retained: u64,
}

impl Engine {
    pub fn new(script: &Script, beginning: &[Found], log: &[Op]) -> Engine {
        let begun = log.iter().filter_map(|op| match op {
            Op::Mark(Mark::Begun { order, digest, .. }) => Some((*digest, *order)),
            _ => None,
        });
        let beginning = beginning.iter().map(|found| (found.digest, found.order));
        let orders: HashMap<u64, u32> = beginning.chain(begun).collect();
        let first_order = orders.values().copied().min().unwrap_or(0);
        Engine { options: script.options(), orders, first_order, retained: script.retained }
    }

    fn open(&self, file: &DiskFile) -> Result<Database, String> {
        open(file, &self.options).map_err(|error| format!("open: {error}"))
    }

    fn look(&self, file: &DiskFile) -> Result<(Database, Model), String> {
        let db = self.open(file)?;
        is_sound(&db)?;
        let model = db
            .begin_read()
            .and_then(|reader| Model::read(&reader))
            .map_err(|error| error.to_string())?;
        Ok((db, model))
    }

    fn found(&self, model: &Model) -> Result<Found, String> {
        let digest = model.digest();
        let order = self.orders.get(&digest).copied();
        order.map(|order| Found { order, digest }).ok_or_else(|| {
            let Model { integers, records, .. } = model;
            format!(
                "a part of a transaction is there or missing: no commit has {} cells in {} trees \
                    like these",
                model.cells(),
                integers.len() + records.len()
            )
        })
    }

    /// Each version that is retained is the state that was committed then. Each commit has a time,
    /// and so a mark of its own. So has the transaction with which a close ends, if it needs one.
    fn retains(&self, db: &Database, found: Found) -> Result<(), String> {
        if self.retained == 0 {
            return Ok(());
        }
        let history = db.history().map_err(|error| format!("history: {error}"))?;
        let marks = history.marks.iter().rev().filter(|mark| mark.version >= history.from);
        let least = self.retained.min(u64::from(found.order) + 1);
        if (marks.clone().count() as u64) < least {
            return Err(format!("less than {least} versions are kept: {history:?}"));
        }
        let mut above = found.order;
        for mark in marks {
            let about = |what: String| format!("retained version {}: {what}", mark.version);
            let reader =
                db.begin_read_at(mark.version).map_err(|error| about(error.to_string()))?;
            let then = Model::read(&reader).map_err(|error| about(error.to_string()))?;
            match self.orders.get(&then.digest()) {
                Some(&is) if is <= above && is + 1 >= above => above = is,
                None if above <= self.first_order => break,
                other => return Err(about(format!("it is commit {other:?}, before {above}"))),
            }
        }
        Ok(())
    }

    fn examined(&self, image: &Image) -> Result<Recovery, String> {
        let file = DiskFile::open(image)?;
        let (db, model) = self.look(&file)?;
        let found = self.found(&model)?;
        self.retains(&db, found)?;
        // A writer's beginning ends the recovery.
        let begun = db.begin_write().and_then(|txn| txn.rollback());
        begun.map_err(|error| format!("begin: {error}"))?;
        drop(db);
        let log = file.take_log();
        let second = |message| format!("second recovery: {message}");
        let (db, again) = self.look(&file).map_err(second)?;
        if again.digest() != found.digest {
            return Err("the second recovery found another state than the first".to_owned());
        }
        self.retains(&db, found).map_err(second)?;
        let went_on = go_on(&db, again, found.digest)
            .map_err(|message| format!("transactions after recovery: {message}"))?;
        drop(db);
        let third = |message| format!("after more transactions: {message}");
        let (_, model) = self.look(&file).map_err(third)?;
        if model.digest() != went_on.digest() {
            return Err(third("they are not there, or not all of them".to_owned()));
        }
        Ok(Recovery { found: vec![found], log })
    }
}

impl Subject for Engine {
    fn examine(&self, image: &Image, _: &[String], _: &Settled) -> Result<Recovery, String> {
        unpanicked(|| self.examined(image))
    }

    fn stands(&self, choice: &Choice) -> bool {
        stands(choice)
    }

    fn has_slots(&self) -> bool {
        false
    }
}

fn is_sound(db: &Database) -> Result<(), String> {
    let order = |one: &[u8], other: &[u8]| one.cmp(other);
    let report = db.check(Some(&order)).map_err(|error| format!("check: {error}"))?;
    match report.faults.first() {
        None => Ok(()),
        Some(fault) => Err(format!("check: {fault}")),
    }
}

/// One transaction of several pages, and one of a single one.
fn go_on(db: &Database, mut model: Model, seed: u64) -> Result<Model, String> {
    let mut rng = Rng::with_seed(seed);
    for is_single in [false, true] {
        let acts = later_acts(&model, is_single, &mut rng);
        if acts.is_empty() {
            continue;
        }
        let mut txn = db.begin_write().map_err(|error| error.to_string())?;
        for act in acts {
            act.run(&mut txn).map_err(|error| error.to_string())??;
            model.apply(&act);
        }
        txn.commit().map_err(|error| error.to_string())?;
    }
    Ok(model)
}

fn later_acts(model: &Model, is_single: bool, rng: &mut Rng) -> Vec<Act> {
    let mut acts = Vec::new();
    let put = |tree: &TreeId, key, rng: &mut Rng| {
        let payload = vec![rng.u8(..); rng.usize(1..30)];
        Act::Insert { tree: *tree, key, payload }
    };
    for (tree, rows) in &model.integers {
        let key = rows.range(rng.i64(-500..500)..).next().map_or(LATER_KEY, |(key, _)| *key);
        acts.push(put(tree, key, rng));
        if !is_single {
            acts.push(put(tree, LATER_KEY, rng));
        }
    }
    if !is_single {
        for tree in model.records.keys() {
            acts.push(Act::InsertRecord { tree: *tree, record: vec![255; 20] });
        }
        acts.push(Act::SetMeta { value: rng.u32(..) });
    }
    if is_single {
        acts.truncate(1);
    }
    acts
}
