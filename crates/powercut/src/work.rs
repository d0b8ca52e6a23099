//! In the guest: workloads of the crash simulator with real SQLite on a real file system, until
//! the power is cut, or to their end.

use std::path::{Path, PathBuf};

use oneflush_crashlab::{
    Actor, Amount, Connections, Script, Setting, Step, Workload, drawn_setting,
};

use crate::directory::Directory;
use crate::files;
use crate::notes::{Note, Notes, directory_of};
use crate::processes;

/// With it a transaction of the workload `huge` has 1.6 MB.
const HUGE_ROW_BYTES_MORE: usize = 25_000;

pub struct Plan {
    pub directory: PathBuf,
    pub notes: PathBuf,
    pub setting: Setting,
    pub workloads: Vec<Workload>,
    pub seed: u64,
    pub rounds: usize,
    /// Plain files beside the databases.
    pub has_files: bool,
}

/// Runs all workloads in turn, so many rounds. Each run has a directory of its own.
pub fn run(plan: &Plan) -> Result<(), String> {
    let notes = Notes::open(&plan.notes, 0)
        .map_err(|error| format!("{}: {error}", plan.notes.display()))?;
    let mut regions = processes::regions();
    let of_files =
        files::Shared { path: plan.directory.clone(), notes: plan.notes.clone(), seed: plan.seed };
    let files = plan.has_files.then(|| files::begin(&of_files)).transpose()?;
    let cases = (0..plan.rounds).flat_map(|_| &plan.workloads);
    for (case, &workload) in cases.enumerate() {
        let seed = plan.seed.wrapping_add(case as u64);
        let setting = drawn_setting(&plan.setting, workload, seed);
        let path = plan.directory.join(directory_of(case));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let note = Note::Case { case, workload, seed, setting: setting.clone() };
        notes.write(&note).map_err(|error| format!("{}: {error}", plan.notes.display()))?;
        let ran = match workload {
            Workload::ProcessWriters => {
                let shared = processes::Shared { path, notes: plan.notes.clone(), case, seed };
                processes::run(&shared, &setting, &mut regions)
            }
            _ => run_case(&path, &notes, case, workload, seed, &setting),
        };
        ran.map_err(|error| format!("case {case}, {workload}: {error}"))?;
    }
    files.map_or(Ok(()), files::Running::wait)
}

fn run_case(
    path: &Path,
    notes: &Notes,
    case: usize,
    workload: Workload,
    seed: u64,
    setting: &Setting,
) -> Result<(), String> {
    let mut script = Script::draw_for(setting, workload, seed);
    if workload == Workload::Huge {
        script.row_bytes_more = HUGE_ROW_BYTES_MORE;
    }
    let actor = Actor::new(&script, setting, Directory::noted(path.to_owned(), notes, case));
    let mut connections = Connections::new();
    let before = (0..script.rows_before).map(|number| Step::Commit {
        connection: 0,
        amount: Amount::Several,
        seed: seed ^ u64::from(number) << 32,
    });
    for step in before.chain(script.steps.iter().cloned()) {
        actor.step(&step, &mut connections).map_err(|error| actor.text(error))?;
    }
    drop(connections);
    actor.book_is_kept()
}

/// Goes on with what a cut has left, in each case that was begun before it. Who opens the databases
/// first recovers them.
pub fn go_on(directory: &Path, notes: &Path, before: &[Note]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", notes.display());
    let notes = Notes::open(notes, 0).map_err(failed)?;
    for note in before {
        let Note::Case { case, workload, seed, setting } = note else { continue };
        let path = directory.join(directory_of(*case));
        // Its name is the file system's to lose until a file in it is durable.
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let script = Script::draw_for(setting, *workload, *seed);
        let actor = Actor::new(&script, setting, Directory::shared(path, &notes, *case));
        let mut connections = Connections::new();
        let commit = |seed| Step::Commit { connection: 0, amount: Amount::Small, seed };
        for step in
            [commit(!*seed), commit(seed ^ 1), Step::Close { connection: 0 }, commit(seed ^ 2)]
        {
            actor
                .step(&step, &mut connections)
                .map_err(|error| format!("case {case}, {workload}: {}", actor.text(error)))?;
        }
    }
    Ok(())
}
