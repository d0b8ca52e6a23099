//! In the guest: the processes. Each is this program again, with a place of its own for its notes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::script::{BLOCK_BYTES, DIRECTORIES, STEPS, Script, Step, block};
use super::{PROCESSES, directory_of};
use crate::layout::MIB;
use crate::notes::{NOTE_BYTES, Note, Notes};

/// Behind those of processes that commit to databases ([`crate::processes::regions`]).
pub const NOTES_START: u64 = 224 * MIB;
const NOTES_MIB: u64 = 2;
const _: () = assert!(2 * STEPS * NOTE_BYTES <= (NOTES_MIB * MIB) as usize);

/// A process waits so many milliseconds before a step, so that files are there beside most
/// databases.
const WAITS: std::ops::Range<u64> = 0..200;

/// What the processes have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shared {
    /// Where the databases are made, too.
    pub path: PathBuf,
    pub notes: PathBuf,
    pub seed: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Task {
    shared: Shared,
    process: usize,
}

/// Processes that run. Those that nobody has waited for are killed.
pub struct Running(Vec<Child>);

/// Makes the directories, and starts the processes.
pub fn begin(shared: &Shared) -> Result<Running, String> {
    let failed = |error: io::Error| format!("plain files: {error}");
    for process in 0..PROCESSES {
        for name in DIRECTORIES {
            let path = shared.path.join(directory_of(process)).join(name);
            fs::create_dir_all(&path)
                .and_then(|()| File::open(&path)?.sync_all())
                .map_err(failed)?;
        }
    }
    Notes::open(&shared.notes, NOTES_START)
        .and_then(|notes| notes.write(&Note::Files { seed: shared.seed }))
        .map_err(failed)?;
    let mut running = Running(Vec::new());
    for process in 0..PROCESSES {
        let task = Task { shared: shared.clone(), process };
        let text = serde_json::to_string(&task).map_err(|error| error.to_string())?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["file-process", &text]).stdin(Stdio::null());
        running.0.push(command.spawn().map_err(failed)?);
    }
    Ok(running)
}

impl Running {
    pub fn wait(mut self) -> Result<(), String> {
        while let Some(mut child) = self.0.pop() {
            let status = child.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("a process with plain files ended with {status}"));
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended cannot be killed.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// What each process does.
pub fn work(task: &str) -> Result<(), String> {
    let Task { shared, process } = serde_json::from_str(task).map_err(|error| error.to_string())?;
    let start = NOTES_START + (1 + process as u64) * NOTES_MIB * MIB;
    let notes = Notes::open(&shared.notes, start).map_err(|error| error.to_string())?;
    let directory = shared.path.join(directory_of(process));
    let script = Script::draw(shared.seed, process);
    let mut waits = Rng::with_seed(!shared.seed ^ process as u64);
    for (number, step) in script.steps.iter().enumerate() {
        std::thread::sleep(Duration::from_millis(waits.u64(WAITS)));
        let note = |is_done| notes.write(&Note::Step { process, step: number, is_done });
        let at = |name: &str| directory.join(name);
        let open = |name: &str| OpenOptions::new().write(true).open(at(name));
        let take = || match step {
            Step::Make { name } => {
                OpenOptions::new().write(true).create_new(true).open(at(name)).map(drop)
            }
            Step::Write { name, first, count } => {
                let file = script.trees[number][name];
                let bytes: Vec<u8> = (*first..first + count)
                    .flat_map(|block_no| block(shared.seed, process, file, block_no, number))
                    .collect();
                open(name)?.write_all_at(&bytes, u64::from(*first) * BLOCK_BYTES as u64)
            }
            Step::Sync { name } => open(name)?.sync_all(),
            Step::SyncDirectory { name } => File::open(at(name))?.sync_all(),
            Step::Rename { from, to } => fs::rename(at(from), at(to)),
            Step::Link { from, to } => fs::hard_link(at(from), at(to)),
            Step::Remove { name } => fs::remove_file(at(name)),
        };
        note(false)
            .and_then(|()| take())
            .and_then(|()| note(true))
            .map_err(|error| format!("process {process}, step {number}, {step:?}: {error}"))?;
    }
    Ok(())
}
