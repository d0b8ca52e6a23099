//! Runs scripts, and goes through what losses of power leave of them.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oneflush_blocklog::{Log, Uuid};
use oneflush_eagerfs::entry::{Begin, ObjectId, ROOT};
use oneflush_eagerfs::lower::{Attribute, Lower, Made, What};
use oneflush_eagerfs::mutant::Mutant;
use oneflush_eagerfs::recovery;
use oneflush_eagerfs::replay::PLACE;
use oneflush_eagerfs::tree::{Isets, Options, Tree};

use super::event::{Event, Happened};
use super::image::{Image, ROOT_INO};
use super::loss::{Loss, Order};
use super::lower::Model;
use super::oracle::Oracle;
use super::script::{self, Ideal, Path, Step};
use crate::content::Image as DiskImage;
use crate::lock::locked;
use crate::log::Op;
use crate::mvbt::storage::DiskFile;
use crate::sabotage::Sabotage;
use crate::state::{Choice, Fill, Moment, Tear};
use crate::timeline::{Reading, Timeline};

const LANE_BYTES: u64 = 64 << 10;
/// What a lane may have. Some records fill the second one, and one or two the third: then the next
/// epoch begins in the middle of a script, and waits for the release of the one before the last.
const LANE_BYTES_MAX: [u64; 3] = [1 << 20, 20 << 10, 6 << 10];
const THRESHOLD_BYTES: u64 = 16 << 10;
/// Losses of power in recoveries, and in recoveries of those.
const DEPTH_MAX: usize = 3;
const SCRIPTS_A_ROUND: usize = 20_000;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Operations a script has.
    pub length: usize,
    /// So many scripts by seed. `None`: all of this length.
    pub scripts: Option<usize>,
    pub seed: u64,
    pub isets: Isets,
    pub mutant: Option<Mutant>,
    pub sabotage: Sabotage,
    /// Each script runs also with failing syncs, with failing writes to the log, and with panics of
    /// code that uses the lower or the log.
    pub has_faults: bool,
    /// States a moment at most.
    pub states_a_moment: usize,
    /// Of so many recoveries power is lost in one.
    pub recoveries_a_loss: u8,
    /// No script begins after so many states.
    pub states_max: u64,
    pub jobs: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub scripts: u64,
    pub states: u64,
    pub duplicates: u64,
    pub by_depth: [u64; DEPTH_MAX],
    pub failure: Option<Failure>,
    /// The watch has ended it.
    pub interrupted: bool,
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub steps: Vec<Step>,
    pub order: Order,
    /// What happened before the loss of power, the newest last.
    pub story: Vec<String>,
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
        writeln!(out, "script: {}", steps.join("; "))?;
        writeln!(out, "lower: {}", self.order.name())?;
        for line in &self.story {
            writeln!(out, "  {line}")?;
        }
        write!(out, "{}", self.message)
    }
}

/// Every script of this length, with what may follow each operation.
fn scripts(length: usize) -> Vec<Vec<Step>> {
    let mut all = vec![(Vec::new(), Ideal(script::base()))];
    for _ in 0..length {
        let mut longer = Vec::new();
        for (steps, ideal) in &all {
            for (core, syncs) in script::CORE
                .iter()
                .flat_map(|core| script::SYNCS.iter().map(move |syncs| (*core, *syncs)))
            {
                longer.extend(with(steps, ideal, core, syncs));
            }
        }
        all = longer;
    }
    all.into_iter().map(|(steps, _)| steps).collect()
}

/// A script with one more operation, if that can be done.
fn with(steps: &[Step], ideal: &Ideal, core: Step, syncs: &[Step]) -> Option<(Vec<Step>, Ideal)> {
    let mut after = ideal.clone();
    let can_be =
        after.step(steps.len(), core) && syncs.iter().all(|sync| after.clone().step(0, *sync));
    can_be.then(|| {
        let mut longer = steps.to_vec();
        longer.push(core);
        longer.extend(syncs);
        (longer, after)
    })
}

