//! Examines states of a recorded disk, one after the other, and counts them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oneflush_bench::guest::GuestFs;
use oneflush_crashlab::Content;
use oneflush_measure::interrupt;
use serde::Serialize;

use crate::forced::Forced;
use crate::judge::Cases;
use crate::layout::{Layout, SECTOR_BYTES, SLACK_BYTES};
use crate::mounted::Recovery;
use crate::notes;
use crate::place::{MountedState, StateError, kinds, write};
use crate::states::{self, Drawn, Kind, State};
use crate::write_log::WriteLog;

pub struct Plan {
    pub log: PathBuf,
    /// The guest's trace, which says what writes were forced.
    pub trace: Option<PathBuf>,
    /// The file system as it was before the guest began.
    pub base: PathBuf,
    pub layout: Layout,
    pub fs: GuestFs,
    /// The block device that all states are written to, in a guest.
    pub device: Option<PathBuf>,
    pub states: usize,
    pub seed: u64,
    /// The guest had a directory mounted by `oneflush mount`.
    pub mounted: Option<Recovery>,
    /// The notes of the guest before: its disk was cut, and this one went on with it.
    pub before: Option<PathBuf>,
    /// States that are wrong are kept here.
    pub keep: Option<PathBuf>,
}

#[derive(Default, Serialize)]
pub struct Report {
    pub writes_and_flushes: usize,
    pub notes: usize,
    pub states: BTreeMap<&'static str, Counts>,
    pub violations: Vec<Violation>,
    pub seconds: f64,
    pub interrupted: bool,
}

#[derive(Clone, Copy, Default, Serialize)]
pub struct Counts {
    pub examined: usize,
    /// The file system itself did not mount, which a sector torn from its block may do to it.
    pub not_mounted: usize,
}

#[derive(Serialize)]
pub struct Violation {
    pub state: usize,
    pub after: usize,
    pub in_flight: usize,
    pub kind: &'static str,
    pub message: String,
}

/// No more are looked for.
const VIOLATIONS_MAX: usize = 20;

impl Report {
    pub fn total(&self) -> Counts {
        self.states.values().fold(Counts::default(), |sum, counts| Counts {
            examined: sum.examined + counts.examined,
            not_mounted: sum.not_mounted + counts.not_mounted,
        })
    }
}

/// What a guest has left.
struct Recorded {
    log: WriteLog,
    base: Content,
    /// What the databases may hold at the beginning.
    cases: Cases,
}

impl Plan {
    fn read(&self) -> Result<Recorded, String> {
        let text = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|error| named(path, error.to_string()))
        };
        let open =
            |path: &PathBuf| File::open(path).map_err(|error| named(path, error.to_string()));
        let forced = match &self.trace {
            Some(trace) => {
                let notes = self.layout.notes_start() / SECTOR_BYTES;
                let forced = Forced::parse(&text(trace)?, notes);
                Some(forced.map_err(|error| named(trace, error))?)
            }
            None => None,
        };
        let log = WriteLog::read(&open(&self.log)?, self.layout, forced)
            .map_err(|error| named(&self.log, error.to_string()))?;
        if log.notes.is_empty() {
            return Err(named(&self.log, "the log has no note of the application".to_owned()));
        }
        let base = base(&open(&self.base)?, self.layout)
            .map_err(|error| named(&self.base, error.to_string()))?;
        let mut cases = Cases::default();
        if let Some(before) = &self.before {
            for note in notes::parse_lines(&text(before)?)? {
                cases.follow(&note)?;
            }
        }
        Ok(Recorded { log, base, cases })
    }

    /// Visits the states with what is allowed in each.
    fn visit(
        &self,
        recorded: Recorded,
        mut visit: impl FnMut(usize, State, &Cases) -> Result<bool, String>,
    ) -> Result<(), String> {
        let Recorded { log, base, mut cases } = recorded;
        let mut notes = log.notes.iter().peekable();
        let mut failed = Ok(());
        let drawn = Drawn {
            kinds: kinds(self.fs),
            count: self.states,
            seed: self.seed,
            // What was forced before the trace is not known.
            from_the_start: self.before.is_some() && self.trace.is_none(),
        };
        states::visit(&base, &log, &drawn, |number, state| {
            let go_on = || {
                while let Some((_, note)) = notes.next_if(|(before, _)| *before <= state.after) {
                    cases.follow(note).map_err(|message| named(&self.log, message))?;
                }
                visit(number, state, &cases)
            };
            go_on().unwrap_or_else(|message| {
                failed = Err(message);
                false
            })
        });
        failed
    }
}

