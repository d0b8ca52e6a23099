//! Oneflush's multi-version B-tree beside engines of others. It tells what a durable insert costs
//! at the device, how fast rows are read, and how much space they take.
//!
//! ```text
//! engine/ (one file each) ── oneflush_bench::kv ── measure.rs ── report.rs ──▶ markdown
//! ```
//!
//! Every engine commits durably: its sync is on for each transaction. How each is configured stands
//! at the head of its file.

mod engine;
mod measure;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use oneflush_bench::kv::StoreError;
use oneflush_measure::interrupt;
use oneflush_measure::run::PlaceChoice;

/// A durable insert, reads and space: mvbt, SQLite, LMDB, redb, fjall and RocksDB. As root, on a
/// scratch ext4 of its own
#[derive(Parser)]
pub struct Options {
    /// Rows of the tables that are read, and whose space is told
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    rows: u64,
    /// Durable transactions of each engine
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5000)]
    txns: u64,
    /// Rounds of the transactions; medians are told
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Also write it to this file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Of the scratch file system, which is a sparse file.
const PLACE_BYTES: u64 = 16 << 30;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("engines: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), StoreError> {
    interrupt::install()?;
    let place = PlaceChoice::for_this_user(PLACE_BYTES);
    place.prepare()?;
    let text = report::markdown(options, &measure::measure(options, &place)?);
    print!("{text}");
    if let Some(path) = &options.output {
        std::fs::write(path, &text)?;
    }
    Ok(())
}
