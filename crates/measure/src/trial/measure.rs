//! The measurements: each is one mode with some writers, for a part of a second, on the copy.
//!
//! ```text
//! floor ─ idle ─ open ─ fill WAL ─ each commits once ─▶ count: commits … checkpoint ─▶ close
//!                                                              └─ time ─┘
//! ```
//!
//! A commit leaves pages for a later checkpoint, or for the log's end (`maw`). That is counted: a
//! checkpoint, or in a rollback mode the last close, ends the counting. It takes none of the time.
//!
//! All have the same copy, one after the other: the last close leaves a plain database file. What
//! `plain` keeps for its next open is removed, so that each begins alike.
//!
//! Bytes and flushes are the disk's, which others use too. While nothing is done, and where the
//! floor should cost the same each time, the disk's counters say what others do ([`Quiet`]). What
//! they do in bursts shows in the figures themselves ([`belief`]). The floor says whether the disk
//! counts flushes at all. Where the disk cannot be asked, or others do too much, the figures are
//! what the strategy wrote and synced.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde::Serialize;

use super::TrialError;
use super::belief::{self, Limits, Sample, median};
use super::work::{self, Share, Work};
use crate::clock;
use crate::database::{self, DatabaseError};
use crate::floor::FloorFile;
use crate::interrupt;
use crate::mode::Mode;
use crate::observe::{Done, SharedDisk};
use crate::run::latency::Latencies;
use crate::written::Written;

/// How many write at the same time.
pub const WRITERS: [u32; 2] = [1, 8];

const FLOOR_WRITES: u32 = 20;
const IDLE: Duration = Duration::from_millis(60);
/// Whatever opening and filling take.
const MEASURED_MIN: Duration = Duration::from_millis(100);

/// Above this share, others have raised a figure so much that it is said.
const OTHERS_SAID: f64 = 0.05;
/// Above this share, the disk's figures are not used.
const OTHERS_MAX: f64 = 0.25;
/// The disk counts flushes if it counted so many for each overwrite of the floor.
const FLUSHES_MIN: f64 = 0.9;

/// Where bytes and flushes were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// At the disk, which was otherwise quiet.
    Disk,
    /// At the disk, while others wrote to it: a few percent too many.
    DiskWithOthers,
    /// What the strategy wrote and synced; the file system's own journal is not in it.
    Calls,
}

/// What others did to the disk, and what the disk can say.
#[derive(Clone, Debug, Serialize)]
pub struct Quiet {
    pub bytes_counted: Counted,
    pub flushes_counted: Counted,
    /// Largest share of a figure that is others'. None: there is no disk to ask.
    pub others_share: Option<f64>,
    /// A commit cost more at the disk than what it wrote explains.
    pub others_in_bursts: bool,
    /// While we did nothing, or the same each time.
    pub others_bytes_per_s: f64,
    pub others_flushes_per_s: f64,
    /// Of the disk, for each overwrite of the floor.
    pub floor_flushes: Option<f64>,
    pub floor_bytes: Option<f64>,
    #[serde(skip)]
    limits: Limits,
}

/// One mode with one number of writers, of all rounds.
#[derive(Clone, Debug)]
pub struct Measured {
    pub mode: Mode,
    pub writers: u32,
    pub latencies: Latencies,
    slices: Vec<Slice>,
    /// With the figures that were chosen for all.
    pub figures: Figures,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    pub commits: u64,
    /// Medians of the rounds.
    pub commits_per_s: f64,
    pub bytes_per_commit: Option<f64>,
    pub flushes_per_commit: Option<f64>,
    /// In the order of the rounds.
    pub commits_per_s_of_rounds: Vec<f64>,
    pub p50_ms: f64,
    /// None: there were fewer than 100 commits.
    pub p99_ms: Option<f64>,
    pub longest_ms: f64,
}

#[derive(Clone, Debug)]
struct Slice {
    /// All of them, and those that ended in time.
    commits: u64,
    commits_in_time: u64,
    time: Duration,
    disk: Option<Done>,
    calls: Option<Written>,
}

pub struct Measuring {
    path: PathBuf,
    disk: Option<SharedDisk>,
    /// First all modes with one writer, then all with more.
    all: Vec<Measured>,
    modes_count: u32,
    idle: Vec<(Done, Duration)>,
    /// Each of [`FLOOR_WRITES`] overwrites.
    floors: Vec<(Done, Duration)>,
    /// What a measurement takes besides, by the ones before it.
    besides: Option<Duration>,
}

