//! Goes through every crash state of a recording, examines each once, and crashes in the recoveries
//! too.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::content::Image;
use crate::lock::locked;
use crate::log::{Mark, Op};
use crate::loss::Losses;
use crate::mix::{mix, mix2};
use crate::model::{Allowed, Found};
use crate::record::Recording;
use crate::setting::Setting;
use crate::slots::Occurrences;
use crate::state::{self, Choice, Moment};
use crate::subject::{Settled, Subject};
use crate::timeline::{Reading, Timeline};

/// How deep crashes in recoveries of recoveries go.
pub const DEPTH_MAX: usize = 3;

/// One recovery in this many is crashed in, at this many moments at most in each reading.
const RECOVERIES_A_CRASH: u8 = 10;
const CRASHES_A_RECOVERY: usize = 3;

/// A crash: a moment of a log, and what survived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    pub reading: Reading,
    /// How many operations of the log were done.
    pub after: usize,
    pub choice: Choice,
}

/// A state that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    pub message: String,
    /// The crash in the recorded run, and those in the recoveries after it.
    pub crashes: Vec<Crash>,
}

/// How many states were examined, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub states: u64,
    pub duplicates: u64,
    pub by_reading: [u64; 2],
    pub by_tear: [u64; 4],
    pub by_depth: [u64; DEPTH_MAX],
    /// Operations of a log after which power was lost.
    pub moments: u64,
    /// What the first losses of power made of the files.
    pub losses: Losses,
    /// What they met of logs of slots.
    pub occurrences: Occurrences,
}

impl Counts {
    fn count(&mut self, crash: &Crash, depth: usize) {
        self.states += 1;
        self.by_reading[crash.reading as usize] += 1;
        self.by_tear[crash.choice.tear as usize] += 1;
        self.by_depth[depth - 1] += 1;
    }

    pub fn add(&mut self, other: &Counts) {
        self.states += other.states;
        self.duplicates += other.duplicates;
        self.moments += other.moments;
        self.losses.add(&other.losses);
        self.occurrences.add(&other.occurrences);
        let pairs = self.by_reading.iter_mut().zip(&other.by_reading);
        let pairs = pairs.chain(self.by_tear.iter_mut().zip(&other.by_tear));
        pairs
            .chain(self.by_depth.iter_mut().zip(&other.by_depth))
            .for_each(|(sum, more)| *sum += more);
    }
}

/// Images that some case has examined, so that none is counted twice.
pub struct Seen {
    shards: [Mutex<HashSet<u64>>; 16],
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Seen {
    fn is_new(&self, hash: u64) -> bool {
        locked(&self.shards[(hash >> 60) as usize]).insert(hash)
    }
}

/// What one exploration works with.
#[expect(private_bounds, reason = "nobody else has a subject of their own")]
pub struct Explorer<'a, S: Subject = Setting> {
    pub(crate) setting: &'a S,
    seed: u64,
    /// The number of states that is enough. Beyond it choices are left out by seed, evenly over the
    /// log.
    enough: u64,
    seen: &'a Seen,
    /// Called after each state. False stops the exploration.
    go_on: &'a dyn Fn(&Counts) -> bool,
    pub(crate) settled: Settled,
}

/// True if a loss of power here may leave something else than one operation earlier.
fn is_a_moment(op: &Op) -> bool {
    match op {
        Op::Sync { .. }
        | Op::SyncDir { .. }
        | Op::SyncDirFailed
        | Op::Mark(Mark::Begun { .. } | Mark::Together { .. }) => false,
        Op::Mark(Mark::Acknowledged { promised, .. }) => *promised,
        Op::Mark(Mark::RolledBack { .. }) => true,
        Op::Create { .. }
        | Op::Write { .. }
        | Op::Truncate { .. }
        | Op::Atomic { .. }
        | Op::SyncFailed { .. }
        | Op::Unlink { .. }
        | Op::Rename { .. } => true,
    }
}

fn is_sync(op: Option<&Op>) -> bool {
    matches!(
        op,
        None | Some(
            Op::Sync { .. }
                | Op::SyncDir { .. }
                | Op::Atomic { .. }
                | Op::Mark(Mark::Acknowledged { .. } | Mark::RolledBack { .. })
        )
    )
}