fn named(path: &Path, error: String) -> String {
    format!("{}: {error}", path.display())
}

pub fn examine(plan: &Plan, mut tell: impl FnMut(usize, Duration)) -> Result<Report, String> {
    let recorded = plan.read()?;
    let mut report = Report {
        writes_and_flushes: recorded.log.ops.len(),
        notes: recorded.log.notes.len(),
        ..Report::default()
    };
    let began = Instant::now();
    plan.visit(recorded, |number, state, cases| {
        one(plan, cases, number, plan.seed ^ number as u64, &state, &mut report)?;
        tell(number + 1, began.elapsed());
        report.interrupted = interrupt::requested();
        Ok(!report.interrupted && report.violations.len() < VIOLATIONS_MAX)
    })?;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// Writes the partition of one state to `image`, for a guest that goes on with it. `before` gets
/// the notes up to the cut.
pub fn cut(plan: &Plan, wanted: usize, image: &Path, before: &Path) -> Result<(), String> {
    let recorded = plan.read()?;
    let mut found = None;
    let notes = recorded.log.notes.clone();
    plan.visit(recorded, |number, state, _| {
        if number == wanted {
            found = Some(state);
        }
        Ok(number < wanted)
    })?;
    let Some(state) = found else {
        return Err(format!("there is no state {wanted}; {} are drawn", plan.states));
    };
    File::create(image)
        .and_then(|file| write(&file, &state.partition, plan.seed))
        .map_err(|error| named(image, error.to_string()))?;
    let up_to_the_cut = notes.iter().take_while(|(at, _)| *at <= state.after).map(|(_, note)| note);
    std::fs::write(before, notes::to_lines(up_to_the_cut)?)
        .map_err(|error| named(before, error.to_string()))
}

fn one(
    plan: &Plan,
    cases: &Cases,
    number: usize,
    stamp: u64,
    state: &State,
    report: &mut Report,
) -> Result<(), String> {
    let counts = report.states.entry(state.kind.name()).or_default();
    let result = match MountedState::mount(&state.partition, plan.fs, plan.device.as_ref(), stamp) {
        Ok(mounted) => {
            let judged = match plan.mounted {
                Some(recovery) => recovery.judge(number, |at| cases.judge(at)),
                None => cases.judge(mounted.path()),
            };
            mounted.unmount()?;
            judged
        }
        // The superblock itself is larger than a sector.
        Err(StateError::Mount(_)) if state.kind == Kind::Sectors => {
            counts.not_mounted += 1;
            Ok(())
        }
        Err(error @ StateError::Mount(_)) => Err(error.to_string()),
        Err(error) => return Err(error.to_string()),
    };
    counts.examined += 1;
    let Err(message) = result else { return Ok(()) };
    if let Some(directory) = &plan.keep {
        let path = directory.join(format!("state-{}-{number}", plan.seed));
        File::create(&path)
            .and_then(|file| write(&file, &state.partition, stamp))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    report.violations.push(Violation {
        state: number,
        after: state.after,
        in_flight: state.in_flight,
        kind: state.kind.name(),
        message,
    });
    Ok(())
}

/// The partition before the guest began: the file system, and zeros behind it.
fn base(mut file: &File, layout: Layout) -> io::Result<Content> {
    let mut bytes = Vec::new();
    let wanted = layout.fs_bytes - SLACK_BYTES;
    let size = io::Read::read_to_end(&mut file, &mut bytes)?;
    // A state has what is behind its file system, too.
    if size as u64 != wanted && size as u64 != layout.fs_bytes {
        return Err(io::Error::other(format!("it has {size} bytes, and should have {wanted}")));
    }
    let mut content = Content::from_bytes(&bytes);
    content.set_size(layout.fs_bytes);
    Ok(content)
}
