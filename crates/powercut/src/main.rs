//! `powercut`: cuts the power of a guest, as often as its recorded disk allows.
//!
//! ```text
//! guest:  work ─ SQLite ─ Oneflush ─ ext4, … ─ disk ─▶ log of QEMU
//!           └─ notes of commits ────────────────┘          │
//! host:   judge ◀ SQLite ◀ Oneflush ◀ mount ◀ states of the disk
//! ```
//!
//! The states are the crash simulator's (`oneflush-crashlab`), of a disk in place of files. So are
//! the workloads and the model of what each database may hold. What differs is the file system: it
//! is the kernel's own. `guest/power-cut` runs both halves.

mod directory;
mod examine;
mod files;
mod forced;
mod judge;
mod layout;
mod mounted;
mod notes;
mod place;
mod processes;
mod states;
mod work;
mod write_log;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use oneflush_bench::guest::GuestFs;
use oneflush_crashlab::{Journal, Setting, Synchronous, Workload};
use oneflush_measure::{interrupt, place as scratch};

use layout::Layout;

#[derive(Parser)]
#[command(about = "Cuts the power of a guest, as often as its recorded disk allows")]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// In the guest: run workloads on a file system, and note their commits
    Work(Work),
    /// One of several processes of `work`
    #[command(hide = true)]
    Process { task: String },
    /// One of the processes with plain files of `work`
    #[command(hide = true)]
    FileProcess { task: String },
    /// On the host: write the partition of one state, for a guest that goes on with it
    Cut(Cut),
    /// In the guest: open what a cut has left, and commit more
    GoOn(GoOn),
    /// On the host: mount states that losses of power can have left, and judge them
    Judge(Judge),
}

#[derive(Args)]
struct Work {
    /// Where the databases are made: on the file system whose disk is recorded
    #[arg(long, value_name = "DIR", default_value = place::MOUNT_POINT)]
    dir: PathBuf,

    /// The partition for the notes, on the same disk
    #[arg(long, value_name = "DEVICE")]
    notes: PathBuf,

    /// A strategy of Oneflush, or `sqlite` for SQLite alone
    #[arg(long, value_name = "NAME")]
    strategy: String,

    /// SQLite's journal mode [default: wal; for maw one of the rollback modes]
    #[arg(long, value_name = "MODE", value_parser = journals())]
    journal: Option<String>,

    /// PRAGMA synchronous; its commits must survive [default: the least that promises it]
    #[arg(long, value_name = "LEVEL", value_parser = levels())]
    synchronous: Option<String>,

    /// More URI parameters for the strategy, as in `atomic=log`
    #[arg(long, value_name = "NAME=VALUE", default_value = "")]
    uri: String,

    /// Only this workload; may be given several times [default: all that fit]
    #[arg(long, value_name = "NAME")]
    workload: Vec<Workload>,

    /// What everything is drawn from
    #[arg(long, value_name = "K", default_value_t = 1)]
    seed: u64,

    /// So often each workload runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: usize,

    /// Processes with plain files beside the databases. What they ask for only a directory that is
    /// mounted by `oneflush mount` promises
    #[arg(long)]
    files: bool,
}

#[derive(Args)]
struct Cut {
    #[command(flatten)]
    recorded: Recorded,

    /// Which of the drawn states
    #[arg(long, value_name = "N")]
    state: usize,

    /// The file for its partition
    #[arg(long, value_name = "FILE")]
    image: PathBuf,

    /// The file for the notes up to the cut
    #[arg(long, value_name = "FILE")]
    notes: PathBuf,
}

#[derive(Args)]
struct GoOn {
    /// Where the databases are
    #[arg(long, value_name = "DIR", default_value = place::MOUNT_POINT)]
    dir: PathBuf,

    /// The partition for the notes, on the same disk
    #[arg(long, value_name = "DEVICE")]
    notes: PathBuf,

    /// The notes up to the cut
    #[arg(long, value_name = "FILE")]
    before: PathBuf,
}

#[derive(Args)]
struct Judge {
    #[command(flatten)]
    recorded: Recorded,

    /// In a guest: the device that the states are written to [default: loop devices]
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,

    /// The guest had mounted /mnt/lower at /mnt/at by `oneflush mount`. Each state is recovered by
    /// `oneflush mount` and `oneflush recover --fs` in turn
    #[arg(long)]
    mounted: bool,

    /// Leaves the log of `oneflush mount` alone: states must lose something
    #[arg(long, requires = "mounted")]
    unrecovered: bool,

    /// Keeps the partitions of states that are wrong in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// The result as one JSON object
    #[arg(long)]
    json: bool,
}

/// What a guest has left, and which states are drawn from it.
#[derive(Args)]
struct Recorded {
    /// The log of QEMU's driver blklogwrites
    #[arg(long, value_name = "FILE")]
    log: PathBuf,

    /// The guest's trace of block_rq_issue: it says which writes were forced (FUA)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// The file system before the guest began
    #[arg(long, value_name = "FILE")]
    base: PathBuf,

    /// The size of that file system
    #[arg(long, value_name = "MIB")]
    layout: Layout,

    /// Its kind
    #[arg(long, value_name = "NAME")]
    fs: GuestFs,

    /// The notes up to the cut that the guest went on with
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,

    /// So many states are examined
    #[arg(long, value_name = "N", default_value_t = 200)]
    states: usize,

