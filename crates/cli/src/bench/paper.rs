//! `oneflush bench --paper`: a paper's tables and figures again, theirs beside ours.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use oneflush_bench::guest::{Checkout, GuestFs};
use oneflush_bench::paper::{self, Guests, Inputs, PAPERS, Paper, PaperPlan, PaperReport};

use super::{Options, guest, place_of_size};
use crate::output::{self, Output};
use crate::progress::Terminal;
use crate::{Failure, bench};

/// All modes of an experiment run in so many rounds, if nobody says how many.
const ROUNDS: u32 = 3;

pub fn parse(word: &str) -> Result<&'static Paper, String> {
    let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
    Paper::find(word).ok_or_else(|| format!("it is one of: {}", names.join(", ")))
}

pub fn main(paper: &'static Paper, options: &Options) -> Result<(), Failure> {
    let inputs = options.inputs.as_deref().map(|directory| {
        Inputs::open(directory).map_err(|error| Failure::failed(format!("--inputs {error}")))
    });
    let plan = PaperPlan {
        paper,
        place: place_of_size(options, paper.size_gib)?,
        rounds: options.rounds.unwrap_or(ROUNDS),
        operations: options.txns,
        program: std::env::current_exe().map_err(Failure::failed)?,
        only: options.only.as_ref().map(|only| only.to_lowercase()),
        guests: guests(options)?,
        inputs: inputs.transpose()?,
    };
    let is_empty = plan.sheets().next().is_none() && plan.patterns().next().is_none();
    if let (true, Some(only)) = (is_empty, &options.only) {
        let sheets = paper.sheets.iter().map(|sheet| sheet.source);
        let all: Vec<&str> =
            sheets.chain(paper.patterns.iter().map(|sheet| sheet.source)).collect();
        return Err(Failure::usage(format!(
            "--only {only}: no table or figure of {} is called so; they are: {}",
            paper.name,
            all.join("; ")
        )));
    }
    // What is wrong with the folder is said before a run of minutes.
    let files = options.output.as_deref().map(|folder| files(folder, paper)).transpose()?;
    bench::begin(&plan.place)?;
    let measured = paper::measure(&plan, &mut Terminal::new()).map_err(Failure::failed)?;
    let report = PaperReport::new(&plan, measured);
    let markdown = report.to_markdown();
    let json = report.to_json().map_err(Failure::failed)?;
    let printed = output::print(if options.json { &json } else { &markdown });
    if let Some([text, object]) = files {
        write(&text, &markdown)?;
        write(&object, &json)?;
    }
    printed
}

/// Those that were asked for. A whole run takes them by itself where they can be had.
fn guests(options: &Options) -> Result<Option<Guests>, Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let is_whole = options.only.is_none() && options.dir.is_none();
    let (file_systems, required) = match options.guest.as_slice() {
        [] if is_whole && guest::is_at_hand(&program) => {
            (vec![GuestFs::F2fs, GuestFs::Ext4], false)
        }
        [] => return Ok(None),
        asked => (asked.to_vec(), true),
    };
    let checkout = Checkout::find(&program).map_err(Failure::failed)?;
    Ok(Some(Guests { checkout, file_systems, emulator: guest::emulator(), required }))
}

/// The files of the result, in a folder that can be written.
fn files(folder: &Path, paper: &Paper) -> Result<[PathBuf; 2], Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::failed(format!(
            "{}: the folder of --output cannot be made: {error}; name another",
            folder.display()
        ))
    })?;
    let files = ["md", "json"].map(|ending| folder.join(format!("{}.{ending}", paper.name)));
    for file in &files {
        // Dropped unwritten, it leaves nothing.
        open(file)?;
    }
    Ok(files)
}

fn open(file: &Path) -> Result<Output, Failure> {
    Output::named("--output", file).map_err(Failure::failed)
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let mut output = open(file)?;
    output.write_all(text.as_bytes()).map_err(Failure::failed)?;
    output.finish().map_err(Failure::failed)?;
    eprintln!("written: {}", file.display());
    Ok(())
}
