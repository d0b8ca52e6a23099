//! All modes in turns. Their databases are open at the same time, and each mode reads or commits
//! for some milliseconds before the next does. Where they commit, the floor has its turns too.
//!
//! On a machine that others use too, results a second apart differ by tens of percent. What the VFS
//! adds to a read is a hundredth. In turns, the work of others hits all modes alike, and the ratios
//! of a round are good to about a hundredth.
//!
//! The order is drawn anew for every turn. A writer beside the reads, where one is wanted, commits
//! only in its mode's turns. A background checkpoint of one mode may reach into the turns of
//! another. So medians are for comparing here, and not the longest commits.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::companion::{self, CompanionResult};
use super::latency::Latencies;
use super::outcome::SliceResult;
use super::slice::{Holders, Slice, join};
use super::timeline::Timeline;
use super::turn::Turns;
pub use super::turn::{Taken, Turn};
use super::vfs::{Seen, Snapshot};
use super::worker::{Arrival, Gate};
use super::{Plan, Progress, RunError};
use crate::clock;
use crate::floor::{Floor, FloorFile};
use crate::interrupt;
use crate::mode::Mode;
use crate::place::{Mounted, Place};
use crate::workload::{self, Step, Stream, WorkerSpec, Workload, WorkloadError};

/// So many commits are one turn, or overwrites of the floor: about 10 ms where a flush takes 0.3.
const COMMITS: u32 = 20;

/// One round of all modes of a plan, in their order, and the floor of the round.
pub fn measure(
    plan: &Plan,
    place: &Place,
    mounted: Option<&Mounted>,
    round: u32,
    progress: &mut dyn Progress,
) -> Result<(Floor, Vec<SliceResult>), RunError> {
    let name = place.describe();
    let mounted = |mode: &Mode| mounted.filter(|_| mode.is_mounted);
    let directory = |(at, mode): (usize, &Mode)| {
        mounted(mode).map_or(place.path(), Mounted::path).join(format!("mode{at}"))
    };
    let directories: Vec<PathBuf> = plan.modes.iter().enumerate().map(directory).collect();
    let count = plan.modes.len() as u32;
    let mut floor = FloorFile::new(place.path())?;
    let has_turns = !matches!(plan.workload, Workload::Reads(_));
    if !has_turns {
        floor.overwrite(plan.floor_writes)?;
    }
    let mut members = Vec::new();
    for (at, (mode, directory)) in plan.modes.iter().zip(&directories).enumerate() {
        let number = (round - 1) * count + at as u32 + 1;
        progress.slice(number, plan.rounds.max * count, round, mode);
        let slice = Slice {
            plan,
            place,
            mounted: mounted(mode),
            directory,
            observer: None,
            mode,
            connections: 1,
            round,
        };
        std::fs::create_dir(directory).map_err(|error| slice.at(&name).io(error))?;
        let at = slice.at(&name);
        members.push(Member::new(slice).map_err(|error| at.database(error))?);
    }
    let (gate, stop, turns) = (Gate::default(), AtomicBool::new(false), Turns::default());
    let (done, companions) = thread::scope(|scope| {
        let mut companions = Vec::new();
        if let Some(task) = plan.workload.companion() {
            for (at, mode) in plan.modes.iter().enumerate() {
                let path = members[at].slice.databases(&directories[at]).swap_remove(0);
                let (gate, stop, turn) = (&gate, &stop, Turn { turns: &turns, whose: at });
                companions.push(scope.spawn(move || {
                    companion::run(task, &path, mode, &Arrival::new(gate), stop, Some(turn))
                }));
            }
        }
        let ready = gate.wait_for(companions.len() as u32);
        gate.open(ready);
        let done = if ready {
            in_turns(&mut members, has_turns.then_some(&mut floor), &turns, &name)
        } else {
            Ok(())
        };
        stop.store(true, Ordering::Relaxed);
        turns.close();
        (done, companions.into_iter().map(join).collect::<Vec<_>>())
    });
    done?;
    let mut companions = companions.into_iter();
    let mut results = Vec::new();
    for member in members {
        let at = member.slice.at(&name);
        let companion = companions.next().transpose().map_err(|failure| at.failure(failure))?;
        results.push(member.finish(companion, &name)?);
    }
    Ok((floor.finish(), results))
}

