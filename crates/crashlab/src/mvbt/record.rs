//! Runs a script with the engine on a recording disk.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use fastrand::Rng;
use oneflush_mvbt::{
    Database, Error, Options, Prepared, ReadTransaction, Result as MvbtResult, Retain,
};

use crate::content::Image;
use crate::log::{Mark, Op};
use crate::model::{Allowed, Found};
use crate::mvbt::act::Act;
use crate::mvbt::model::Model;
use crate::mvbt::plan::Planner;
use crate::mvbt::script::{Kind, Life, Script, Step};
use crate::mvbt::storage::{DiskFile, FILE, stands};
use crate::record::{BEFORE_THE_RECORDING, Recording};
use crate::state::Moment;
use crate::timeline::{Reading, Timeline};

/// The number of the first tree that a database makes.
const FIRST_TREE: u32 = 2;

/// Runs a script. An error is a run that went wrong without a loss of power, or in an earlier life.
pub fn record(script: &Script) -> Result<Recording, String> {
    record_with_looks(script).map(|(recording, _)| recording)
}

/// What readers of old versions met, in numbers of looks at all contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    pub answered: u64,
    /// The engine has said that the version is not kept any more.
    pub gone: u64,
}

/// The same, and what its readers met.
pub fn record_with_looks(script: &Script) -> Result<(Recording, Looks), String> {
    unpanicked(|| {
        let mut run = Run::begin(script)?;
        run.steps(&script.before)?;
        for (number, life) in script.lives.iter().enumerate() {
            run.begin_recording();
            run.live(life)
                .map_err(|message| format!("{BEFORE_THE_RECORDING} ({}): {message}", number + 1))?;
        }
        run.begin_recording();
        run.steps(&script.steps)?;
        let looks = run.looks;
        Ok((run.recording(), looks))
    })
}

/// A panic of the engine is an error like another.
pub fn unpanicked<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a message")))
    })
}

pub fn open(file: &DiskFile, options: &Options) -> MvbtResult<Database> {
    Database::open_on(file.storage(), PathBuf::from(FILE), options.clone())
}

/// The first transaction: so many versions stay readable from now on.
fn retain(db: &Database, versions: u64) -> MvbtResult<()> {
    if versions == 0 {
        return Ok(());
    }
    let mut txn = db.begin_write()?;
    txn.set_retain(Retain::Versions(versions))?;
    txn.commit().map(drop)
}

fn text(error: Error) -> String {
    error.to_string()
}

/// A committed state.
#[derive(Clone)]
struct Committed {
    order: u32,
    model: Model,
    next_tree: u32,
}

struct Run<'a> {
    script: &'a Script,
    options: Options,
    file: DiskFile,
    now: Committed,
    /// All states that were begun, by their digests. No two orders of a life have the same.
    begun: HashMap<u64, Committed>,
    initial: Image,
    beginning: Found,
    log: Vec<Op>,
    looks: Looks,
}

/// A reader, and what it must see.
struct Reader {
    txn: ReadTransaction,
    digest: u64,
}

/// What the transaction does, and what it would make.
struct Planned {
    acts: Vec<Act>,
    then: Committed,
    digest: u64,
}

