//! Examines states of a recorded disk, one after the other, and counts them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use oneflush_bench::interrupt;
use oneflush_crashlab::Content;
use serde::Serialize;

use crate::forced::Forced;
use crate::judge::Cases;
use crate::layout::{Layout, SLACK_BYTES};
use crate::place::{FileSystem, MountedState, StateError, write};
use crate::states::{self, Kind, State};
use crate::write_log::WriteLog;

pub struct Plan {
    pub log: PathBuf,
    /// The guest's trace, which says what writes were forced.
    pub trace: Option<PathBuf>,
    /// The file system as it was before the guest began.
    pub base: PathBuf,
    pub layout: Layout,
    pub fs: FileSystem,
    /// The block device that all states are written to, in a guest.
    pub device: Option<PathBuf>,
    pub states: usize,
    pub seed: u64,
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

pub fn examine(plan: &Plan, mut tell: impl FnMut(usize, Duration)) -> Result<Report, String> {
    let named = |path: &PathBuf, error: String| format!("{}: {error}", path.display());
    let open = |path: &PathBuf| File::open(path).map_err(|error| named(path, error.to_string()));
    let forced = plan.trace.as_ref().map(|trace| {
        std::fs::read_to_string(trace)
            .map_err(|error| named(trace, error.to_string()))
            .and_then(|text| Forced::parse(&text).map_err(|error| named(trace, error)))
    });
    let log = WriteLog::read(&open(&plan.log)?, plan.layout, forced.transpose()?)
        .map_err(|error| named(&plan.log, error.to_string()))?;
    if log.notes.is_empty() {
        return Err(named(&plan.log, "the log has no note of the application".to_owned()));
    }
    let base = base(&open(&plan.base)?, plan.layout)
        .map_err(|error| named(&plan.base, error.to_string()))?;
    let mut report =
        Report { writes_and_flushes: log.ops.len(), notes: log.notes.len(), ..Report::default() };
    let began = Instant::now();
    let (mut cases, mut notes) = (Cases::default(), log.notes.iter().peekable());
    let mut failed = Ok(());
    states::visit(&base, &log, plan.fs.kinds(), plan.states, plan.seed, |number, state| {
        while let Some((_, note)) = notes.next_if(|(before, _)| *before <= state.after) {
            if let Err(message) = cases.follow(note) {
                failed = Err(named(&plan.log, message));
                return false;
            }
        }
        let stamp = plan.seed ^ number as u64;
        if let Err(message) = one(plan, &cases, number, stamp, &state, &mut report) {
            failed = Err(message);
            return false;
        }
        tell(number + 1, began.elapsed());
        report.interrupted = interrupt::requested();
        !report.interrupted && report.violations.len() < VIOLATIONS_MAX
    });
    report.seconds = began.elapsed().as_secs_f64();
    failed.map(|()| report)
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
            let judged = cases.judge(mounted.path());
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
    if size as u64 != wanted {
        return Err(io::Error::other(format!("it has {size} bytes, and should have {wanted}")));
    }
    let mut content = Content::from_bytes(&bytes);
    content.set_size(layout.fs_bytes);
    Ok(content)
}