/// Scripts of this length, by seed.
fn drawn(length: usize, count: usize, rng: &mut fastrand::Rng) -> Vec<Vec<Step>> {
    let base = Ideal(script::base());
    let draw = |rng: &mut fastrand::Rng| {
        let (mut steps, mut ideal) = (Vec::new(), base.clone());
        for _ in 0..length {
            (steps, ideal) = loop {
                let core = script::CORE[rng.usize(..script::CORE.len())];
                let syncs = script::SYNCS[rng.usize(..script::SYNCS.len())];
                if let Some(longer) = with(&steps, &ideal, core, syncs) {
                    break longer;
                }
            };
        }
        steps
    };
    (0..count).map(|_| draw(rng)).collect()
}

/// Hears how many states were examined, and may end the run.
pub type Watch<'a> = dyn Fn(u64) -> ControlFlow<()> + Sync + 'a;

/// All scripts of one and two operations, then scripts of three by seed, until so many states were
/// examined.
pub fn campaign(
    states: u64,
    seed: u64,
    jobs: usize,
    sabotage: Sabotage,
    watch: &Watch<'_>,
) -> Report {
    let mut report = Report::default();
    for round in 0.. {
        let (length, scripts) = match round {
            0 => (1, None),
            1 => (2, None),
            _ => (3, Some(SCRIPTS_A_ROUND)),
        };
        let plan = Plan {
            length,
            scripts,
            seed: seed.wrapping_add(round),
            isets: Isets::All,
            mutant: None,
            sabotage,
            has_faults: true,
            states_a_moment: if length == 1 { 20 } else { 4 },
            recoveries_a_loss: 10,
            states_max: states.saturating_sub(report.states),
            jobs,
        };
        let before = report.states;
        let of_round = run(&plan, &|states| watch(before + states));
        let is_last = of_round.failure.is_some() || of_round.interrupted;
        report.add(&of_round);
        report.failure = of_round.failure;
        report.interrupted = of_round.interrupted;
        if is_last || report.states >= states {
            break;
        }
    }
    report
}

/// Runs the scripts of a plan.
pub fn run(plan: &Plan, watch: &Watch<'_>) -> Report {
    let mut rng = fastrand::Rng::with_seed(plan.seed);
    let mut chosen = match plan.scripts {
        None => scripts(plan.length),
        Some(count) => drawn(plan.length, count, &mut rng),
    };
    rng.shuffle(&mut chosen);
    run_scripts(plan, &chosen, watch)
}

/// Runs these scripts. Of the plan the length and the number of scripts do not count.
pub fn run_scripts(plan: &Plan, chosen: &[Vec<Step>], watch: &Watch<'_>) -> Report {
    let report = Mutex::new(Report::default());
    let next = AtomicUsize::new(0);
    let seen = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                // A variant is to be caught by the states that it leaves.
                #[cfg(feature = "mutants")]
                let _unchecked = plan.mutant.map(|mutant| {
                    oneflush_eagerfs::mutant::choose(Some(mutant));
                    oneflush_blocklog::invariant::Unchecked::here()
                });
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(steps) = chosen.get(number) else { return };
                    {
                        let mut report = locked(&report);
                        if report.failure.is_some() || report.states >= plan.states_max {
                            return;
                        }
                        if watch(report.states).is_break() {
                            report.interrupted = true;
                            return;
                        }
                    }
                    for (order, finds) in
                        [(Order::Prefix, true), (Order::Any, true), (Order::Prefix, false)]
                    {
                        // Which of the two objects came first is nowhere, so one may be moved back.
                        let exchanges = steps.iter().any(|step| matches!(step, Step::Exchange(..)));
                        if order == Order::Any && exchanges {
                            continue;
                        }
                        let seed = plan.seed ^ (number as u64) << 8;
                        let mut one = Script {
                            plan,
                            steps,
                            order,
                            finds,
                            rng: fastrand::Rng::with_seed(seed),
                            seen: &seen,
                            report: Report { scripts: 1, ..Report::default() },
                        };
                        let done = one.run();
                        let mut report = locked(&report);
                        report.add(&one.report);
                        if let Err(failure) = done
                            && report.failure.is_none()
                        {
                            report.failure = Some(*failure);
                        }
                    }
                }
            });
        }
    });
    report.into_inner().unwrap_or_default()
}

