//! `oneflush mvbt check FILE`: every page, and what it is for.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use clap::Args;
use oneflush_mvbt::{Database, Read, Report};
use oneflush_vfs::shown_name;
use serde_json::json;

use super::error::MvbtError;
use super::storage;
use super::text::grouped;
use crate::failure::Failure;
use crate::output;
use crate::watch::Watch;

const EXAMPLES: &str = "Examples:
  oneflush mvbt check app.mvbt          a table, and the faults that were found
  oneflush mvbt check app.mvbt --json   the same as one JSON object

Nothing is changed, and what a crash has left is not recovered: the state that
the next opening would find is what is checked. Programs may use the database
meanwhile: they read, and wait to write. Pages that are lost belong to nobody
since a crash, or another program has them at hand. They are no fault.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn main(options: &Options) -> Result<(), Failure> {
    let name = shown_name(&options.file).to_string();
    let failed = |source| Failure::failed(MvbtError::of(&name, source));
    let database = storage::database(&options.file).map_err(Failure::failed)?;
    let report = watched(&options.file, &database).map_err(failed)?;
    let text = match options.json {
        true => format!("{}\n", as_json(&name, &database, &report)),
        false => table(&name, &database, &report),
    };
    output::print(&text)?;
    match report.faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(MvbtError::Faults { name })),
    }
}

/// The check, with a line on stderr while it takes long.
fn watched(path: &Path, database: &Database) -> oneflush_mvbt::Result<Report> {
    let pages = database.begin_read().and_then(|reader| reader.page_count()).unwrap_or(0);
    let share = || Some((database.counters().reads.load(Relaxed), pages));
    Watch::new(path).during("reading its pages", None, share, || database.check(None))
}

fn as_json(name: &str, database: &Database, report: &Report) -> serde_json::Value {
    json!({
        "file": name,
        "page_bytes": database.page_bytes(),
        "version": database.data_version().0,
        "pages": report.pages,
        "tree_pages": report.tree_pages,
        "overflow_pages": report.overflow_pages,
        "history_pages": report.history_pages,
        "free_pages": report.free_pages,
        "lost_pages": report.lost.len(),
        "cells": report.cells,
        "faults": report.faults,
    })
}

fn table(name: &str, database: &Database, report: &Report) -> String {
    let lost = report.lost.len() as u64;
    let rows = [
        ("version", grouped(database.data_version().0), ""),
        ("pages", grouped(report.pages), ""),
        ("  of trees", grouped(report.tree_pages), ""),
        ("  of long payloads", grouped(report.overflow_pages), ""),
        ("  of older versions", grouped(report.history_pages), ""),
        ("  free", grouped(report.free_pages), ""),
        ("  lost", grouped(lost), if lost > 0 { "  no fault" } else { "" }),
        ("cells", grouped(report.cells), ""),
        ("faults", grouped(report.faults.len() as u64), ""),
    ];
    let mut text = format!("{name}: pages of {} bytes\n", grouped(database.page_bytes() as u64));
    for (label, value, note) in rows {
        text += &format!("  {label:20}{value:>16}{note}\n");
    }
    for fault in &report.faults {
        text += &format!("  {fault}\n");
    }
    text
}
