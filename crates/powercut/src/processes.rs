//! Several processes that commit to one database at once, and are killed while they do it. Then
//! code panics in one of them, at one of the places where tests have a process die
//! (`oneflush_vfs::KillPoint`; feature `kill-points`).
//!
//! Each is this program again. Each has a place of its own for its notes, which the disk's log puts
//! in order. No process knows what the others have made. So each reads, in its transaction, what it
//! changes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use oneflush_crashlab::{Actor, Amount, Connections, Script, Setting, Step, Workload};
use serde::{Deserialize, Serialize};

use crate::directory::Directory;
use crate::files;
use crate::layout::MIB;
use crate::notes::Notes;

const PROCESSES: usize = 3;
const KILLS: usize = 6;
/// A process commits so often, if it is not killed before.
const COMMITS: u64 = 30;
/// A process is killed after so long.
const LIFE: std::ops::Range<u64> = 50..600;

/// So often one panics, and so often each then commits.
const PANICS: usize = 8;
const COMMITS_BESIDE_A_PANIC: u64 = 8;
/// After a panic a process tries so often to open the database anew, and then ends.
const FAILURES_MAX: u32 = 3;

/// What the processes of a case have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shared {
    pub path: PathBuf,
    pub notes: PathBuf,
    pub case: usize,
    pub seed: u64,
}

/// What one process is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    shared: Shared,
    setting: Setting,
    notes_start: u64,
    commits_seed: u64,
    commits: u64,
    /// One of the processes panics, so commits may fail.
    may_fail: bool,
}

/// Where the notes of one process after the other begin. Before them are those of the first.
pub fn regions() -> impl Iterator<Item = u64> {
    (32 * MIB..files::NOTES_START).step_by(MIB as usize)
}

/// Runs processes on one new database, and kills some.
pub fn run(
    shared: &Shared,
    setting: &Setting,
    regions: &mut impl Iterator<Item = u64>,
) -> Result<(), String> {
    let mut rng = Rng::with_seed(shared.seed);
    // Where several make a new database at once, some hear that it is locked.
    let mut task = |rng: &mut Rng, commits, may_fail| Task {
        shared: shared.clone(),
        setting: setting.clone(),
        notes_start: regions.next().unwrap_or(u64::MAX),
        commits_seed: rng.u64(..),
        commits,
        may_fail,
    };
    commit(task(&mut rng, 1, false))?;
    let mut running = Vec::new();
    for _ in 0..PROCESSES {
        running.push(begin(&task(&mut rng, COMMITS, false), None)?);
    }
    for _ in 0..KILLS {
        std::thread::sleep(Duration::from_millis(rng.u64(LIFE)));
        let mut killed = running.swap_remove(rng.usize(..running.len()));
        // One that has ended by itself cannot be killed, and must have ended well.
        if let Some(status) = killed.try_wait().map_err(|error| error.to_string())? {
            if !status.success() {
                return Err(format!("a process ended with {status}"));
            }
        } else {
            killed.kill().and_then(|()| killed.wait()).map_err(|error| error.to_string())?;
        }
        running.push(begin(&task(&mut rng, COMMITS, false), None)?);
    }
    all_end_well(running)?;
    for _ in 0..PANICS {
        let panics_at = drawn_place(&mut rng);
        let may_fail = panics_at.is_some();
        let mut place = panics_at.as_deref();
        let mut running = Vec::new();
        for _ in 0..PROCESSES {
            let task = task(&mut rng, COMMITS_BESIDE_A_PANIC, may_fail);
            running.push(begin(&task, place.take())?);
        }
        all_end_well(running)?;
    }
    // Whatever the last one has left.
    commit(task(&mut rng, COMMITS_BESIDE_A_PANIC, false))
}

fn all_end_well(running: Vec<Child>) -> Result<(), String> {
    for mut process in running {
        let status = process.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("a process ended with {status}"));
        }
    }
    Ok(())
}

/// The value of `ONEFLUSH_PANIC_AT`. None: this program has no places.
fn drawn_place(rng: &mut Rng) -> Option<String> {
    #[cfg(feature = "kill-points")]
    {
        use oneflush_vfs::KillPoint::*;
        // What commits and checkpoints come to, whatever the strategy.
        let places = [
            WriteLocked,
            Releasing,
            Flushed,
            Copied,
            Prepared,
            Noted,
            Locked,
            Busy,
            Recorded,
            HalfShown,
            Shown,
            Unlocking,
            Durable,
            ImageSynced,
            FramesWritten,
            HalfInPlace,
            InPlace,
        ];
        let place = places[rng.usize(..places.len())].name();
        Some(format!("{place}:{}", rng.u32(1..3)))
    }
    #[cfg(not(feature = "kill-points"))]
    {
        let _ = rng;
        None
    }
}

fn begin(task: &Task, panics_at: Option<&str>) -> Result<Child, String> {
    let text = serde_json::to_string(task).map_err(|error| error.to_string())?;
    std::env::current_exe()
        .and_then(|program| {
            let mut command = Command::new(program);
            command.envs(panics_at.map(|place| ("ONEFLUSH_PANIC_AT", place)));
            command.args(["process", &text]).stdin(Stdio::null()).spawn()
        })
        .map_err(|error| format!("a process cannot begin: {error}"))
}

/// What each process does.
pub fn work(task: &str) -> Result<(), String> {
    commit(serde_json::from_str(task).map_err(|error| error.to_string())?)
}

fn commit(task: Task) -> Result<(), String> {
    let Shared { path, notes, case, seed } = task.shared;
    let notes = Notes::open(&notes, task.notes_start)
        .map_err(|error| format!("{}: {error}", notes.display()))?;
    let script = Script::draw_for(&task.setting, Workload::ProcessWriters, seed);
    let actor = Actor::new(&script, &task.setting, Directory::shared(path, &notes, case));
    let mut connections = Connections::new();
    let mut failures = 0;
    for number in 0..task.commits {
        let amount = if number % 8 == 7 { Amount::Several } else { Amount::Small };
        let seed = task.commits_seed.wrapping_add(number);
        let step = Step::Commit { connection: 0, amount, seed };
        match actor.step(&step, &mut connections) {
            Ok(()) => {}
            Err(error) if task.may_fail && error.is_expected_with_faults() => {
                connections.clear();
                failures += 1;
                if failures == FAILURES_MAX {
                    break;
                }
            }
            Err(error) => return Err(actor.text(error)),
        }
    }
    Ok(())
}