impl Report {
    fn add(&mut self, other: &Report) {
        self.scripts += other.scripts;
        self.states += other.states;
        self.duplicates += other.duplicates;
        for (sum, more) in self.by_depth.iter_mut().zip(other.by_depth) {
            *sum += more;
        }
    }
}

/// What fails, after so many of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Sync(u32),
    LogWrite(u32),
    Panic(u32),
    LogPanic(u32),
}

/// How far a run was when a step had begun or ended.
#[derive(Clone, Copy)]
struct Moments {
    events: usize,
    log_ops: usize,
}

/// What a run or a recovery did to lower and log.
struct Recording {
    lower: Image,
    disk: DiskImage,
    happened: Vec<Happened>,
    log: Vec<Op>,
}

impl Recording {
    /// The first of the events of the lower.
    fn events(&self, count: usize) -> impl Iterator<Item = &Event> {
        self.happened[..count].iter().map(|happened| &happened.event)
    }

    /// All moments at which power can be lost: so many events and so many operations of the log.
    fn moments(&self) -> Vec<Moments> {
        let mut moments = Vec::new();
        let mut log_ops = 0;
        for events in 0..=self.happened.len() {
            let until = self.happened.get(events).map_or(self.log.len(), |event| event.log_ops);
            moments.extend((log_ops..=until).map(|log_ops| Moments { events, log_ops }));
            log_ops = until;
        }
        moments
    }
}

struct Script<'a> {
    plan: &'a Plan,
    steps: &'a [Step],
    order: Order,
    finds: bool,
    rng: fastrand::Rng,
    seen: &'a Mutex<HashSet<u64>>,
    report: Report,
}

type Done = Result<(), Box<Failure>>;

