//! The `oneflush` program: one file a command, and nothing here but the choice.
//!
//! What it answers: `exit.rs`, `failure.rs`.

mod advise;
mod bench;
mod check;
mod completions;
mod convert;
mod crash;
mod engine;
mod exit;
mod failure;
mod identify;
mod layout;
#[cfg(not(feature = "laboratory"))]
mod left_out;
mod library;
mod manual;
mod mount;
mod mvbt;
mod output;
mod probe;
mod progress;
mod recover;
mod report;
mod run;
mod shell;
mod size;
mod stats;
mod top;
mod trace;
mod trial;
mod uri;
mod watch;
mod who;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
// Both B-trees, in the place of the library that rusqlite brings.
use oneflush_sqlite as _;

use failure::Failure;

#[derive(Parser)]
#[command(
    name = "oneflush",
    version,
    about = "What SQLite commits cost at the device, and a VFS for the SQLite you already use"
)]
#[command(arg_required_else_help = true, max_term_width = 80)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what each strategy would write for the transactions of traces, and how long the device
    /// lasts
    Advise(advise::Options),
    /// Measure what a commit costs: latency, and bytes, writes and flushes at the device
    Bench(Box<bench::Options>),
    /// Say whether a database is in a safe place, used safely, and whole
    Check(check::Options),
    /// Print what a shell needs to complete the command lines of oneflush
    Completions(completions::Options),
    /// Give a database reserved bytes at the end of each page, or copy it into the other engine
    Convert(convert::Options),
    /// Run SQLite on a simulated disk that loses power at every operation, and check what it
    /// recovers
    Crash(Box<crash::Options>),
    /// Find the SQLite transactions in a trace of block I/O: what each cost, and why
    Identify(identify::Options),
    /// Mount a directory so that every program's syncs are one write and one flush
    Mount(Box<mount::Options>),
    /// Look into databases of the engine mvbt: check them, show what is in them
    Mvbt(mvbt::Options),
    /// Say what a directory's file system and device can do
    Probe(probe::Options),
    /// Leave one plain database file of a database that a strategy with a log was using when it was
    /// interrupted
    Recover(recover::Options),
    /// Say what the transactions of traces cost: tables, findings, a page with charts
    Report(report::Options),
    /// Run an unmodified program with Oneflush as SQLite's default VFS
    Run(run::Options),
    /// The sqlite3 shell, with a database open through Oneflush
    Shell(shell::Options),
    /// Say what the files of a database tell: journal mode, pages, WAL, log, who uses it
    Stats(stats::Options),
    /// Make everything durable that was written through a mount of oneflush
    Sync(mount::Sync),
    /// Show what SQLite does to a block device just now, by database
    Top(top::Options),
    /// Record what reaches a block device, with the file that each write belongs to
    Trace(trace::Options),
    /// Measure what would change for you: your database, copied, on your file system
    #[command(name = "try")]
    Trial(trial::Options),
    /// Unmount what oneflush mount has mounted, and wait until the directory is whole
    Umount(mount::Umount),
    /// Say who has a database open, with SQLite alone or with Oneflush, and what each one holds
    Who(who::Options),
    /// Write man pages to a directory, for packages
    #[command(hide = true)]
    Man(manual::Options),
    /// One connection of `oneflush bench --as processes`
    #[command(name = oneflush_measure::run::process::SUBCOMMAND, hide = true)]
    Worker,
    /// What `oneflush bench --guest` runs in a guest
    #[command(name = bench::guest::SUBCOMMAND, hide = true)]
    Guest(bench::guest::Inside),
    /// The emulated device of `oneflush bench --device`
    #[command(name = "__flash", hide = true)]
    Flash(bench::Flash),
    /// One busy loop of `oneflush bench --busy`
    #[command(name = oneflush_measure::run::busy::SUBCOMMAND, hide = true)]
    Busy { parent: u32 },
}

/// The command line, with all that `--help` says of it.
fn command_line() -> clap::Command {
    exit::with_lines(Cli::command())
}

/// The command line as `--help` shows it: what is hidden has no man page, and is not completed.
fn shown() -> clap::Command {
    let all = command_line();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let program = clap::Command::new(env!("CARGO_PKG_NAME")).version(env!("CARGO_PKG_VERSION"));
    program.about(all.get_about().cloned().unwrap_or_default()).subcommands(shown)
}

fn main() -> ExitCode {
    let parsed = Cli::from_arg_matches(&command_line().get_matches());
    let command = parsed.unwrap_or_else(|error| error.exit()).command;
    // Those that become or start a program leave it to that.
    if !matches!(command, Command::Run(_) | Command::Shell(_) | Command::Trace(_)) {
        engine::forget_variable();
    }
    let outcome = match command {
        Command::Advise(options) => advise::main(&options),
        Command::Bench(options) => bench::main(&options),
        Command::Check(options) => check::main(&options),
        Command::Completions(options) => completions::main(&options, shown()),
        Command::Convert(options) => convert::main(&options),
        Command::Crash(options) => crash::main(&options),
        Command::Identify(options) => identify::main(&options),
        Command::Mount(options) => mount::main(&options),
        Command::Mvbt(options) => mvbt::main(&options),
        Command::Probe(options) => probe::main(&options),
        Command::Recover(options) => recover::main(&options),
        Command::Report(options) => report::main(&options),
        Command::Run(options) => run::main(&options),
        Command::Shell(options) => shell::main(&options),
        Command::Stats(options) => stats::main(&options),
        Command::Sync(options) => mount::sync(&options),
        Command::Top(options) => top::main(&options),
        Command::Trace(options) => match trace::main(&options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Trial(options) => trial::main(&options),
        Command::Umount(options) => mount::umount(&options),
        Command::Who(options) => who::main(&options),
        Command::Man(options) => manual::main(&options, shown()),
        Command::Worker => worker::main(),
        Command::Guest(options) => bench::guest::inside(&options),
        Command::Flash(options) => bench::serve_flash(&options),
        Command::Busy { parent } => {
            oneflush_measure::run::busy::serve(parent);
            Ok(())
        }
    };
    let (error, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(error)) => (error, exit::FAILED),
        Err(Failure::Usage(error)) => (error, exit::USAGE),
        Err(Failure::WithCode(error, code)) => (error, code),
    };
    eprintln!("oneflush: {error}");
    ExitCode::from(code)
}
