//! `oneflush probe DIR`.

use std::path::PathBuf;

use clap::Args;
use oneflush_bench::{interrupt, probe};

use crate::{Failure, output};

const EXAMPLES: &str = "Examples:
  oneflush probe .
  oneflush probe /mnt/data --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// An existing, writable directory on the file system to look at
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn main(options: &Options) -> Result<(), Failure> {
    interrupt::install().map_err(Failure::failed)?;
    let probe = probe::probe(&options.dir).map_err(Failure::failed)?;
    if options.json {
        output::print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&probe).map_err(Failure::failed)?
        ))
    } else {
        output::print(&probe.to_string())
    }
}