impl Measuring {
    pub fn new(path: &Path, disk: Option<SharedDisk>, modes: &[Mode]) -> Measuring {
        let of = |mode: &Mode, writers| Measured {
            mode: mode.clone(),
            writers,
            latencies: Latencies::new(),
            slices: Vec::new(),
            figures: Figures::default(),
        };
        let all = WRITERS.iter().flat_map(|writers| modes.iter().map(|mode| of(mode, *writers)));
        Measuring {
            path: path.to_owned(),
            disk,
            all: all.collect(),
            modes_count: modes.len() as u32,
            idle: Vec::new(),
            floors: Vec::new(),
            besides: None,
        }
    }

    pub fn slices_count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Which measurement comes in this turn of a round; both from 0. Those that are compared are
    /// neighbours, and each is the first of them once.
    pub fn whose(&self, round: u32, turn: u32) -> usize {
        let modes = self.modes_count;
        (turn / modes * modes + (turn + round) % modes) as usize
    }

    pub fn mode(&self, at: usize) -> &Mode {
        &self.all[at].mode
    }

    /// Takes about as long as `slot`.
    pub fn measure(
        &mut self,
        at: usize,
        slot: Duration,
        floor: &mut FloorFile,
        work: &mut Work,
    ) -> Result<(), TrialError> {
        let begun = Instant::now();
        self.measure_floor(floor)?;
        if let Some(disk) = &self.disk {
            self.idle.extend(disk.idle(IDLE));
        }
        let besides = self.besides.unwrap_or(slot / 3);
        let time = slot.saturating_sub(besides).max(MEASURED_MIN);
        let of_mode = &mut self.all[at];
        let mode = of_mode.mode.to_string();
        let failed = |source| of_error(source, &mode, of_mode.writers, &self.path);
        let (slice, latencies) =
            run(&self.path, &of_mode.mode, of_mode.writers, time, self.disk.as_ref(), work)
                .map_err(|error| match error {
                    Failure::Trial(error) => error,
                    Failure::Database(error) => failed(error),
                })?;
        of_mode.latencies.merge(&latencies);
        of_mode.slices.push(slice);
        remove_kept(&self.path);
        let took = begun.elapsed().saturating_sub(time);
        self.besides = Some(self.besides.map_or(took, |before| (before * 3 + took) / 4));
        Ok(())
    }

    fn measure_floor(&mut self, floor: &mut FloorFile) -> Result<(), TrialError> {
        let (mark, begun) = (self.disk.as_ref().and_then(SharedDisk::mark), Instant::now());
        floor.overwrite(FLOOR_WRITES)?;
        if let Some((disk, mark)) = self.disk.as_ref().zip(mark)
            && let Some(done) = disk.since(mark)
        {
            self.floors.push((done, begun.elapsed()));
        }
        Ok(())
    }

    /// The measurements of a mode are neighbours then.
    pub fn finish(mut self) -> (Vec<Measured>, Quiet) {
        let quiet = self.quiet();
        for of_mode in &mut self.all {
            of_mode.figures = of_mode.figures(&quiet);
        }
        let modes = self.modes_count as usize;
        let mut all: Vec<_> = self.all.into_iter().enumerate().collect();
        all.sort_by_key(|(at, _)| at % modes);
        (all.into_iter().map(|(_, of_mode)| of_mode).collect(), quiet)
    }

