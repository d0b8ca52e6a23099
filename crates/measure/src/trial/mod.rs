//! A trial: what a durable commit costs a user, with their database on their file system.
//!
//! ```text
//! original ── copy ──▶ private directory ── work: what a commit is
//!                        └─ rounds: each mode, with 1 writer and with 8, for a part of a second
//! ```
//!
//! 1. The original is never written and never opened by SQLite (`copy.rs`, `original.rs`).
//! 2. All that is made is in one directory of our own. It goes away however the trial ends
//!    ([`Place`]).
//! 3. A trial keeps its time. Only the first round is always finished.
//! 4. A figure that others may have raised is said to be so ([`Counted`]).
//!
//! `oneflush bench` has a disk of its own, a fresh database for each measurement and a number of
//! transactions. A trial has none of these: it has the user's disk, one copy and some seconds.

mod belief;
mod commit;
mod copy;
mod error;
mod lock;
mod measure;
mod original;
mod pages;
mod work;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oneflush_trace::kernel::MountInfo;
use oneflush_vfs::{Fault, Ground, StrategyKind, Tried, Verdict};
use serde::Serialize;

pub use commit::Commit;
pub use copy::Copied;
pub use error::TrialError;
pub use measure::{Counted, Figures, Measured, Quiet, WRITERS};
use original::Original;
pub use pages::Pages;
use work::{ChooseError, Work};

use crate::database;
use crate::floor::{Floor, FloorFile};
use crate::mode::{Journal, Mode, Strategy};
use crate::observe::SharedDisk;
use crate::place::{Place, PlaceError};
use crate::run::Progress;

pub const SECONDS_MIN: u64 = 1;
pub const SECONDS_DEFAULT: u64 = 30;
pub const SECONDS_MAX: u64 = 3_600;

const ROUNDS: u32 = 5;
/// Of a measurement; shorter ones are only in a round that would not end otherwise.
const SLICE_MIN: Duration = Duration::from_millis(250);
const COPY: &str = "copy.db";

/// What to try.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A database, or a directory.
    pub path: PathBuf,
    /// Where the copy is made; none: beside the original.
    pub directory: Option<PathBuf>,
    /// Whose rows are moved; none: those of the largest.
    pub table: Option<String>,
    pub time: Duration,
}

/// What was found.
#[derive(Debug)]
pub struct Trial {
    pub subject: Subject,
    pub commit: Commit,
    /// The mode that the database has now is the first.
    pub measured: Vec<Measured>,
    /// What cannot be tried here, and why.
    pub refused: Vec<Refused>,
    pub floor: Floor,
    pub quiet: Quiet,
    pub rounds: u32,
    pub elapsed: Duration,
}

#[derive(Clone, Debug, Serialize)]
pub struct Subject {
    pub path: PathBuf,
    /// None: it is a directory.
    pub database: Option<Facts>,
    pub fs: String,
    /// Of the disk that was counted. None: there is not one disk.
    pub device: Option<String>,
    /// The copy was made here.
    pub directory: PathBuf,
    /// That is another file system than the original's.
    pub elsewhere: bool,
    /// What is wrong with the place.
    pub fault: Option<&'static str>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    pub bytes: u64,
    pub page_bytes: u32,
    /// As `PRAGMA journal_mode` would say.
    pub journal: &'static str,
    pub cloned: bool,
    /// Of the WAL or hot journal that came with it.
    pub side_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    pub strategy: &'static str,
    pub reason: String,
}

pub fn run(plan: &Plan, progress: &mut dyn Progress) -> Result<Trial, TrialError> {
    let begun = Instant::now();
    let original = Original::look(&plan.path)?;
    let beside = plan.directory.as_deref().unwrap_or(original.directory()).to_owned();
    let place = Place::directory(&beside)
        .map_err(|source| TrialError::Place { directory: beside.clone(), source })?;
    let trial = measure_in(&place, plan, &original, begun, progress);
    progress.done();
    // A failure is told rather than that of the clearing.
    let trial = trial?;
    place.close().map_err(TrialError::TakeAway)?;
    Ok(Trial { elapsed: begun.elapsed(), ..trial })
}

