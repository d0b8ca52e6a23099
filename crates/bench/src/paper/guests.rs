//! The rows of a description that need another kernel's file system: "f2fs persist:sqlite" is the
//! mode `persist:sqlite` in a guest with F2FS.
//!
//! Each file system has one guest, in which the experiments run one after the other, a round each:
//! what counts there are bytes and flushes, and these hardly differ between rounds.

use std::str::FromStr;

use super::measure::{PaperError, PaperPlan};
use super::measured::{MeasuredExperiment, MeasuredMode, Missing};
use super::{Experiment, How};
use crate::guest::{Checkout, Found, GuestArch, GuestFs, Spec};
use oneflush_measure::environment::Environment;
use oneflush_measure::mode::{Journal, Mode, ModeError};
use oneflush_measure::run::{FLOOR_WRITES, Progress};
use oneflush_measure::workload::Workload;

/// Where guests come from, and which.
#[derive(Clone, Debug)]
pub struct Guests {
    pub checkout: Checkout,
    pub file_systems: Vec<GuestFs>,
    /// "QEMU 7.2, emulated"
    pub emulator: String,
    /// Without them the run fails; else their rows say why they are missing.
    pub required: bool,
}

const NO_GUEST: &str = "a guest has it: --guest f2fs,ext4, as root in a checkout of Oneflush";

/// Of a mode in a description: the file system of the guest that it runs in.
pub fn file_system(word: &str) -> Option<GuestFs> {
    GuestFs::from_str(word.split_once(' ')?.0).ok()
}

/// A mode that needs no guest, or the mode that runs in one.
pub fn mode_of(word: &str, is_fresh: bool) -> Result<Mode, ModeError> {
    let mode: Mode = word.split_once(' ').map_or(word, |(_, mode)| mode).parse()?;
    Ok(match mode.journal {
        Journal::Wal if is_fresh => Mode { journal: Journal::WalGrowing, ..mode },
        _ => mode,
    })
}

/// A run in a guest, and what it is for.
struct Part {
    experiment: &'static Experiment,
    words: Vec<&'static str>,
    spec: Spec,
}

/// Runs what needs a guest. The results go to their experiments in `measured`.
pub fn measure(
    plan: &PaperPlan,
    measured: &mut [MeasuredExperiment],
    progress: &mut dyn Progress,
) -> Result<Vec<Environment>, PaperError> {
    let mut environments = Vec::new();
    for fs in GuestFs::ALL {
        let parts = parts(plan, fs);
        if parts.is_empty() {
            continue;
        }
        let wanted = |guests: &&Guests| guests.file_systems.contains(&fs);
        let Some(guests) = plan.guests.as_ref().filter(wanted) else {
            are_missing(&parts, NO_GUEST, measured);
            continue;
        };
        progress.part(1, 1, &format!("guest with {fs}"));
        let specs: Vec<Spec> = parts.iter().map(|part| part.spec.clone()).collect();
        match guests.checkout.measure(GuestArch::X86_64, fs, &plan.program, &specs) {
            Ok(found) => {
                environments.extend(found.first().map(|found| Environment {
                    place: format!("guest with {fs}; {}", guests.emulator),
                    ..found.report.environment.clone()
                }));
                for (part, found) in parts.into_iter().zip(found) {
                    part.put(fs, found, measured);
                }
            }
            Err(error) if guests.required => return Err(error.into()),
            Err(error) => are_missing(&parts, &error.to_string(), measured),
        }
    }
    Ok(environments)
}

fn parts(plan: &PaperPlan, fs: GuestFs) -> Vec<Part> {
    let mut parts = Vec::new();
    for experiment in plan.experiments() {
        // Recordings of others stay here.
        let Ok(Some(workload)) = experiment.workload(None) else { continue };
        let mut words = plan.paper.modes(experiment);
        words.retain(|word| file_system(word) == Some(fs));
        // A recording tells no modes apart, so each has its own run.
        let size = if experiment.how == How::Recorded { 1 } else { words.len().max(1) };
        parts.extend(words.chunks(size).map(|words| Part {
            experiment,
            words: words.to_vec(),
            spec: spec(plan, experiment, &workload, words),
        }));
    }
    parts
}

fn spec(plan: &PaperPlan, experiment: &Experiment, workload: &Workload, words: &[&str]) -> Spec {
    Spec {
        // A test sees to it that every word of a description is a mode.
        modes: words.iter().filter_map(|word| mode_of(word, experiment.fresh).ok()).collect(),
        workload: workload.clone(),
        transactions: Some(plan.operations.unwrap_or(experiment.operations)),
        rounds: 1,
        connections: vec![experiment.connections],
        processes: experiment.processes,
        rate: None,
        busy_loops: 0,
        in_turns: experiment.how == How::Turns,
        floor_writes: FLOOR_WRITES,
        recorded: experiment.how == How::Recorded,
    }
}

impl Part {
    fn put(self, fs: GuestFs, found: Found, measured: &mut [MeasuredExperiment]) {
        let Some(experiment) = of(self.experiment, measured) else { return };
        for (word, mode) in self.words.into_iter().zip(found.report.modes) {
            experiment.modes.push(MeasuredMode {
                word,
                guest: Some(fs),
                mode: mode.mode.to_string(),
                median: mode.median,
                rounds: mode.rounds,
                pages_per_transaction: None,
                commits: found.commits.clone(),
                transactions: None,
                writes: None,
            });
        }
    }
}

fn are_missing(parts: &[Part], why: &str, measured: &mut [MeasuredExperiment]) {
    for part in parts {
        if let Some(experiment) = of(part.experiment, measured) {
            let missing = |word: &&'static str| Missing { mode: word, why: why.to_owned() };
            experiment.missing.extend(part.words.iter().map(missing));
        }
    }
}

fn of<'a>(
    experiment: &Experiment,
    measured: &'a mut [MeasuredExperiment],
) -> Option<&'a mut MeasuredExperiment> {
    measured.iter_mut().find(|found| found.name == experiment.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_a_file_system_runs_in_a_guest() {
        assert_eq!(file_system("f2fs wal:sqlite"), Some(GuestFs::F2fs));
        assert_eq!(file_system("wal:sqlite"), None);
        assert_eq!(mode_of("f2fs wal:sqlite", true).unwrap().to_string(), "wal-growing:sqlite");
        assert_eq!(mode_of("wal:sqlite", false).unwrap().to_string(), "wal:sqlite");
    }
}