    fn quiet(&self) -> Quiet {
        let seconds = |spans: &[(Done, Duration)]| -> f64 {
            spans.iter().map(|(_, time)| time.as_secs_f64()).sum()
        };
        let seconds = seconds(&self.idle) + seconds(&self.floors);
        // Of overwrites the least is ours, and what others cost more is theirs.
        let floor_least = |of: fn(&Done) -> u64| self.floors.iter().map(|(done, _)| of(done)).min();
        let others_per_s = |of: fn(&Done) -> u64| {
            let least = floor_least(of).unwrap_or_default();
            let idle: u64 = self.idle.iter().map(|(done, _)| of(done)).sum();
            let floor: u64 = self.floors.iter().map(|(done, _)| of(done) - least).sum();
            if seconds > 0.0 { (idle + floor) as f64 / seconds } else { 0.0 }
        };
        let (bytes, flushes) = (|done: &Done| done.bytes, |done: &Done| done.flushes);
        let (bytes_per_s, flushes_per_s) = (others_per_s(bytes), others_per_s(flushes));
        let each_floor = |of: fn(&Done) -> u64| {
            let each = |(done, _): &(Done, Duration)| of(done) as f64 / f64::from(FLOOR_WRITES);
            median(self.floors.iter().map(each).collect())
        };
        let (floor_bytes, floor_flushes) = (each_floor(bytes), each_floor(flushes));
        let block_bytes = crate::floor::BLOCK_BYTES as f64;
        let counts_flushes = floor_flushes.is_some_and(|flushes| flushes >= FLUSHES_MIN);
        let counts_bytes = floor_bytes.is_some_and(|bytes| bytes >= FLUSHES_MIN * block_bytes);
        let share = |per_s: f64, of: fn(&Done) -> u64| {
            let shares = self.all.iter().flat_map(|of_mode| of_mode.share_of_others(per_s, of));
            shares.fold(0.0, f64::max)
        };
        let (bytes_share, flushes_share) = (
            share(bytes_per_s, bytes),
            if counts_flushes { share(flushes_per_s, flushes) } else { 0.0 },
        );
        let floor_least =
            floor_least(bytes).map_or(0.0, |bytes| bytes as f64 / f64::from(FLOOR_WRITES));
        let limits = Limits::of_bytes(floor_least, block_bytes);
        let bursts_of_bytes =
            counts_bytes && self.all.iter().any(|of_mode| of_mode.bytes_at_disk(&limits).is_none());
        let bursts_of_flushes =
            counts_flushes && self.all.iter().any(|of_mode| of_mode.flushes_at_disk().is_none());
        let counted = |can: bool, share: f64| match share {
            _ if !can => Counted::Calls,
            share if share > OTHERS_MAX => Counted::Calls,
            share if share > OTHERS_SAID => Counted::DiskWithOthers,
            _ => Counted::Disk,
        };
        Quiet {
            bytes_counted: counted(counts_bytes && !bursts_of_bytes, bytes_share),
            flushes_counted: counted(counts_flushes && !bursts_of_flushes, flushes_share),
            others_share: (!self.floors.is_empty()).then(|| bytes_share.max(flushes_share)),
            others_in_bursts: bursts_of_bytes || bursts_of_flushes,
            others_bytes_per_s: bytes_per_s,
            others_flushes_per_s: flushes_per_s,
            floor_flushes,
            floor_bytes,
            limits,
        }
    }
}

impl Measured {
    /// If others went on as they did while we did nothing.
    fn share_of_others(&self, per_s: f64, of: fn(&Done) -> u64) -> Option<f64> {
        let (mut all, mut seconds) = (0, 0.0);
        for slice in &self.slices {
            all += of(&slice.disk?);
            seconds += slice.time.as_secs_f64();
        }
        (all > 0).then(|| per_s * seconds / all as f64)
    }

    /// What a commit cost at the disk. None: others did too much meanwhile. Where nobody knows what
    /// the strategy wrote, all rounds are believed.
    fn at_disk(
        &self,
        counted: fn(&Done, &Written) -> u64,
        written: fn(&Written) -> u64,
        limits: &Limits,
    ) -> Option<f64> {
        let sample = |slice: &Slice| {
            let (disk, calls) = (slice.disk.as_ref()?, slice.calls.as_ref()?);
            let (counted, written) = (counted(disk, calls), written(calls));
            Some(Sample { commits: slice.commits, counted, written, syncs: calls.syncs })
        };
        let samples: Vec<Sample> = self.slices.iter().filter_map(sample).collect();
        if samples.is_empty() {
            let nothing = Written::default();
            return self.each_commit(|slice| Some(counted(slice.disk.as_ref()?, &nothing)));
        }
        belief::per_commit(&samples, limits)
    }

    /// Space that is made ahead is no commit's.
    fn bytes_at_disk(&self, limits: &Limits) -> Option<f64> {
        let counted =
            |done: &Done, written: &Written| done.bytes.saturating_sub(written.laid_out_bytes);
        self.at_disk(counted, Written::bytes, limits)
    }

    fn flushes_at_disk(&self) -> Option<f64> {
        let limits = Limits::of_flushes();
        self.at_disk(|done, _| done.flushes, |written| written.syncs, &limits)
    }

    /// The median of the rounds.
    fn each_commit(&self, count: impl Fn(&Slice) -> Option<u64>) -> Option<f64> {
        let each = |slice: &Slice| {
            let count = count(slice)?;
            (slice.commits > 0).then(|| count as f64 / slice.commits as f64)
        };
        median(self.slices.iter().filter_map(each).collect())
    }

    fn figures(&self, quiet: &Quiet) -> Figures {
        let written =
            |of: fn(&Written) -> u64| self.each_commit(|slice| slice.calls.as_ref().map(of));
        let bytes_per_commit = match quiet.bytes_counted {
            Counted::Calls => written(Written::bytes),
            Counted::Disk | Counted::DiskWithOthers => self.bytes_at_disk(&quiet.limits),
        };
        let flushes_per_commit = match quiet.flushes_counted {
            Counted::Calls => written(|written| written.syncs),
            Counted::Disk | Counted::DiskWithOthers => self.flushes_at_disk(),
        };
        let rates: Vec<f64> = self
            .slices
            .iter()
            .map(|slice| slice.commits_in_time as f64 / slice.time.as_secs_f64())
            .collect();
        let ms = |ns: u64| ns as f64 / 1e6;
        let commits = self.latencies.count();
        Figures {
            commits,
            commits_per_s: median(rates.clone()).unwrap_or_default(),
            bytes_per_commit,
            flushes_per_commit,
            commits_per_s_of_rounds: rates,
            p50_ms: ms(self.latencies.at_quantile_ns(0.5)),
            p99_ms: (commits >= 100).then(|| ms(self.latencies.at_quantile_ns(0.99))),
            longest_ms: ms(self.latencies.max_ns()),
        }
    }
}