fn measure_in(
    place: &Place,
    plan: &Plan,
    original: &Original,
    begun: Instant,
    progress: &mut dyn Progress,
) -> Result<Trial, TrialError> {
    let directory = original.directory().to_owned();
    let io = |source| TrialError::Io { directory: place.path().to_owned(), source };
    let deadline = begun + plan.time;
    let path = place.path().join(COPY);
    let facts = match original {
        Original::Database(database) => {
            let copied = copy::copy(database, &path, begun + plan.time / 2)?;
            Some(Facts {
                bytes: database.bytes,
                page_bytes: database.page_bytes,
                journal: database.journal.pragma(),
                cloned: copied.cloned,
                side_bytes: copied.side_bytes,
            })
        }
        Original::Directory(_) => None,
    };
    let page_bytes = facts.as_ref().map_or(0, |facts| facts.page_bytes);
    let free_bytes = copy::free_bytes(place.path())?;
    if free_bytes < copy::room_bytes(page_bytes) {
        return Err(TrialError::NoRoom {
            path: original.named().to_owned(),
            directory: place.path().parent().unwrap_or(place.path()).to_owned(),
            needed_bytes: copy::room_bytes(page_bytes),
            free_bytes,
        });
    }

    let tried = oneflush_vfs::tried(place.path()).map_err(io)?;
    if let Some(reason) =
        tried.iter().find(|one| one.fails_sync()).and_then(|one| one.fails.clone())
    {
        return Err(TrialError::NoSync { directory: place.path().to_owned(), reason });
    }
    let ground = Ground::of(place.path());
    let fault = ground.as_ref().and_then(|ground| ground.fault);
    let (modes, refused) = modes(original.journal(), &tried, fault, place.path());

    let schema = |source| TrialError::Schema {
        path: original.named().to_owned(),
        source,
        directory: directory.clone(),
    };
    let mut work =
        choose(&path, &modes[0], plan.table.as_deref()).map_err(|error| match error {
            ChooseError::Trial(error) => error,
            ChooseError::Sqlite(source) => schema(source),
        })?;

    let disk = SharedDisk::below(place.path());
    let mut floor = FloorFile::new(place.path())?;
    let mut measuring = measure::Measuring::new(&path, disk.clone(), &modes);
    let mut rounds = 0;
    let count = measuring.slices_count();
    let planned = planned_rounds(deadline, count);
    'rounds: for round in 1..=planned {
        for turn in 0..count {
            copy::check_interrupt()?;
            let left = deadline.saturating_duration_since(Instant::now());
            // The clearing has a part of the time, too.
            let slots = (planned - round) * count + count - turn;
            let slot = left.mul_f64(0.97) / slots;
            if round > 1 && slot < SLICE_MIN {
                break 'rounds;
            }
            let number = (round - 1) * count + turn + 1;
            let at = measuring.whose(round - 1, turn);
            progress.slice(number, planned * count, round, measuring.mode(at));
            measuring.measure(at, slot, &mut floor, &mut work)?;
        }
        rounds = round;
        progress.round_done(round, planned);
    }
    let floor = floor.finish();
    let (measured, quiet) = measuring.finish();
    let mount = MountInfo::of(place.path()).map_err(io)?;
    Ok(Trial {
        subject: Subject {
            path: original.named().to_owned(),
            database: facts,
            fs: mount.fs,
            device: disk.map(|disk| disk.name().to_owned()),
            directory: place.path().parent().unwrap_or(place.path()).to_owned(),
            elsewhere: is_elsewhere(original.directory(), place.path()),
            fault: fault.map(word),
        },
        commit: work.commit,
        measured,
        refused,
        floor,
        quiet,
        rounds,
        elapsed: begun.elapsed(),
    })
}

fn is_elsewhere(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        path.metadata().map(|metadata| metadata.dev()).ok()
    };
    device(one) != device(other)
}

/// As many as give each measurement enough time.
fn planned_rounds(deadline: Instant, slices: u32) -> u32 {
    let left = deadline.saturating_duration_since(Instant::now());
    let fitting = left.as_millis() / (2 * SLICE_MIN.as_millis() * u128::from(slices));
    u32::try_from(fitting).unwrap_or(ROUNDS).clamp(1, ROUNDS)
}

fn choose(path: &Path, mode: &Mode, table: Option<&str>) -> Result<Work, ChooseError> {
    use database::DatabaseError;
    let sqlite = Mode { strategy: Strategy::Sqlite, ..mode.clone() };
    let connection = database::open(path, &sqlite).map_err(|error| match error {
        DatabaseError::Sqlite(error) => ChooseError::Sqlite(error),
        other => ChooseError::Sqlite(rusqlite::Error::ToSqlConversionFailure(other.into())),
    })?;
    work::adapt(&connection)?;
    let page_bytes: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Work::choose(&connection, page_bytes as u64, table)
}

fn word(fault: Fault) -> &'static str {
    match fault {
        Fault::Shared => "shared",
        Fault::Fuse => "fuse",
        Fault::Writeback => "writeback",
        Fault::NoBarrier => "no_barrier",
        Fault::Memory => "memory",
    }
}

/// What is compared, and what cannot be. The database's own way is the first.
fn modes(
    journal: Journal,
    tried: &[Tried],
    fault: Option<Fault>,
    directory: &Path,
) -> (Vec<Mode>, Vec<Refused>) {
    let verdicts = oneflush_vfs::verdicts(directory, tried);
    let mode = |journal, kind| Mode { strategy: Strategy::Oneflush(kind), ..Mode::new(journal) };
    let mut modes = vec![mode(journal, StrategyKind::Stock)];
    let mut refused = Vec::new();
    let may_be_shared = matches!(fault, Some(Fault::Shared | Fault::Fuse));
    if journal != Journal::Wal && !may_be_shared {
        modes.push(mode(Journal::Wal, StrategyKind::Stock));
    }
    let mut candidates =
        vec![(Journal::Wal, StrategyKind::Plain), (Journal::Wal, StrategyKind::Eager)];
    if journal != Journal::Wal {
        candidates.push((journal, StrategyKind::Maw));
    }
    for (journal, kind) in candidates {
        let verdict = verdicts.iter().find(|verdict| verdict.strategy == kind.name());
        match verdict {
            Some(Verdict { refuses: true, reason, .. }) => refused.push(Refused {
                strategy: kind.name(),
                reason: reason.clone().unwrap_or_default(),
            }),
            Some(Verdict { reason: Some(reason), .. }) if may_be_shared => {
                refused.push(Refused { strategy: kind.name(), reason: reason.clone() });
            }
            _ => modes.push(mode(journal, kind)),
        }
    }
    (modes, refused)
}

impl From<PlaceError> for TrialError {
    fn from(error: PlaceError) -> TrialError {
        TrialError::TakeAway(error)
    }
}
