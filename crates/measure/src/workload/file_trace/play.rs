//! The threads of a replay. Each does its steps in their order, and waits for those of others on
//! the same file (rule 1 of `plan`).
//!
//! They run beside the benchmark's worker, which gets the time of every sync from them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::plan::{Action, FileId, Plan, Step};
use super::{FileTrace, FileTraceError};
use crate::workload::{FileError, Stream, WorkloadError};
use crate::{clock, interrupt};

/// How often a thread that waits looks whether the replay is given up.
const LOOK: Duration = Duration::from_millis(50);

pub struct PlayStream {
    /// None once they have begun.
    waiting: Option<Vec<Player>>,
    threads: Vec<JoinHandle<()>>,
    told: Receiver<Told>,
    shared: Arc<Shared>,
    failures: BTreeMap<String, u64>,
}

/// What a thread tells the worker.
enum Told {
    Synced {
        latency_ns: u64,
    },
    /// A call ended in another way than in the recording.
    Differs(String),
    Failed(FileError),
}

/// Of all threads.
struct Shared {
    folder: PathBuf,
    names: Vec<PathBuf>,
    /// By opening.
    open: Vec<Mutex<Option<Arc<File>>>>,
    /// Steps on each file that are done.
    done: Vec<Turn>,
    given_up: AtomicBool,
    think: f64,
}

#[derive(Default)]
struct Turn {
    count: Mutex<u32>,
    changed: Condvar,
}

struct Player {
    steps: Vec<Step>,
    shared: Arc<Shared>,
    tell: Sender<Told>,
    buffer: Vec<u8>,
    random: fastrand::Rng,
}

impl PlayStream {
    /// `folder` is as [`FileTrace::set_up`] left it.
    pub fn new(trace: &FileTrace, folder: &Path) -> Result<PlayStream, FileTraceError> {
        let plan: Plan = super::read(&trace.recording)?;
        let shared = Arc::new(Shared {
            names: plan.files.iter().map(|file| folder.join(&file.name)).collect(),
            folder: folder.to_owned(),
            open: (0..plan.openings_count).map(|_| Mutex::default()).collect(),
            done: plan.files.iter().map(|_| Turn::default()).collect(),
            given_up: AtomicBool::new(false),
            think: trace.think,
        });
        let (tell, told) = channel();
        let player = |(seed, steps)| Player {
            steps,
            shared: Arc::clone(&shared),
            tell: tell.clone(),
            buffer: Vec::new(),
            random: fastrand::Rng::with_seed(seed as u64),
        };
        let waiting = plan.threads.into_iter().enumerate().map(player).collect();
        Ok(PlayStream {
            waiting: Some(waiting),
            threads: Vec::new(),
            told,
            shared: Arc::clone(&shared),
            failures: plan.left_out,
        })
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        let begin_ns = clock::now_ns();
        for player in self.waiting.take().unwrap_or_default() {
            let thread = thread::Builder::new().name("replay".to_owned());
            let spawned = thread
                .spawn(move || player.run(begin_ns))
                .map_err(|reason| FileError { path: self.shared.folder.clone(), reason })?;
            self.threads.push(spawned);
        }
        Ok(())
    }

    fn end(&mut self) {
        self.shared.given_up.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic is reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for PlayStream {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stream for PlayStream {
    fn step(&mut self) -> Result<super::super::Step, WorkloadError> {
        use super::super::Step;
        if self.waiting.is_some() {
            self.begin()?;
        }
        loop {
            match self.told.recv_timeout(LOOK) {
                Ok(Told::Synced { latency_ns }) => return Ok(Step::Done { latency_ns }),
                Ok(Told::Differs(what)) => *self.failures.entry(what).or_default() += 1,
                Ok(Told::Failed(error)) => return Err(error.into()),
                // So that the worker sees Ctrl-C.
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) if interrupt::requested() => {
                    return Ok(Step::NothingWritten);
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                // The last thread is done.
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(Step::Finished),
            }
        }
    }

    fn finish(&mut self) -> Result<(), WorkloadError> {
        // A recording may end with files open, and a file system may keep what was written to
        // itself until they are closed.
        for open in &self.shared.open {
            lock(open).take();
        }
        Ok(())
    }

    fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.clone()
    }

    fn connection(&self) -> Option<&Connection> {
        None
    }
}

impl Drop for Player {
    /// Nobody may wait for the steps of a thread that has panicked.
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.given_up.store(true, Ordering::Relaxed);
        }
    }
}

impl Player {
    fn run(mut self, begin_ns: u64) {
        for step in std::mem::take(&mut self.steps) {
            let due_ns = (step.at_us as f64 * 1e3 * self.shared.think) as u64;
            let is_in_time = self.shared.wait_until(begin_ns + due_ns);
            if !is_in_time || !step.turns.iter().all(|(file, turn)| self.shared.wait(*file, *turn))
            {
                return;
            }
            let result = self.act(&step.action);
            step.turns.iter().for_each(|(file, _)| self.shared.is_done(*file));
            let told = match result {
                Ok(None) => continue,
                Ok(Some(told)) => told,
                Err((path, reason)) if reason.kind() == io::ErrorKind::StorageFull => {
                    Told::Failed(FileError { path, reason })
                }
                Err((_, reason)) => Told::Differs(format!("{}: {reason}", step.action.name())),
            };
            let is_over = matches!(told, Told::Failed(_));
            // Nobody listens once the worker has given up.
            if self.tell.send(told).is_err() || is_over {
                return;
            }
        }
    }

