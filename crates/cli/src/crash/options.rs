//! The options of `oneflush crash`, and which of them an engine has.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, builder::PossibleValuesParser};
use oneflush_crashlab::{Journal, LSMVBT, SQLITE_ALONE, Sabotage, Synchronous};
use oneflush_vfs::StrategyKind;

use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  oneflush crash --strategy stock                 100,000 states, all workloads
  oneflush crash --strategy stock --workload large --states 1000000 --jobs 2
  oneflush crash --strategy sqlite --journal delete --synchronous full
                                                  SQLite alone: it loses commits
  oneflush crash --strategy stock --sabotage no-flush
                                                  a lie that must be caught
  oneflush crash --engine lsmvbt                  SQLite on its second B-tree
  oneflush crash --engine mvbt --states 1000000   that B-tree without SQLite
  oneflush crash --engine eagerfs                 oneflush mount, over a model of
                                                  a directory
  oneflush crash --replay crash-one-12ab.json     one failing case alone

A violation is said with the way to repeat it. Ctrl-C ends the run and says what
it has examined.";

pub const SQLITE: &str = "sqlite";
pub const MVBT: &str = "mvbt";
pub const EAGERFS: &str = "eagerfs";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// A strategy of Oneflush, or `sqlite` for SQLite alone
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = strategy)]
    pub(super) strategy: String,

    /// What runs on the disk: SQLite, SQLite on its second B-tree, that one alone, or a directory
    /// that is mounted
    #[arg(long, value_name = "NAME", default_value = SQLITE,
          value_parser = PossibleValuesParser::new([SQLITE, LSMVBT, MVBT, EAGERFS]))]
    pub(super) engine: String,

    /// Only this workload; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) workload: Vec<String>,

    /// Crash states to examine, in equal parts for the workloads
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(super) states: u64,

    /// Runs of the fault matrix for each workload [default: one for 250 states; 0: none]
    #[arg(long, value_name = "N")]
    pub(super) faults: Option<u64>,

    /// What everything is drawn from
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(super) seed: u64,

    /// Threads
    #[arg(
        long,
        value_name = "J",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    pub(super) jobs: u16,

    /// SQLite's journal mode; `rollback`: one of the rollback modes by seed [default: rollback for
    /// maw, wal for the others]
    #[arg(
        long,
        value_name = "MODE",
        value_parser = PossibleValuesParser::new(Journal::ALL.map(Journal::name))
    )]
    pub(super) journal: Option<String>,

    /// PRAGMA synchronous; its commits must survive [default: full for wal, normal for maw, extra
    /// for the other rollback modes]
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = PossibleValuesParser::new(Synchronous::ALL.map(Synchronous::name))
    )]
    pub(super) synchronous: Option<String>,

    /// More URI parameters for the strategy, as in `group_commit=off`
    #[arg(long, value_name = "NAME=VALUE")]
    pub(super) uri: Vec<String>,

    /// Lie between strategy and disk; the simulator must notice
    #[arg(long, value_name = "LIE", default_value = "none",
          value_parser = PossibleValuesParser::new(Sabotage::ALL.map(Sabotage::name)))]
    pub(super) sabotage: String,

    /// The directory, which must exist, for the file of a failing case
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) out: PathBuf,

    /// Run the failing case in this file alone
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "states", "seed", "strategy", "engine"]
    )]
    pub(super) replay: Option<PathBuf>,

    /// The result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

fn strategy(word: &str) -> Result<String, String> {
    if word == SQLITE_ALONE {
        return Ok(word.to_owned());
    }
    let known = word
        .parse::<StrategyKind>()
        .map_err(|error| format!("{error}; or {SQLITE_ALONE}, for SQLite alone"));
    known.map(|_| word.to_ascii_lowercase())
}

/// The workloads of an engine: those that are named, or all.
pub fn workloads<W: FromStr<Err = String> + Copy>(
    named: &[String],
    all: &[W],
) -> Result<Vec<W>, Failure> {
    if named.is_empty() {
        return Ok(all.to_vec());
    }
    let of = |word: &String| {
        word.parse().map_err(|error| Failure::usage(format!("--workload: {error}")))
    };
    named.iter().map(of).collect()
}

/// The first option that is given and that an engine does not have. `own`: those that it has.
pub fn foreign(options: &Options, own: &[&str]) -> Option<&'static str> {
    let given = [
        ("--strategy", options.strategy != "auto"),
        ("--workload", !options.workload.is_empty()),
        ("--faults", options.faults.is_some()),
        ("--journal", options.journal.is_some()),
        ("--synchronous", options.synchronous.is_some()),
        ("--uri", !options.uri.is_empty()),
        ("--sabotage", options.sabotage != "none"),
    ];
    let is_foreign = |(name, is_given): &(&str, bool)| *is_given && !own.contains(name);
    given.into_iter().find(is_foreign).map(|(name, _)| name)
}

/// Refuses what means nothing without SQLite. `has` says in words what the engine has.
pub fn refuse_those_of_sqlite(
    options: &Options,
    engine: &str,
    own: &[&str],
    has: &str,
) -> Result<(), Failure> {
    match foreign(options, own) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::usage(format!("{name} is for SQLite; --engine {engine} has {has}")))
        }
    }
}