impl<'a> Run<'a> {
    fn begin(script: &'a Script) -> Result<Run<'a>, String> {
        let options = script.options();
        let file = DiskFile::create()?;
        let made = Database::create_on(file.storage(), PathBuf::from(FILE), options.clone());
        let made = made.and_then(|db| retain(&db, script.retained));
        made.map_err(text)?;
        let now = Committed { order: 0, model: Model::default(), next_tree: FIRST_TREE };
        let beginning = Found { order: 0, digest: now.model.digest() };
        let begun = HashMap::from([(beginning.digest, now.clone())]);
        let (initial, log, looks) = (Image::default(), Vec::new(), Looks::default());
        Ok(Run { script, options, file, now, begun, initial, beginning, log, looks })
    }

    /// Everything is durable: no process runs, and the last commit was acknowledged.
    fn begin_recording(&mut self) {
        self.initial = self.file.image();
        self.beginning = Found { order: self.now.order, digest: self.now.model.digest() };
        self.file.take_log();
        self.log.clear();
    }

    fn recording(mut self) -> Recording {
        self.log.extend(self.file.take_log());
        let Run { initial, beginning, log, .. } = self;
        Recording { initial, beginning: vec![beginning], log, files: vec![FILE.to_owned()] }
    }

    /// Steps that end in a loss of power, and what is left after it.
    fn live(&mut self, life: &Life) -> Result<(), String> {
        self.steps(&life.steps)?;
        let log = self.file.take_log();
        let mut rng = Rng::with_seed(life.crash_seed);
        let after = rng.usize(..=log.len());
        let reading = Reading::ALL[rng.usize(..Reading::ALL.len())];
        let mut timeline = Timeline::new(&self.initial, reading);
        log[..after].iter().for_each(|op| timeline.apply(op));
        let moment = Moment::new(&timeline);
        let choice = loop {
            let choice = moment.draw(&mut rng);
            if stands(&choice) {
                break choice;
            }
        };
        self.file = DiskFile::open(&moment.image(&choice))?;
        let db = open(&self.file, &self.options).map_err(text)?;
        let digest = Model::read(&db.begin_read().map_err(text)?).map_err(text)?.digest();
        let found = self.begun.get(&digest).ok_or("no transaction has made what is there")?;
        let allowed = Allowed::after(&[self.beginning], &log[..after]);
        match allowed.objection(&[Found { order: found.order, digest }]) {
            Some(message) => Err(message),
            None => {
                self.now = found.clone();
                Ok(())
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), String> {
        let mut done = 0;
        while done < steps.len() {
            done += self
                .opening(&steps[done..])
                .map_err(|message| format!("the run, from step {}: {message}", done + 1))?;
        }
        Ok(())
    }

    /// Steps of one opening of the file. Answers how many.
    fn opening(&mut self, steps: &[Step]) -> Result<usize, String> {
        let file = self.file.clone();
        let db = open(&file, &self.options).map_err(text)?;
        self.holds(&db)?;
        let mut readers: Vec<Reader> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let done = at + 1;
            match *step {
                Step::Commit { kind, seed } => self.commit(&db, kind, seed)?,
                Step::Unmade { kind, seed } => self.unmake(&db, kind, seed)?,
                Step::RolledBack { kind, seed } => self.roll_back(&db, kind, seed)?,
                Step::Read => {
                    readers.push(Reader {
                        txn: db.begin_read().map_err(text)?,
                        digest: self.now.model.digest(),
                    });
                }
                Step::Look => {
                    self.look(&readers)?;
                    if !readers.is_empty() {
                        readers.remove(0);
                    }
                }
                Step::Reclaim => drop(db.reclaim().map_err(text)?),
                Step::Shrink => drop(db.shrink(db.data_version(), true).map_err(text)?),
                Step::Killed { kind, seed, after } => {
                    file.die_after(after);
                    let killed = self.commit_while_dying(&db, kind, seed);
                    self.look(&readers)?;
                    drop(readers);
                    drop(db);
                    file.live_on();
                    self.after_the_death(killed?)?;
                    return Ok(done);
                }
                Step::Panics { kind, seed, after } => {
                    let panicked = self.commit_and_panic(&db, kind, seed, after)?;
                    self.look(&readers)?;
                    drop(readers);
                    drop(db);
                    self.after_the_death(panicked)?;
                    return Ok(done);
                }
                Step::Close => {
                    self.look(&readers)?;
                    drop(readers);
                    self.holds(&db)?;
                    db.close().map_err(text)?;
                    return Ok(done);
                }
                Step::Die => {
                    self.look(&readers)?;
                    return Ok(done);
                }
            }
        }
        self.look(&readers)?;
        self.holds(&db)?;
        Ok(steps.len())
    }

    /// The last committed version holds what it must.
    fn holds(&self, db: &Database) -> Result<(), String> {
        let found = Model::read(&db.begin_read().map_err(text)?).map_err(text)?;
        match found.digest() == self.now.model.digest() {
            true => Ok(()),
            false => Err(format!("commit {} does not hold what it must", self.now.order)),
        }
    }

    /// A reader sees its state, or is told that this is gone. The second is rare.
    fn look(&mut self, readers: &[Reader]) -> Result<(), String> {
        let mut gone = 0;
        for reader in readers {
            let about =
                |what: &str| format!("a reader of version {}: {what}", reader.txn.version());
            match Model::read(&reader.txn) {
                Ok(found) if found.digest() == reader.digest => {}
                Ok(_) => return Err(about("it sees another state than its own")),
                Err(Error::SnapshotGone { .. }) if self.script.may_lose_snapshots() => gone += 1,
                Err(error) => return Err(about(&error.to_string())),
            }
        }
        self.looks.answered += readers.len() as u64 - gone;
        self.looks.gone += gone;
        Ok(())
    }

    fn plan(&self, kind: Kind, seed: u64) -> Planned {
        let mut rng = Rng::with_seed(seed);
        let Committed { order, model, next_tree } = self.now.clone();
        let mut planner = Planner::new(model, next_tree, self.script.page_bytes, &mut rng);
        planner.plan(kind);
        let (mut acts, mut model, next_tree) = (planner.acts, planner.model, planner.next_tree);
        // What is found after a crash says by its contents which commit it is.
        if self.begun.contains_key(&model.digest()) {
            let act = Act::SetMeta { value: mix_order(order, seed) };
            model.apply(&act);
            acts.push(act);
        }
        let digest = model.digest();
        Planned { acts, then: Committed { order: order + 1, model, next_tree }, digest }
    }

    fn commit(&mut self, db: &Database, kind: Kind, seed: u64) -> Result<(), String> {
        let planned = self.plan(kind, seed);
        self.try_commit(db, &planned)?.map_err(text)?;
        self.acknowledge(planned);
        Ok(())
    }

    /// Commits in two steps, and goes back before the second.
    fn unmake(&mut self, db: &Database, kind: Kind, seed: u64) -> Result<(), String> {
        let planned = self.plan(kind, seed);
        let prepared = self.try_prepare(db, &planned)?.map_err(text)?;
        self.holds(db)?;
        prepared.rollback().map_err(text)?;
        let (order, digest) = (planned.then.order, planned.digest);
        self.file.mark(Mark::RolledBack { file: 0, order, digest });
        self.holds(db)
    }

    fn try_commit(&mut self, db: &Database, planned: &Planned) -> Result<MvbtResult<()>, String> {
        Ok(self.try_prepare(db, planned)?.map(|prepared| {
            prepared.finish();
        }))
    }

    /// The outer error is a wrong answer, the inner one is the engine's.
    fn try_prepare(
        &mut self,
        db: &Database,
        planned: &Planned,
    ) -> Result<MvbtResult<Prepared>, String> {
        let mut txn = match db.begin_write() {
            Ok(txn) => txn,
            Err(error) => return Ok(Err(error)),
        };
        for act in &planned.acts {
            match act.run(&mut txn) {
                Ok(answer) => answer?,
                Err(error) => return Ok(Err(error)),
            }
        }
        let (order, digest) = (planned.then.order, planned.digest);
        self.begun.insert(digest, planned.then.clone());
        self.file.mark(Mark::Begun { file: 0, order, digest });
        Ok(txn.prepare())
    }

    fn acknowledge(&mut self, planned: Planned) {
        let (order, digest) = (planned.then.order, planned.digest);
        self.file.mark(Mark::Acknowledged { file: 0, order, digest, promised: true });
        self.now = planned.then;
    }

    fn roll_back(&self, db: &Database, kind: Kind, seed: u64) -> Result<(), String> {
        let planned = self.plan(kind, seed);
        let mut txn = db.begin_write().map_err(text)?;
        for act in &planned.acts {
            act.run(&mut txn).map_err(text)??;
        }
        txn.rollback().map_err(text)?;
        self.holds(db)
    }

    /// Answers what the next process may find, beside what was there before. None: it was
    /// acknowledged.
    fn commit_while_dying(
        &mut self,
        db: &Database,
        kind: Kind,
        seed: u64,
    ) -> Result<Option<Planned>, String> {
        let planned = self.plan(kind, seed);
        match self.try_commit(db, &planned)? {
            Ok(()) => {
                self.acknowledge(planned);
                Ok(None)
            }
            Err(Error::Io { .. } | Error::Poisoned) => Ok(Some(planned)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// As [`Run::commit_while_dying`]. After the panic nothing more is acknowledged.
    fn commit_and_panic(
        &mut self,
        db: &Database,
        kind: Kind,
        seed: u64,
        after: u32,
    ) -> Result<Option<Planned>, String> {
        let planned = self.plan(kind, seed);
        self.file.panic_after(after);
        let tried = catch_unwind(AssertUnwindSafe(|| self.try_commit(db, &planned)));
        let has_panicked = !self.file.live_on();
        match tried {
            Ok(tried) => {
                tried?.map_err(text)?;
                if has_panicked {
                    return Err("a panic was stopped, and the commit acknowledged".to_owned());
                }
                self.acknowledge(planned);
                Ok(None)
            }
            Err(panic) if !has_panicked => resume_unwind(panic),
            Err(_) => match db.begin_write().and_then(|txn| txn.commit()) {
                Err(Error::Poisoned) => Ok(Some(planned)),
                Err(error) => Err(format!("after a panic a transaction is refused with: {error}")),
                Ok(_) => Err("after a panic a transaction is acknowledged".to_owned()),
            },
        }
    }

    fn after_the_death(&mut self, killed: Option<Planned>) -> Result<(), String> {
        let Some(killed) = killed else { return Ok(()) };
        let db = open(&self.file, &self.options).map_err(text)?;
        let found = Model::read(&db.begin_read().map_err(text)?).map_err(text)?.digest();
        if found == self.now.model.digest() {
            return Ok(());
        }
        if found != killed.digest {
            return Err("a process died or panicked, and left a part of its transaction".to_owned());
        }
        // Who opens the file flushes it, and then judges.
        self.acknowledge(killed);
        Ok(())
    }
}

fn mix_order(order: u32, seed: u64) -> u32 {
    crate::mix::mix2(seed, u64::from(order)) as u32
}
