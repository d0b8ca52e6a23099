//! `oneflush bench --paper`: a paper's tables and figures again, theirs beside ours.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use oneflush_bench::guest::{Checkout, GuestFs};
use oneflush_bench::paper::{
    self, Failed, Guests, Inputs, PAPERS, Paper, PaperPlan, PaperReport, Papers,
};
use oneflush_measure::interrupt;

use super::asked::Asked;
use super::begin::begin;
use super::guest;
use super::options::Options;
use super::plan::place_of_size;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::progress::Terminal;

/// All modes of an experiment run in so many rounds, if nobody says how many.
const ROUNDS: u32 = 3;
/// The same where all papers are asked for.
const ROUNDS_OF_ALL: u32 = 1;

/// Of each experiment in a short form.
const OPERATIONS_SHORT: u64 = 20;
const BYTES_SHORT: u64 = 256 << 20;

fn plan(paper: &'static Paper, options: &Options, rounds: u32) -> Result<PaperPlan, Failure> {
    let inputs = options.inputs.as_deref().map(|directory| {
        Inputs::open(directory).map_err(|error| Failure::failed(format!("--inputs {error}")))
    });
    Ok(PaperPlan {
        paper,
        // To fill it takes as long as many an experiment of the short form.
        place: place_of_size(
            options,
            if options.short { BYTES_SHORT } else { paper.size_gib << 30 },
        )?,
        rounds: options.rounds.unwrap_or(if options.short { 1 } else { rounds }),
        operations: options.txns.or(options.short.then_some(OPERATIONS_SHORT)),
        program: std::env::current_exe().map_err(Failure::failed)?,
        only: options.only.as_ref().map(|only| only.to_lowercase()),
        guests: guests(options)?,
        inputs: inputs.transpose()?,
        is_short: options.short,
    })
}

pub fn main(asked: Asked, options: &Options) -> Result<(), Failure> {
    match asked {
        Asked::One(paper) => one(paper, options),
        Asked::All => all(options),
    }
}

/// Each paper, and the page of all. What cannot be run is said there, and takes no other with it.
fn all(options: &Options) -> Result<(), Failure> {
    if options.only.is_some() {
        return Err(Failure::usage("--only is a part of one paper; name that with --paper"));
    }
    let plans: Vec<PaperPlan> = PAPERS
        .iter()
        .map(|paper| plan(paper, options, ROUNDS_OF_ALL))
        .collect::<Result<_, Failure>>()?;
    let folder = options.output.as_deref();
    let of_papers: Option<Vec<_>> = folder
        .map(|folder| {
            PAPERS.iter().map(|paper| files(folder, paper.name)).collect::<Result<_, _>>()
        })
        .transpose()?;
    let pages = folder.map(pages).transpose()?;
    begin(&plans[0].place)?;
    let (mut papers, mut failures) = (Papers::default(), Vec::new());
    for (at, plan) in plans.iter().enumerate() {
        let name = plan.paper.name;
        eprintln!("paper {} of {}: {name}", at + 1, plans.len());
        let measured = match paper::measure(plan, &mut Terminal::new()) {
            Ok(measured) => measured,
            Err(error) if interrupt::requested() => return Err(Failure::failed(error)),
            Err(error) => {
                let why = error.to_string();
                failures.push(format!("{name}: {why}"));
                papers.failed.push(Failed { paper: name, why });
                continue;
            }
        };
        failures.extend(measured.failures.iter().map(|why| format!("{name}: {why}")));
        let report = PaperReport::new(plan, measured);
        if let Some([text, object]) = of_papers.as_ref().map(|files| &files[at]) {
            write(text, &report.to_markdown())?;
            write(object, &report.to_json().map_err(Failure::failed)?)?;
        }
        papers.papers.push(report);
    }
    let printed = output::print(&if options.json {
        papers.to_json().map_err(Failure::failed)?
    } else if folder.is_some() {
        papers.summary()
    } else {
        papers.to_markdown()
    });
    if let Some([text, page]) = pages {
        let program = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
        write(&text, &papers.to_markdown())?;
        write(&page, &papers.to_html(program).map_err(Failure::failed)?)?;
    }
    printed?;
    failed(&failures)
}

/// Experiments that ended with an error. Their rows say so, too.
fn failed(failures: &[String]) -> Result<(), Failure> {
    if failures.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!("not all could be run:\n  {}", failures.join("\n  "))))
}

fn one(paper: &'static Paper, options: &Options) -> Result<(), Failure> {
    let plan = plan(paper, options, ROUNDS)?;
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
    let files = options.output.as_deref().map(|folder| files(folder, paper.name)).transpose()?;
    begin(&plan.place)?;
    let measured = paper::measure(&plan, &mut Terminal::new()).map_err(Failure::failed)?;
    let failures = measured.failures.clone();
    let report = PaperReport::new(&plan, measured);
    let markdown = report.to_markdown();
    let json = report.to_json().map_err(Failure::failed)?;
    let printed = output::print(if options.json { &json } else { &markdown });
    if let Some([text, object]) = files {
        write(&text, &markdown)?;
        write(&object, &json)?;
    }
    printed?;
    failed(&failures)
}

/// Those that were asked for. A whole run takes them by itself where they can be had.
fn guests(options: &Options) -> Result<Option<Guests>, Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let is_whole = options.only.is_none() && options.dir.is_none() && !options.short;
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
fn files(folder: &Path, name: &str) -> Result<[PathBuf; 2], Failure> {
    writable(folder, ["md", "json"].map(|ending| format!("{name}.{ending}")))
}

/// The pages of all papers.
fn pages(folder: &Path) -> Result<[PathBuf; 2], Failure> {
    writable(folder, ["md", "html"].map(|ending| format!("papers.{ending}")))
}

fn writable(folder: &Path, names: [String; 2]) -> Result<[PathBuf; 2], Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::failed(format!(
            "{}: the folder of --output cannot be made: {error}; name another",
            folder.display()
        ))
    })?;
    let files = names.map(|name| folder.join(name));
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
