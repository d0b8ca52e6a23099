//! How long an opening takes after a crash.
//!
//! ```text
//! create ─ fill ─ settle ─ commit … ─ begin ─ inserts, pages are written ─▶ copy: the image
//!                    image ─ copy, sync, out of the page cache ─▶ open ─ read │ commit ─▶ time
//! ```
//!
//! The image has the files as they are while the transaction is open: what a process that is killed
//! leaves. A file of SQLite's shared memory is left out, as after a restart.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Advice;

use super::slice::{Counting, sync};
use super::work::{Step, Task, Until, Work};
use super::{Change, Crashes, KvError, Store, StoreError};
use oneflush_measure::clock;
use oneflush_measure::interrupt;
use oneflush_measure::run::SliceResult;

/// A crash of each engine, and so many openings after it. The engines take turns, so that a noisy
/// machine hits all alike. Latencies are those of openings; one result an engine.
pub fn recoveries(
    engines: &[&dyn Crashes],
    work: Work,
    openings: u64,
    place: &Path,
) -> Result<Vec<SliceResult>, KvError> {
    let Task::Recover { committed, inserts, until } = work.task else {
        let what = "this work has no crash".to_owned();
        return Err(KvError::Wrong { subject: work.describe(), what });
    };
    let crashes: Vec<Crash<'_>> = (0..engines.len())
        .map(|at| {
            let directory = |name: &str| place.join(format!("{name}{at}"));
            let (image, opened) = (directory("image"), directory("opened"));
            Crash { engine: engines[at], work, committed, inserts, until, image, opened }
        })
        .collect();
    for crash in &crashes {
        crash.happen(&place.join("made"))?;
    }
    let mut found: Vec<Counting> = crashes.iter().map(|_| Counting::default()).collect();
    let mut order: Vec<usize> = (0..crashes.len()).collect();
    let mut random = fastrand::Rng::with_seed(0);
    for number in 0..openings {
        if interrupt::requested() {
            return Err(KvError::Interrupted);
        }
        for crash in &crashes {
            crash.lay_out()?;
        }
        sync(place).map_err(|source| crashes[0].files(source))?;
        random.shuffle(&mut order);
        for &at in &order {
            found[at].record(crashes[at].measure(number)?);
        }
    }
    for crash in &crashes {
        crash.remove()?;
    }
    Ok(found.into_iter().map(Counting::result).collect())
}

struct Crash<'a> {
    engine: &'a dyn Crashes,
    work: Work,
    /// Of the work's task.
    committed: u64,
    inserts: u64,
    until: Until,
    /// What the crash left.
    image: PathBuf,
    /// A copy of it, which is opened.
    opened: PathBuf,
}

impl Crash<'_> {
    fn files(&self, source: io::Error) -> KvError {
        KvError::files(self.engine, source)
    }

    fn failed(&self, source: StoreError) -> KvError {
        KvError::store(self.engine, source)
    }

    fn happen(&self, made: &Path) -> Result<(), KvError> {
        for directory in [made, &self.image] {
            fs::create_dir(directory).map_err(|source| self.files(source))?;
        }
        self.crash(made, &self.image).map_err(|source| self.failed(source))?;
        fs::remove_dir_all(made).map_err(|source| self.files(source))
    }

    /// A new copy of the image, in the place of the one before.
    fn lay_out(&self) -> Result<(), KvError> {
        let laid_out = match fs::remove_dir_all(&self.opened) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir(&self.opened).and_then(|()| copy(&self.image, &self.opened)),
        };
        laid_out.map_err(|source| self.files(source))
    }

    fn measure(&self, number: u64) -> Result<u64, KvError> {
        forget(&self.opened).map_err(|source| self.files(source))?;
        self.open(&self.opened, number).map_err(|source| self.failed(source))
    }

    fn remove(&self) -> Result<(), KvError> {
        let removed =
            fs::remove_dir_all(&self.image).and_then(|()| fs::remove_dir_all(&self.opened));
        removed.map_err(|source| self.files(source))
    }

    fn crash(&self, made: &Path, image: &Path) -> Result<(), StoreError> {
        let Crash { committed, inserts, .. } = *self;
        let mut steps = self.work.steps();
        let value = steps.value();
        let mut prepare = |store: &mut dyn Store| -> Result<(), StoreError> {
            self.work.fill(store)?;
            store.settle()?;
            for _ in 0..committed {
                if let Step::Commit(changes) = steps.take() {
                    store.commit(&changes, &value)?;
                }
            }
            Ok(())
        };
        let rows = self.work.rows + committed;
        let changes: Vec<Change> =
            (rows..rows + inserts).map(|row| Change::Put(self.work.keys.of(row))).collect();
        let mut now = || Ok(copy(made, image)?);
        self.engine.crash(made, &mut prepare, &changes, &value, &mut now)
    }

    /// How long it takes, in ns.
    fn open(&self, directory: &Path, number: u64) -> Result<u64, StoreError> {
        let Crash { work: Work { rows, keys, .. }, committed, inserts, until, .. } = *self;
        let new = rows + committed;
        let begun_ns = clock::now_ns();
        let mut store = self.engine.open(directory)?;
        let found = store.get(keys.of(number % rows.max(1)))?;
        if until == Until::Commit {
            store.commit(&[Change::Put(keys.of(new + inserts))], &[7; 100])?;
        }
        let elapsed_ns = clock::now_ns() - begun_ns;
        if found.is_none() {
            return Err("a row that was committed is not there".into());
        }
        if inserts > 0 && store.get(keys.of(new))?.is_some() {
            return Err("a row that was never committed is there".into());
        }
        Ok(elapsed_ns)
    }
}

/// All files but those of shared memory.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

/// Files out of the page cache; they have been synced.
fn forget(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let file = File::open(entry?.path())?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
