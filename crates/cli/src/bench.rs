//! `oneflush bench`: options into a plan, what a run found into a report, and that into the form
//! that was asked for.

#[cfg_attr(not(feature = "laboratory"), path = "left_out/asked.rs")]
mod asked;
mod begin;
#[cfg_attr(not(feature = "laboratory"), path = "left_out/guest.rs")]
pub mod guest;
mod options;
#[cfg_attr(not(feature = "laboratory"), path = "left_out/paper.rs")]
mod paper;
mod plan;

use std::path::PathBuf;

use clap::Args;
use oneflush_bench::report::Report;
use oneflush_bench::report::plot::{Picture, Plot};
use oneflush_measure::place::{FlashKind, PlaceError, flash};
use oneflush_measure::run::{self, Plan, RunError};

use crate::failure::Failure;
use crate::output;
use crate::progress::Terminal;
use begin::begin;
pub use options::Options;
use options::{Device, Format};

/// Of the process that serves an emulated device.
#[derive(Args)]
pub struct Flash {
    mountpoint: PathBuf,
    kind: FlashKind,
    bytes: u64,
    image: PathBuf,
}

pub fn serve_flash(options: &Flash) -> Result<(), Failure> {
    let Flash { mountpoint, kind, bytes, image } = options;
    flash::serve(mountpoint, *kind, *bytes, image).map_err(Failure::failed)
}

pub fn main(options: &Options) -> Result<(), Failure> {
    if matches!(options.device, Some(Device::List)) {
        return output::print(&flash::describe().map_err(Failure::usage)?);
    }
    if let Some(paper) = options.paper {
        return paper::main(paper, options);
    }
    let (report, plots) = match &options.from {
        Some(saved) => {
            let plots = plots(options)?;
            (Report::from_json(saved).map_err(Failure::failed)?, plots)
        }
        None if !options.guest.is_empty() => {
            if options.dir.is_some() || options.fs.is_some() || options.size.is_some() {
                let message = "--guest has its own file systems; leave --dir, --fs and --size out";
                return Err(Failure::usage(message));
            }
            let plan = plan::plan(options)?;
            let report = guest::main(&options.guest, options.guest_arch, plan, options.rounds)?;
            (report, Vec::new())
        }
        None => {
            let plan = plan::plan(options)?;
            let plots = plots(options)?;
            (measure(&plan)?, plots)
        }
    };
    let printed = output::print(&render(options, &report));
    for plot in plots {
        plot.write(&report).map_err(Failure::failed)?;
        eprintln!("plot: {}", plot.path.display());
    }
    printed
}

fn measure(plan: &Plan) -> Result<Report, Failure> {
    begin(&plan.place)?;
    let mut progress = Terminal::new();
    let results = run::run(plan, &mut progress).map_err(failure)?;
    Ok(Report::new(plan, results))
}

/// A place that cannot be made is met before anything is measured.
fn failure(error: RunError) -> Failure {
    use PlaceError::*;
    match error {
        RunError::Place(
            NotRoot { .. }
            | Namespace { .. }
            | TooSmall { .. }
            | NoTool { .. }
            | Backing { .. }
            | Directory { .. },
        ) => Failure::refused(error),
        _ => Failure::failed(error),
    }
}

/// What is wrong with them is said before a run of minutes.
fn plots(options: &Options) -> Result<Vec<Plot>, Failure> {
    let asked = [(Picture::Summary, &options.plot), (Picture::Timelines, &options.plot_latency)];
    let mut plots = Vec::new();
    for (picture, path) in asked {
        if let Some(path) = path {
            let plot = Plot::new(picture, path).map_err(Failure::usage)?;
            plot.check_writable().map_err(Failure::failed)?;
            plots.push(plot);
        }
    }
    Ok(plots)
}

fn render(options: &Options, report: &Report) -> String {
    match options.format {
        _ if options.json => report.to_json(),
        _ if options.csv => report.to_csv(),
        _ if options.markdown => report.to_markdown(),
        Format::Table => report.to_table(),
        Format::Brief => report.to_brief(),
        Format::Mobibench => report.to_mobibench(),
    }
}