    fn act(&mut self, action: &Action) -> Result<Option<Told>, (PathBuf, io::Error)> {
        let shared = Arc::clone(&self.shared);
        let name = |file: FileId| shared.names[file].clone();
        let of = |file: FileId| move |reason| (file, reason);
        let at_file = |(file, reason): (FileId, io::Error)| (name(file), reason);
        let at_folder = |reason| (shared.folder.clone(), reason);
        match *action {
            Action::Open { file, flags, opening } => {
                let path = name(file);
                let mut options = OpenOptions::new();
                // Who only truncates writes, too.
                let writes = flags.writes || flags.truncates || flags.creates;
                options.read(flags.reads || !writes).write(writes).truncate(flags.truncates);
                // The recording's exclusive opens made their files, and rule 2 sees to it here.
                options.create(flags.creates).append(flags.appends && !flags.truncates);
                if flags.directory {
                    options = OpenOptions::new();
                    options.read(true).custom_flags(libc::O_DIRECTORY);
                }
                let opened = options.open(&path).map_err(|reason| (path, reason))?;
                *lock(&shared.open[opening]) = Some(Arc::new(opened));
            }
            Action::Close { opening } => {
                lock(&shared.open[opening]).take();
            }
            Action::Read { opening, offset, bytes } => {
                let file = shared.opened(opening).map_err(at_folder)?;
                self.buffer.resize(bytes as usize, 0);
                let read = match offset {
                    Some(offset) => file.read_at(&mut self.buffer, offset),
                    None => (&*file).read(&mut self.buffer),
                };
                if read.map_err(at_folder)? as u64 != bytes {
                    return Ok(Some(Told::Differs("read got fewer bytes".to_owned())));
                }
            }
            Action::Write { opening, offset, bytes } => {
                let file = shared.opened(opening).map_err(at_folder)?;
                self.buffer.resize(bytes as usize, 0);
                self.random.fill(&mut self.buffer);
                let written = match offset {
                    Some(offset) => file.write_all_at(&self.buffer, offset),
                    None => (&*file).write_all(&self.buffer),
                };
                written.map_err(at_folder)?;
            }
            Action::Sync { opening, data_only } => {
                let file = shared.opened(opening).map_err(at_folder)?;
                let begin_ns = clock::now_ns();
                let synced = if data_only { file.sync_data() } else { file.sync_all() };
                synced.map_err(at_folder)?;
                return Ok(Some(Told::Synced { latency_ns: clock::now_ns() - begin_ns }));
            }
            Action::Fstat { opening } => {
                shared.opened(opening).and_then(|file| file.metadata()).map_err(at_folder)?;
            }
            Action::Stat { file, exists } => {
                if fs::metadata(name(file)).is_ok() != exists {
                    return Ok(Some(Told::Differs("stat found another answer".to_owned())));
                }
            }
            Action::Unlink { file } => {
                fs::remove_file(name(file)).map_err(of(file)).map_err(at_file)?;
            }
            Action::Rename { from, to } => {
                fs::rename(name(from), name(to)).map_err(of(from)).map_err(at_file)?;
            }
        }
        Ok(None)
    }
}

impl Shared {
    /// Not its own error where the opening itself has failed, which was told.
    fn opened(&self, opening: usize) -> io::Result<Arc<File>> {
        lock(&self.open[opening]).clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Until the steps before `turn` on the file are done. False: the replay is given up.
    fn wait(&self, file: FileId, turn: u32) -> bool {
        let Turn { count, changed } = &self.done[file];
        let mut done = lock(count);
        while *done < turn {
            if self.given_up.load(Ordering::Relaxed) {
                return false;
            }
            let waited = changed.wait_timeout(done, LOOK);
            done = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(guard, _)| guard);
        }
        true
    }

    fn is_done(&self, file: FileId) {
        *lock(&self.done[file].count) += 1;
        self.done[file].changed.notify_all();
    }

    /// False: the replay is given up.
    fn wait_until(&self, due_ns: u64) -> bool {
        loop {
            if self.given_up.load(Ordering::Relaxed) {
                return false;
            }
            let now_ns = clock::now_ns();
            if now_ns >= due_ns {
                return true;
            }
            thread::sleep(Duration::from_nanos(due_ns - now_ns).min(LOOK));
        }
    }
}

impl Action {
    fn name(&self) -> &'static str {
        match self {
            Action::Open { .. } => "open",
            Action::Close { .. } => "close",
            Action::Read { .. } => "read",
            Action::Write { .. } => "write",
            Action::Sync { .. } => "fsync",
            Action::Fstat { .. } => "fstat",
            Action::Stat { .. } => "stat",
            Action::Unlink { .. } => "unlink",
            Action::Rename { .. } => "rename",
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