enum Failure {
    Trial(TrialError),
    Database(DatabaseError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        Failure::Database(error.into())
    }
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Failure {
        Failure::Database(error)
    }
}

fn of_error(source: DatabaseError, mode: &str, writers: u32, path: &Path) -> TrialError {
    if source.is_disk_full() {
        return TrialError::Full(path.parent().unwrap_or(path).to_owned());
    }
    let writers = if writers == 1 { "1 writer".to_owned() } else { format!("{writers} writers") };
    TrialError::Measure { mode: mode.to_owned(), writers, source }
}

/// What one writer did.
struct Outcome {
    rows: Vec<i64>,
    latencies: Latencies,
    in_time: u64,
    result: rusqlite::Result<()>,
}

fn run(
    path: &Path,
    mode: &Mode,
    writers: u32,
    time: Duration,
    disk: Option<&SharedDisk>,
    work: &mut Work,
) -> Result<(Slice, Latencies), Failure> {
    // Keeps the database as it is until all have ended.
    let holder = database::open(path, mode)?;
    work::adapt(&holder)?;
    if mode.journal.is_wal() {
        Work::fill_wal(&holder)?;
        database::checkpoint(&holder, "main", "RESTART")?;
    }
    let mut shares = work.shares(writers);
    let mut members: Vec<(Connection, Share<'_>)> = Vec::new();
    for mut share in shares.drain(..) {
        let connection = database::open(path, mode)?;
        work::adapt(&connection)?;
        share.commit(&connection)?;
        members.push((connection, share));
    }
    let gate = Barrier::new(members.len() + 1);
    let calls_before = Written::of(&holder);
    let (mark, written) = thread::scope(|scope| {
        let threads: Vec<_> = members
            .into_iter()
            .map(|(connection, share)| scope.spawn(|| write(connection, share, &gate, time)))
            .collect();
        let mark = disk.and_then(SharedDisk::mark);
        gate.wait();
        let join = |thread: thread::ScopedJoinHandle<'_, Outcome>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (mark, threads.into_iter().map(join).collect::<Vec<Outcome>>())
    });
    let (mut latencies, mut rows, mut commits_in_time) = (Latencies::new(), Vec::new(), 0);
    let mut failed = None;
    for writer in written {
        latencies.merge(&writer.latencies);
        rows.extend(writer.rows);
        commits_in_time += writer.in_time;
        failed = failed.or(writer.result.err());
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    work.take_back(rows);
    if interrupt::requested() {
        return Err(Failure::Trial(TrialError::Stopped));
    }
    let found = work.found(&holder)?;
    if found != work.rows() {
        return Err(Failure::Trial(TrialError::Contents {
            mode: mode.to_string(),
            found: format!("{found} of {} rows", work.rows()),
        }));
    }
    if mode.journal.is_wal() {
        database::checkpoint(&holder, "main", "PASSIVE")?;
    }
    let calls =
        Written::of(&holder).zip(calls_before).and_then(|(after, before)| after.since(before));
    let holder = Some(holder).filter(|_| mode.journal.is_wal());
    let done = disk.zip(mark).and_then(|(disk, mark)| disk.since(mark));
    drop(holder);
    let commits = latencies.count();
    Ok((Slice { commits, commits_in_time, time, disk: done, calls }, latencies))
}

/// One writer, from the gate to the end of the time. A commit that has begun is finished.
fn write(connection: Connection, mut share: Share<'_>, gate: &Barrier, time: Duration) -> Outcome {
    let mut latencies = Latencies::new();
    let (mut in_time, mut result) = (0, Ok(()));
    gate.wait();
    let end_ns = clock::now_ns() + time.as_nanos() as u64;
    while clock::now_ns() < end_ns && !interrupt::requested() {
        match share.commit(&connection) {
            Ok(latency_ns) => latencies.record(latency_ns),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
        in_time += u64::from(clock::now_ns() <= end_ns);
    }
    drop(connection);
    Outcome { rows: share.into_rows(), latencies, in_time, result }
}

/// The WAL that `plain` keeps for the next open.
fn remove_kept(path: &Path) {
    let [.., kept] = database::files_of(path);
    // Where it is not, nothing was kept.
    let _ = std::fs::remove_file(kept);
}