#[expect(private_bounds, reason = "nobody else has a subject of their own")]
impl<'a, S: Subject> Explorer<'a, S> {
    pub fn new(
        setting: &'a S,
        seed: u64,
        enough: u64,
        seen: &'a Seen,
        go_on: &'a dyn Fn(&Counts) -> bool,
    ) -> Explorer<'a, S> {
        Explorer { setting, seed, enough, seen, go_on, settled: Settled::default() }
    }

    /// Examines every state of the recording, up to the first violation.
    pub fn explore(&self, recording: &Recording) -> Result<Counts, Box<Violation>> {
        let mut counts = Counts::default();
        let share = self.share(recording);
        for reading in Reading::ALL {
            // The same image may be there at many moments, and must be allowed at each.
            let mut known: HashMap<u64, Vec<Found>> = HashMap::new();
            let mut allowed = Allowed::from(&recording.beginning);
            let mut timeline = Timeline::new(&recording.initial, reading);
            for after in 0..=recording.log.len() {
                let op = after.checked_sub(1).map(|at| &recording.log[at]);
                if let Some(op) = op {
                    timeline.apply(op);
                    if let Op::Mark(mark) = op {
                        allowed.follow(mark);
                    }
                    if !is_a_moment(op) {
                        continue;
                    }
                }
                counts.moments += 1;
                let place = Moment::new(&timeline);
                let seed = mix2(self.seed, mix2(after as u64, reading as u64));
                let mut rng = fastrand::Rng::with_seed(mix(seed));
                let choices = place.choices(seed, is_sync(recording.log.get(after)), share);
                for choice in choices.into_iter().filter(|choice| self.setting.stands(choice)) {
                    let image = place.image(&choice);
                    let hash = image.hash();
                    let crash = Crash { reading, after, choice };
                    if let Some(found) = known.get(&hash) {
                        counts.duplicates += 1;
                        self.judge(&allowed, found, &crash)?;
                        continue;
                    }
                    let recovery = self
                        .setting
                        .examine(&image, &recording.files, &self.settled)
                        .map_err(|message| Violation { message, crashes: vec![crash.clone()] })?;
                    self.judge(&allowed, &recovery.found, &crash)?;
                    match self.seen.is_new(hash) {
                        true => {
                            place.losses(&crash.choice, &image, |file, loss| {
                                counts.losses.count(file, loss)
                            });
                            if self.setting.has_slots() {
                                counts.occurrences.count(&place, &image);
                            }
                            counts.count(&crash, 1);
                        }
                        false => counts.duplicates += 1,
                    }
                    if !recovery.log.is_empty() && rng.u8(..RECOVERIES_A_CRASH) == 0 {
                        let above =
                            Above { image: &image, log: &recovery.log, found: &recovery.found };
                        self.crash_in_recovery(
                            &above,
                            &recording.files,
                            &[crash],
                            &mut rng,
                            &mut counts,
                        )?;
                    }
                    known.insert(hash, recovery.found);
                    if !(self.go_on)(&counts) {
                        return Ok(counts);
                    }
                }
            }
        }
        Ok(counts)
    }

    /// Examines some states of the recording, by seed: `count` in each reading, at moments from
    /// operation `from` on.
    pub fn sample(
        &self,
        recording: &Recording,
        from: usize,
        count: usize,
    ) -> Result<Counts, Box<Violation>> {
        let mut counts = Counts::default();
        for reading in Reading::ALL {
            let mut rng = fastrand::Rng::with_seed(mix2(self.seed, reading as u64));
            let mut wanted: Vec<usize> =
                (0..count).map(|_| rng.usize(from..=recording.log.len())).collect();
            wanted.sort_unstable();
            let mut allowed = Allowed::from(&recording.beginning);
            let mut timeline = Timeline::new(&recording.initial, reading);
            let mut done = 0;
            for after in wanted {
                for op in &recording.log[done..after] {
                    timeline.apply(op);
                    if let Op::Mark(mark) = op {
                        allowed.follow(mark);
                    }
                }
                done = after;
                let place = Moment::new(&timeline);
                let choice = self.draw(&place, &mut rng);
                let image = place.image(&choice);
                let crash = Crash { reading, after, choice };
                let recovery = self
                    .setting
                    .examine(&image, &recording.files, &self.settled)
                    .map_err(|message| Violation { message, crashes: vec![crash.clone()] })?;
                self.judge(&allowed, &recovery.found, &crash)?;
                match self.seen.is_new(image.hash()) {
                    true => counts.count(&crash, 1),
                    false => counts.duplicates += 1,
                }
            }
        }
        Ok(counts)
    }

    fn draw(&self, place: &Moment<'_>, rng: &mut fastrand::Rng) -> Choice {
        loop {
            let choice = place.draw(rng);
            if self.setting.stands(&choice) {
                return choice;
            }
        }
    }

    fn judge(
        &self,
        allowed: &Allowed,
        found: &[Found],
        crash: &Crash,
    ) -> Result<(), Box<Violation>> {
        match allowed.objection(found) {
            None => Ok(()),
            Some(message) => Err(Box::new(Violation { message, crashes: vec![crash.clone()] })),
        }
    }

    /// The part of the choices to take, so that about enough are taken.
    fn share(&self, recording: &Recording) -> f64 {
        let mut choices = 0;
        for reading in Reading::ALL {
            let mut timeline = Timeline::new(&recording.initial, reading);
            for (at, op) in recording.log.iter().enumerate() {
                timeline.apply(op);
                if is_a_moment(op) {
                    choices += state::choices_count(
                        timeline.in_flight(),
                        is_sync(recording.log.get(at + 1)),
                    );
                }
            }
        }
        // Some choices make the same image as another. About as many crashes in recoveries make up
        // for them.
        self.enough as f64 / choices.max(1) as f64
    }

    /// Power is lost again during a recovery, at some moments by seed. What the first recovery
    /// found must stay.
    fn crash_in_recovery(
        &self,
        above: &Above<'_>,
        files: &[String],
        crashes: &[Crash],
        rng: &mut fastrand::Rng,
        counts: &mut Counts,
    ) -> Result<(), Box<Violation>> {
        let depth = crashes.len() + 1;
        for reading in Reading::ALL {
            let mut wanted: Vec<usize> =
                (1..=above.log.len()).filter(|after| is_a_moment(&above.log[after - 1])).collect();
            rng.shuffle(&mut wanted);
            wanted.truncate(CRASHES_A_RECOVERY);
            wanted.sort_unstable();
            let mut timeline = Timeline::new(above.image, reading);
            let mut done = 0;
            for after in wanted {
                above.log[done..after].iter().for_each(|op| timeline.apply(op));
                done = after;
                let place = Moment::new(&timeline);
                let choice = self.draw(&place, rng);
                let image = place.image(&choice);
                let hash = image.hash();
                if !self.seen.is_new(hash) {
                    counts.duplicates += 1;
                    continue;
                }
                let crash = Crash { reading, after, choice };
                let crashes = [crashes, std::slice::from_ref(&crash)].concat();
                let violation = |message| Box::new(Violation { message, crashes: crashes.clone() });
                let recovery =
                    self.setting.examine(&image, files, &self.settled).map_err(violation)?;
                if let Some(message) = Allowed::from(above.found).objection(&recovery.found) {
                    return Err(violation(format!("after a crash in recovery: {message}")));
                }
                counts.count(&crash, depth);
                if depth < DEPTH_MAX && !recovery.log.is_empty() && rng.u8(..4) == 0 {
                    let above = Above { image: &image, log: &recovery.log, found: &recovery.found };
                    self.crash_in_recovery(&above, files, &crashes, rng, counts)?;
                }
            }
        }
        Ok(())
    }
}

/// A recovery to crash in.
struct Above<'a> {
    image: &'a Image,
    log: &'a [Op],
    found: &'a [Found],
}

fn timeline_at(initial: &Image, log: &[Op], crash: &Crash) -> Timeline {
    let mut timeline = Timeline::new(initial, crash.reading);
    log[..crash.after.min(log.len())].iter().for_each(|op| timeline.apply(op));
    timeline
}

/// The disk after a crash. The log may go on behind the crash.
pub fn image_after(initial: &Image, log: &[Op], crash: &Crash) -> Image {
    Moment::new(&timeline_at(initial, log, crash)).image(&crash.choice)
}

/// How many operations a crash could have taken away.
pub fn in_flight_after(initial: &Image, log: &[Op], crash: &Crash) -> usize {
    timeline_at(initial, log, crash).in_flight()
}