impl Script<'_> {
    fn run(&mut self) -> Done {
        self.run_with(Fault::None)?;
        if self.plan.has_faults {
            let after = self.rng.u32(..4);
            self.run_with(Fault::Sync(after))?;
            self.run_with(Fault::LogWrite(after))?;
            self.run_with(Fault::LogPanic(after))?;
            let after = self.rng.u32(..12);
            self.run_with(Fault::Panic(after))?;
        }
        Ok(())
    }

    fn run_with(&mut self, fault: Fault) -> Done {
        let base = script::base();
        let (recording, begun, ended) =
            self.record(&base, fault).map_err(|message| self.failure(Vec::new(), message))?;
        let oracle = Oracle::new(&base, self.steps);
        for moment in recording.moments() {
            let is_before =
                |other: &&Moments| other.events <= moment.events && other.log_ops <= moment.log_ops;
            let acknowledged = ended.iter().take_while(is_before).count();
            // A step begins to count when it can have done anything.
            let begun = begun.iter().take_while(is_before).count();
            let order = self.order;
            let check = |image: &Image| oracle.check(image, order, acknowledged, begun);
            let story = vec![format!(
                "power is lost after {} events and {} writes: {acknowledged} steps were \
                    acknowledged, {begun} begun",
                moment.events, moment.log_ops
            )];
            let states = self.plan.states_a_moment;
            self.explore(&recording, moment, states, 1, &story, &check)?;
        }
        Ok(())
    }

    fn failure(&self, story: Vec<String>, message: String) -> Box<Failure> {
        Box::new(Failure { steps: self.steps.to_vec(), order: self.order, story, message })
    }

    fn record(
        &mut self,
        base: &Image,
        fault: Fault,
    ) -> Result<(Recording, Vec<Moments>, Vec<Moments>), String> {
        let disk = DiskFile::create()?;
        let text = |error: &dyn fmt::Display| error.to_string();
        let (log, head) = Log::create_for_directory(disk.clone(), Uuid([7; 16]), LANE_BYTES)
            .map_err(|error| text(&error))?;
        let counted = disk.clone();
        let model = Model::new(base.clone(), 1, self.finds, self.order, move || counted.log_len());
        let root = model.identity(&ROOT_INO).map_err(|error| text(&error))?;
        let begin = Begin { root, boot: b"boot".to_vec(), mount: 1 };
        let options = Options {
            isets: self.plan.isets,
            threshold_bytes: THRESHOLD_BYTES,
            lane_bytes_max: LANE_BYTES_MAX[self.rng.usize(..LANE_BYTES_MAX.len())],
            clock: || 0,
        };
        let tree =
            Tree::new(model.clone(), log, head, begin, options).map_err(|error| text(&error))?;
        let first = disk.image();
        disk.take_log();
        model.take_happened();
        disk.sabotage(self.plan.sabotage);
        let mut happened: Vec<Happened> = Vec::new();
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        match fault {
            Fault::None => {}
            Fault::Sync(after) => model.fail_sync_after(after),
            Fault::LogWrite(after) => disk.die_after(after),
            Fault::Panic(after) => model.panic_after(Some(after)),
            Fault::LogPanic(after) => disk.panic_after(after),
        }
        for (number, step) in self.steps.iter().enumerate() {
            begun.push(Moments { events: happened.len(), log_ops: disk.log_len() });
            let acted = catch_unwind(AssertUnwindSafe(|| act(&tree, number, *step)));
            let failed = match (acted, fault) {
                (Ok(acted), _) => acted.err(),
                (Err(_), Fault::Panic(_) | Fault::LogPanic(_)) => {
                    Some(std::io::Error::other("a panic"))
                }
                (Err(panic), _) => resume_unwind(panic),
            };
            if let Some(error) = failed {
                if fault == Fault::None {
                    return Err(format!("{step}: {error}"));
                }
                happened.extend(model.take_happened());
                if tree.sync(ROOT).is_ok() {
                    return Err(format!("a sync is acknowledged after {step} met {error}"));
                }
                break;
            }
            happened.extend(model.take_happened());
            ended.push(Moments { events: happened.len(), log_ops: disk.log_len() });
        }
        if matches!(fault, Fault::Panic(_) | Fault::LogPanic(_)) {
            model.panic_after(None);
            disk.live_on();
        }
        let log = disk.take_log();
        let recording = Recording { lower: base.clone(), disk: first, happened, log };
        self.unmount(&tree, &recording, ended.len())?;
        Ok((recording, begun, ended))
    }

    /// After a clean unmount, or a recovery, there is no log any more. The lower alone must have
    /// everything, whatever a loss of power takes then.
    fn unmount(&self, tree: &ModelTree, recording: &Recording, done: usize) -> Result<(), String> {
        if done < self.steps.len() || tree.finish().is_err() {
            return Ok(());
        }
        let mut happened: Vec<&Event> = recording.events(recording.happened.len()).collect();
        let last = tree.lower().take_happened();
        happened.extend(last.iter().map(|happened| &happened.event));
        let mut steps = self.steps.to_vec();
        steps.push(Step::Sync);
        let oracle = Oracle::new(&recording.lower, &steps);
        self.lower_alone(&recording.lower, happened, &|image| {
            oracle.check(image, self.order, steps.len(), steps.len())
        })
        .map_err(|message| format!("after an unmount: {message}"))
    }

    fn lower_alone(
        &self,
        before: &Image,
        happened: Vec<&Event>,
        check: &dyn Fn(&Image) -> Result<(), String>,
    ) -> Result<(), String> {
        let loss = Loss::new(before, happened, self.order);
        let survivors = loss.survivors(2, &mut self.rng.clone());
        survivors.iter().try_for_each(|survives| check(&loss.image(survives)))
    }

    /// Goes through what a loss of power at a moment leaves.
    fn explore(
        &mut self,
        recording: &Recording,
        moment: Moments,
        states: usize,
        depth: usize,
        story: &[String],
        check: &dyn Fn(&Image) -> Result<(), String>,
    ) -> Done {
        let events = recording.events(moment.events).collect();
        let loss = Loss::new(&recording.lower, events, self.order);
        let mut timeline = Timeline::new(&recording.disk, Reading::Weak);
        recording.log[..moment.log_ops].iter().for_each(|op| timeline.apply(op));
        let log_moment = Moment::new(&timeline);
        let mut choices = vec![all_or_none(&log_moment, true), all_or_none(&log_moment, false)];
        if log_moment.in_flight() > 0 {
            choices.extend((0..2).map(|_| log_moment.draw(&mut self.rng)));
        } else {
            choices.truncate(1);
        }
        let mut pairs = Vec::new();
        for survives in loss.survivors(states, &mut self.rng) {
            pairs.extend(choices.iter().map(|choice| (survives.clone(), choice.clone())));
        }
        self.rng.shuffle(&mut pairs);
        for (survives, choice) in pairs.into_iter().take(states) {
            let lower = loss.image(&survives);
            let disk = log_moment.image(&choice);
            let mut hasher = DefaultHasher::new();
            (&lower, self.finds, depth, self.steps).hash(&mut hasher);
            for content in disk.files.values() {
                content.hash().hash(&mut hasher);
            }
            if !locked(self.seen).insert(hasher.finish()) {
                self.report.duplicates += 1;
                continue;
            }
            self.report.states += 1;
            self.report.by_depth[depth - 1] += 1;
            self.recover(lower, disk, depth, story, check)?;
        }
        Ok(())
    }

    fn recover(
        &mut self,
        lower: Image,
        disk: DiskImage,
        depth: usize,
        story: &[String],
        check: &dyn Fn(&Image) -> Result<(), String>,
    ) -> Done {
        let fail = |this: &Self, message: String| {
            let mut story = story.to_vec();
            story.push(format!("the lower had: {}", names(&lower)));
            Err(this.failure(story, message))
        };
        let storage = match DiskFile::open(&disk) {
            Ok(storage) => storage,
            Err(message) => return fail(self, message),
        };
        let counted = storage.clone();
        let seed = self.rng.u64(2..1 << 30);
        let model =
            Model::new(lower.clone(), seed, self.finds, self.order, move || counted.log_len());
        let log = match Log::open_for_directory(storage.clone()) {
            Ok(log) => log,
            Err(error) => return fail(self, format!("the log cannot be opened: {error}")),
        };
        let recovered = recovery::read(&log).and_then(|found| match found {
            Some(found) => recovery::recover(&model, &log, found, 0).map(drop),
            None => Ok(()),
        });
        if let Err(error) = recovered {
            return fail(self, format!("recovery failed: {error}"));
        }
        let image = model.image();
        if image.lookup(ROOT_INO, PLACE).is_ok() {
            return fail(self, "the place for recovery is left".to_owned());
        }
        if let Err(message) = check(&image) {
            return fail(self, message);
        }
        let happened = model.take_happened();
        let events = happened.iter().map(|happened| &happened.event).collect();
        if let Err(message) = self.lower_alone(&lower, events, check) {
            return fail(self, format!("with the log retired: {message}"));
        }
        if depth < DEPTH_MAX && self.rng.u8(..self.plan.recoveries_a_loss.max(1)) == 0 {
            let log = storage.take_log();
            let recording = Recording { lower, disk, happened, log };
            let moments = recording.moments();
            for _ in 0..3 {
                let moment = moments[self.rng.usize(..moments.len())];
                let mut story = story.to_vec();
                story.push(format!(
                    "power is lost in the recovery, after {} events and {} writes",
                    moment.events, moment.log_ops
                ));
                self.explore(&recording, moment, 2, depth + 1, &story, check)?;
            }
        }
        Ok(())
    }
}