/// Until all have read or committed what they are to.
fn in_turns(
    members: &mut [Member<'_>],
    mut floor: Option<&mut FloorFile>,
    turns: &Turns,
    place: &str,
) -> Result<(), RunError> {
    let mut order: Vec<usize> = (0..members.len() + usize::from(floor.is_some())).collect();
    let mut random = fastrand::Rng::with_seed(0);
    while members.iter().any(|member| !member.finished) {
        random.shuffle(&mut order);
        for &at in &order {
            if interrupt::requested() {
                return Err(RunError::Interrupted);
            }
            let Some(member) = members.get_mut(at) else {
                floor.iter_mut().try_for_each(|floor| floor.overwrite(COMMITS))?;
                continue;
            };
            turns.begin(at);
            let done = member.turn(place);
            turns.end();
            done?;
        }
    }
    Ok(())
}

/// The measured connection of one mode.
struct Member<'a> {
    slice: Slice<'a>,
    /// Keep the database as the set-up left it.
    holders: Holders,
    vfs_before: Vec<Snapshot>,
    spec: WorkerSpec,
    stream: Box<dyn Stream>,
    finished: bool,
    latencies: Latencies,
    timeline: Timeline,
    elapsed_ns: u64,
    cpu_ns: u64,
}

impl<'a> Member<'a> {
    fn new(slice: Slice<'a>) -> Result<Member<'a>, WorkloadError> {
        let steps = slice.plan.workload.transactions(slice.mode, 1, slice.plan.transactions);
        let (holders, _) = slice.set_up(steps)?;
        let spec = slice.spec(0, steps);
        let stream = workload::open_stream(&spec)?;
        Ok(Member {
            vfs_before: slice.vfs_of(&holders)?,
            slice,
            holders,
            spec,
            stream,
            finished: false,
            latencies: Latencies::new(),
            timeline: Timeline::new(),
            elapsed_ns: 0,
            cpu_ns: 0,
        })
    }

    fn turn(&mut self, place: &str) -> Result<(), RunError> {
        let at = self.slice.at(place);
        let steps = match &self.slice.plan.workload {
            Workload::Reads(reads) => reads.turn(),
            _ => u64::from(COMMITS),
        };
        let cpu_ns = |slice: &Slice<'_>| Ok(clock::thread_cpu_ns() + slice.daemon_cpu_ns()?);
        let cpu_before_ns = cpu_ns(&self.slice).map_err(|error| at.io(error))?;
        let begin_ns = clock::now_ns();
        let mut now_ns = begin_ns;
        for _ in 0..steps {
            let step = self.stream.step().map_err(|error| at.database(error))?;
            now_ns = clock::now_ns();
            match step {
                Step::Done { latency_ns } => {
                    self.latencies.record(latency_ns);
                    self.timeline.record(self.elapsed_ns + (now_ns - begin_ns), latency_ns);
                }
                Step::NothingWritten => {}
                Step::Finished => {
                    self.finished = true;
                    break;
                }
            }
        }
        self.elapsed_ns += now_ns - begin_ns;
        self.cpu_ns += cpu_ns(&self.slice).map_err(|error| at.io(error))? - cpu_before_ns;
        Ok(())
    }

    fn finish(
        self,
        companion: Option<CompanionResult>,
        place: &str,
    ) -> Result<SliceResult, RunError> {
        let at = self.slice.at(place);
        let mut seen = Seen::default();
        let vfs_after = self.slice.vfs_of(&self.holders).map_err(|error| at.database(error))?;
        vfs_after
            .into_iter()
            .zip(self.vfs_before)
            .for_each(|(after, before)| seen.add(after.since(before)));
        let wal_bytes_at_end = self.slice.mode.journal.is_wal().then(|| self.slice.wal_bytes());
        let done = self.latencies.count();
        let fingerprint = self
            .slice
            .verify(&self.holders, &[self.spec], done)
            .map_err(|error| at.database(error))?;
        drop((self.stream, self.holders));
        self.slice.remove_files().map_err(|error| at.io(error))?;
        std::fs::remove_dir(self.slice.directory).map_err(|error| at.io(error))?;
        Ok(SliceResult {
            transactions: done,
            elapsed_ns: self.elapsed_ns,
            latencies: self.latencies,
            timeline: self.timeline,
            phases: Vec::new(),
            // It worked in the same turns.
            companion: companion
                .map(|companion| CompanionResult { elapsed_ns: self.elapsed_ns, ..companion }),
            wal_bytes_at_end,
            vfs_stats: seen.stats,
            cpu_ns: self.cpu_ns,
            calls: None,
            counts: None,
            laid_out_bytes: None,
            failures: Default::default(),
            fingerprint,
        })
    }
}
