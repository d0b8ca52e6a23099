//! A slice: one engine does one work, once, in a new store.
//!
//! ```text
//! create ─ fill ─ settle ─ syncfs ─▶ observe ─ transactions ─ syncfs ─▶ stop
//! ```
//!
//! The second `syncfs` is inside the counts and outside the time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::work::{Step, Steps, Work};
use super::{Engine, KvError, Store, StoreError};
use oneflush_measure::clock;
use oneflush_measure::interrupt;
use oneflush_measure::observe::{Class, Observer};
use oneflush_measure::run::SliceResult;
use oneflush_measure::run::latency::Latencies;
use oneflush_measure::run::timeline::Timeline;

pub struct Slice<'a> {
    pub engine: &'a dyn Engine,
    pub work: Work,
    pub transactions: u64,
    /// Where a directory for the store is made, and removed.
    pub place: &'a Path,
    pub observer: Option<&'a mut Observer>,
}

/// What a slice found.
#[derive(Debug)]
pub struct Measured {
    pub slice: SliceResult,
    /// By the transactions; none: the store does not say.
    pub pages: Option<u64>,
}

impl Slice<'_> {
    pub fn measure(self) -> Result<Measured, KvError> {
        let files = |source| KvError::files(self.engine, source);
        let directory = self.place.join("store");
        let mut store = filled(self.engine, self.work, &directory)?;
        sync(self.place).map_err(files)?;

        let mut observer = self.observer;
        observer.as_mut().map(|observer| observer.start()).transpose()?;
        let mut counting = Counting::new(&*store);
        let mut steps = self.work.steps();
        while counting.transactions < self.transactions {
            if interrupt::requested() {
                return Err(KvError::Interrupted);
            }
            counting
                .step(&mut *store, &mut steps)
                .map_err(|source| KvError::store(self.engine, source))?;
        }
        let mut measured = counting.finish(&*store);
        sync(self.place).map_err(files)?;
        let files_of = classes(self.engine, &directory);
        measured.slice.counts =
            observer.as_mut().map(|observer| observer.stop(&files_of)).transpose()?;
        drop(store);
        fs::remove_dir_all(&directory).map_err(files)?;
        Ok(measured)
    }
}

/// A new store, and what is in it before anything counts.
pub fn filled(
    engine: &dyn Engine,
    work: Work,
    directory: &Path,
) -> Result<Box<dyn Store>, KvError> {
    fs::create_dir(directory).map_err(|source| KvError::files(engine, source))?;
    let made = engine.create(directory).and_then(|mut store| {
        work.fill(&mut *store)?;
        store.settle()?;
        Ok(store)
    });
    made.map_err(|source| KvError::store(engine, source))
}

fn classes(engine: &dyn Engine, directory: &Path) -> Vec<(PathBuf, Class)> {
    engine.databases(directory).into_iter().map(|path| (path, Class::Db)).collect()
}

pub fn sync(place: &Path) -> std::io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(place)?)?)
}

/// What a store has done so far.
#[derive(Default)]
pub struct Counting {
    pub transactions: u64,
    latencies: Latencies,
    elapsed_ns: u64,
    cpu_ns: u64,
    pages_before: Option<u64>,
}

impl Counting {
    pub fn new(store: &dyn Store) -> Counting {
        Counting { pages_before: store.pages_written(), ..Counting::default() }
    }

    /// One transaction.
    pub fn step(&mut self, store: &mut dyn Store, steps: &mut Steps) -> Result<(), StoreError> {
        let value = steps.value();
        let step = steps.take();
        // Outside the time: the processor's clock is a call of the kernel, and takes a good part of
        // what a read from memory does.
        let cpu_ns = clock::process_cpu_ns();
        let begun_ns = clock::now_ns();
        let rows = match step {
            Step::Commit(changes) => store.commit(&changes, &value).map(|()| 1)?,
            Step::Get(key) => match store.get(key)? {
                Some(_) => 1,
                None => return Err(format!("the row {key} is not there").into()),
            },
            Step::Scan => store.scan()?.max(1),
        };
        let elapsed_ns = clock::now_ns() - begun_ns;
        self.cpu_ns += clock::process_cpu_ns() - cpu_ns;
        self.transactions += rows;
        self.latencies.record(elapsed_ns);
        self.elapsed_ns += elapsed_ns;
        Ok(())
    }

    /// Time that was measured elsewhere.
    pub fn record(&mut self, elapsed_ns: u64) {
        self.transactions += 1;
        self.latencies.record(elapsed_ns);
        self.elapsed_ns += elapsed_ns;
    }

    pub fn finish(self, store: &dyn Store) -> Measured {
        let pages = store.pages_written().zip(self.pages_before).map(|(now, then)| now - then);
        Measured { pages, slice: self.result() }
    }

    pub fn result(self) -> SliceResult {
        SliceResult {
            transactions: self.transactions,
            elapsed_ns: self.elapsed_ns,
            latencies: self.latencies,
            timeline: Timeline::new(),
            phases: Vec::new(),
            companion: None,
            wal_bytes_at_end: None,
            vfs_stats: Vec::new(),
            cpu_ns: self.cpu_ns,
            calls: None,
            counts: None,
            laid_out_bytes: None,
            failures: Default::default(),
            fingerprint: None,
        }
    }
}
