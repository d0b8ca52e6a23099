//! How a run ends: a failing case is saved, and the result is said.

use std::path::{Path, PathBuf};

use oneflush_crashlab::{Crash, Report};
use serde::Serialize;
use serde_json::json;

use super::options::Options;
use crate::failure::Failure;
use crate::output;

/// What a run would only meet at its end.
pub fn check_out(directory: &Path) -> Result<(), String> {
    let wrong = |error| {
        format!("--out {}: {error}; give an existing, writable directory", directory.display())
    };
    tempfile::tempfile_in(directory).map(drop).map_err(wrong)
}

/// What is said of a failing case.
pub struct Told {
    pub message: String,
    /// Its file's name.
    pub file: String,
    /// What the case is.
    pub words: String,
}

/// Saves a failing case, prints the result, and ends the command. `command` repeats the run.
pub fn conclude<C: Serialize>(
    options: &Options,
    report: &Report<C>,
    table: String,
    told: impl FnOnce(&C) -> Told,
    json: impl FnOnce(Option<&Path>) -> serde_json::Value,
    command: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let found = match report.violation.as_deref() {
        Some(case) => {
            let told = told(case);
            let saved = save(case, &told, &options.out)?;
            Some((told, saved))
        }
        None => None,
    };
    // What was found is said even where the result cannot be printed.
    let printed = output::print(&match &found {
        _ if options.json => {
            format!("{}\n", json(found.as_ref().map(|(_, saved)| saved.as_path())))
        }
        None => table,
        Some((told, _)) => format!("{table}\nviolation: {}", told.words),
    });
    match found {
        Some((told, saved)) => Err(Failure::failed(format!(
            "{}\n  this case alone: oneflush crash --replay {}\n  the whole run:   {}",
            told.message,
            saved.display(),
            command()
        ))),
        None if report.interrupted => {
            Err(Failure::failed("interrupted before all states were examined"))
        }
        None => printed,
    }
}

fn save(case: &impl Serialize, told: &Told, out: &Path) -> Result<PathBuf, Failure> {
    let path = out.join(&told.file);
    let write = || std::fs::write(&path, serde_json::to_vec(case)?);
    write().map_err(|error| {
        Failure::failed(format!(
            "{}\n  and it could not be saved: --out: {}: {error}",
            told.message,
            path.display()
        ))
    })?;
    Ok(path)
}

/// A case that has run again. `verdict`: what is still wrong. `words` says what the case is.
pub fn retell(
    verdict: Option<String>,
    recorded: &str,
    crashes: &[Crash],
    words: String,
    as_json: bool,
) -> Result<(), Failure> {
    let printed = output::print(&match &verdict {
        _ if as_json => format!(
            "{}\n",
            json!({ "violation": verdict, "recorded": recorded, "crashes": crashes })
        ),
        None => format!("{words}nothing is wrong any more (it was: {recorded})\n"),
        Some(_) => words,
    });
    verdict.map_or(printed, |message| Err(Failure::failed(message)))
}