/// All that is in flight survives, or nothing.
fn all_or_none(moment: &Moment<'_>, all: bool) -> Choice {
    let bits = if all { u64::MAX } else { 0 };
    let kept = vec![bits; moment.in_flight().div_ceil(64).max(1)];
    Choice { kept, tear: Tear::Whole, fill: Fill::Missing, seed: 0 }
}

fn names(image: &Image) -> String {
    let one = |((dir, name), ino): (&(u64, Vec<u8>), &u64)| {
        let bytes = image.nodes.get(ino).map_or(0, |node| node.bytes.len());
        format!("{dir}/{} = {ino} ({bytes} B)", String::from_utf8_lossy(name))
    };
    image.names.iter().map(one).collect::<Vec<_>>().join(", ")
}

type ModelTree = Tree<Model, DiskFile>;

fn find(tree: &ModelTree, path: &str) -> std::io::Result<ObjectId> {
    path.split('/')
        .filter(|name| !name.is_empty())
        .try_fold(ROOT, |dir, name| Ok(tree.lookup(dir, name.as_bytes())?.id))
}

/// Does a step, as a program does it through the mount.
fn act(tree: &ModelTree, number: usize, step: Step) -> std::io::Result<()> {
    let at = |path: Path| -> std::io::Result<(ObjectId, &'static [u8])> {
        let (dir, name) = script::split(path);
        Ok((find(tree, dir)?, name))
    };
    let make = |path: Path, what| -> std::io::Result<()> {
        tree.make(Some(at(path)?), &Made { what, mode: 0o644, uid: 0, gid: 0 }).map(|_| ())
    };
    match step {
        Step::Create(path) => make(path, What::File),
        Step::Mkdir(path) => make(path, What::Directory),
        Step::Symlink(path) => make(path, What::Symlink { target: b"to".to_vec() }),
        Step::Append(path, length) => {
            let object = tree.object(find(tree, path)?)?;
            let end = tree.lower().look(&object.node)?.size_bytes;
            write(tree, object.id, end, &script::bytes_of(number, end, length))
        }
        Step::Overwrite(path, offset, length) => {
            let id = find(tree, path)?;
            write(tree, id, offset, &script::bytes_of(number, offset, length))
        }
        Step::Truncate(path, size) => tree.truncate(find(tree, path)?, size),
        Step::Rename(from, to) => tree.rename(at(from)?, at(to)?, true),
        Step::Exchange(one, other) => tree.exchange(at(one)?, at(other)?),
        Step::Link(from, to) => {
            let (dir, name) = at(to)?;
            tree.link(find(tree, from)?, dir, name)
        }
        Step::Unlink(path) => {
            let (dir, name) = at(path)?;
            tree.unlink(dir, name, false)
        }
        Step::Rmdir(path) => {
            let (dir, name) = at(path)?;
            tree.unlink(dir, name, true)
        }
        Step::Mode(path) => tree.set(find(tree, path)?, Attribute::Mode(0o400 + number as u32 % 8)),
        Step::Extended(path) => tree.set(find(tree, path)?, script::extended(number)),
        Step::Fsync(path) => tree.sync(find(tree, path)?),
        Step::FsyncDirectory(path) => tree.sync(find(tree, path)?),
        Step::Sync => tree.sync_all(),
        Step::EndEpoch => tree.end_epoch().map(|_| ()),
        Step::Release => tree.release().map(|_| ()),
    }
}

/// The kernel writes whole pages, one after the other.
fn write(tree: &ModelTree, id: ObjectId, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    bytes
        .chunks(16 << 10)
        .enumerate()
        .try_for_each(|(number, part)| tree.write(id, offset + ((number as u64) << 14), part))
}
