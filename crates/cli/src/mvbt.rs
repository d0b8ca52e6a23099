//! `oneflush mvbt`: databases of the engine `mvbt`, looked at from outside.

mod check;
mod dump;
pub mod error;
mod history;
pub mod names;
pub mod storage;
mod text;

use clap::{Args, Subcommand};

use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  oneflush mvbt check app.mvbt     looks at every page
  oneflush mvbt dump app.mvbt      anchors, commit blocks and trees, readable
  oneflush mvbt history app.mvbt   which versions can be read, and their times

Nothing is changed. These are files of the crate oneflush-mvbt. A database in
SQL of the engine lsmvbt is one of them; one of SQLite's own engine is not.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look at every page of a database: whether it is whole, and what it is for
    Check(check::Options),
    /// Show what a file holds: anchors, commit blocks, trees, one tree's rows, or one page
    Dump(dump::Options),
    /// Show which versions of a database can be read, and of which times they are
    History(history::Options),
}

pub fn main(options: &Options) -> Result<(), Failure> {
    match &options.command {
        Command::Check(options) => check::main(options),
        Command::Dump(options) => dump::main(options),
        Command::History(options) => history::main(options),
    }
}