    /// What the states are drawn from
    #[arg(long, value_name = "K", default_value_t = 1)]
    seed: u64,
}

impl Recorded {
    fn plan(self) -> examine::Plan {
        examine::Plan {
            log: self.log,
            trace: self.trace,
            base: self.base,
            layout: self.layout,
            fs: self.fs,
            device: None,
            states: self.states,
            seed: self.seed,
            mounted: None,
            before: self.before,
            keep: None,
        }
    }
}

fn journals() -> PossibleValuesParser {
    PossibleValuesParser::new(Journal::ALL.map(Journal::name))
}

fn levels() -> PossibleValuesParser {
    PossibleValuesParser::new(Synchronous::ALL.map(Synchronous::name))
}

fn main() -> ExitCode {
    let result = match Command::parse().what {
        What::Work(options) => work(options).map(|()| true),
        What::Process { task } => process(&task).map(|()| true),
        What::FileProcess { task } => files::work(&task).map(|()| true),
        What::Cut(options) => cut(options).map(|()| true),
        What::GoOn(options) => go_on(options).map(|()| true),
        What::Judge(options) => judge(options),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("powercut: {message}");
            ExitCode::from(2)
        }
    }
}

fn work(options: Work) -> Result<(), String> {
    oneflush_vfs::register().map_err(|error| error.to_string())?;
    let journal = match &options.journal {
        Some(name) => named(Journal::ALL, Journal::name, name),
        None => Journal::of(&options.strategy),
    };
    // A crash of an earlier life is what the cuts are. Deaths are not played here.
    let fit = |workload: &Workload| !matches!(workload, Workload::Crashed | Workload::Deaths);
    let all: Vec<Workload> = Workload::ALL.into_iter().filter(fit).collect();
    let workloads = if options.workload.is_empty() { all } else { options.workload };
    let mut setting = Setting::new(&options.strategy, journal).with_uri(&options.uri);
    if let Some(level) = &options.synchronous {
        setting.synchronous = named(Synchronous::ALL, Synchronous::name, level);
    }
    work::run(&work::Plan {
        directory: options.dir,
        notes: options.notes,
        setting,
        workloads,
        seed: options.seed,
        rounds: options.rounds,
        has_files: options.files,
    })
}

fn process(task: &str) -> Result<(), String> {
    oneflush_vfs::register().map_err(|error| error.to_string())?;
    processes::work(task)
}

fn cut(options: Cut) -> Result<(), String> {
    examine::cut(&options.recorded.plan(), options.state, &options.image, &options.notes)
}

fn go_on(options: GoOn) -> Result<(), String> {
    oneflush_vfs::register().map_err(|error| error.to_string())?;
    let before = std::fs::read_to_string(&options.before)
        .map_err(|error| format!("{}: {error}", options.before.display()))?;
    work::go_on(&options.dir, &options.notes, &notes::parse_lines(&before)?)
}

/// The value of this name, which clap has let through.
fn named<T: Copy, const N: usize>(all: [T; N], name: fn(T) -> &'static str, wanted: &str) -> T {
    all.into_iter().find(|value| name(*value) == wanted).unwrap_or(all[0])
}

/// True if nothing was wrong.
fn judge(options: Judge) -> Result<bool, String> {
    oneflush_vfs::register().map_err(|error| error.to_string())?;
    scratch::enter_private_namespace().map_err(|error| error.to_string())?;
    interrupt::install().map_err(|error| error.to_string())?;
    let mounted = match (options.mounted, options.unrecovered) {
        (false, _) => None,
        (true, false) => Some(mounted::Recovery::InTurn),
        (true, true) => Some(mounted::Recovery::None),
    };
    let plan = examine::Plan {
        device: options.device,
        mounted,
        keep: options.keep,
        ..options.recorded.plan()
    };
    let mut told = Duration::ZERO;
    let report = examine::examine(&plan, |done, elapsed| {
        if elapsed - told >= TELL_EVERY {
            told = elapsed;
            let end = if std::io::stderr().is_terminal() { '\r' } else { '\n' };
            eprint!("powercut: {done} of {} states in {} s{end}", plan.states, elapsed.as_secs());
        }
    })?;
    if options.json {
        println!("{}", serde_json::to_string(&report).map_err(|error| error.to_string())?);
    } else {
        print(&report);
    }
    Ok(report.violations.is_empty() && !report.interrupted)
}

const TELL_EVERY: Duration = Duration::from_secs(5);

fn print(report: &examine::Report) {
    println!("{:<16} {:>8} {:>12}", "", "states", "not mounted");
    let total = report.total();
    let rows = report.states.iter().map(|(name, counts)| (*name, *counts));
    for (name, counts) in rows.chain([("all", total)]) {
        println!("{name:<16} {:>8} {:>12}", counts.examined, counts.not_mounted);
    }
    println!(
        "of {} writes and flushes, with {} notes; {:.0} s",
        report.writes_and_flushes, report.notes, report.seconds
    );
    for violation in &report.violations {
        println!(
            "VIOLATION in state {}, after operation {}, {} in flight, {}: {}",
            violation.state,
            violation.after,
            violation.in_flight,
            violation.kind,
            violation.message
        );
    }
    match report.violations.len() {
        0 if report.interrupted => println!("interrupted"),
        0 => println!("no violation"),
        count => println!("{count} violations"),
    }
}
