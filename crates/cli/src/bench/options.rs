//! The options of `oneflush bench`, and what their words mean.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use oneflush_measure::place::{FlashKind, FsKind};
use oneflush_measure::run::FLOOR_WRITES;
use oneflush_measure::workload::Workload;

use super::asked::Asked;
use super::guest::{GuestArch, GuestFs};
use crate::size;

/// Options that a paper's experiments leave no room for.
const OF_NO_PAPER: [&str; 19] = [
    "modes",
    "workload",
    "beside_writer",
    "in_turns",
    "hold",
    "sql",
    "serial",
    "replay",
    "think",
    "connections",
    "workers",
    "rate",
    "busy",
    "floor_writes",
    "mobibench",
    "keep_trace",
    "plot",
    "plot_latency",
    "format",
];

/// Options that say what to measure.
const MEASURING: [&str; 36] = [
    "paper",
    "only",
    "short",
    "inputs",
    "output",
    "guest",
    "guest_arch",
    "dir",
    "fs",
    "device",
    "size",
    "modes",
    "workload",
    "beside_writer",
    "in_turns",
    "hold",
    "sql",
    "serial",
    "replay",
    "think",
    "txns",
    "rounds",
    "connections",
    "workers",
    "rate",
    "busy",
    "floor_writes",
    "mobibench",
    "operation",
    "journal",
    "synchronous",
    "tables",
    "databases",
    "interval_ms",
    "random_insert",
    "keep_trace",
];

const EXAMPLES: &str = "A mode is JOURNAL[:SYNC][:STRATEGY][:mounted][+OPTION=VALUE…]:
  JOURNAL   delete, truncate, persist, wal (steady state), wal-growing, memory,
            off
  SYNC      off, normal, full (default), extra
  STRATEGY  sqlite (without our VFS), stock (default: our VFS, which changes
            nothing), plain (SQLite's own WAL, with shared flushes), eager (our
            log: one write and one flush), waldio (WAL in slots), maw (for delete,
            truncate and persist: no journal)
  mounted   in a mount of `oneflush mount` on the same file system
  OPTION    of the strategy, as in a URI: plain+prealloc=65536+keep_wal=off
lsmvbt is a mode without SYNC and STRATEGY. The modes of append, overwrite,
stream and cached-read are files and files:mounted.

Examples:
  sudo oneflush bench                                 all modes, scratch ext4
  sudo oneflush bench --fs xfs --modes wal,delete     another file system
  oneflush bench --dir /mnt/data --modes wal          a directory, without root
  sudo oneflush bench --modes wal:sqlite,wal:stock    what the VFS costs
  sudo oneflush bench --modes wal,wal:plain -t 1,16   one writer, and 16
  sudo oneflush bench --modes wal:plain,wal:plain+prealloc=0    an option
  sudo oneflush bench --connections 8 --as processes  the same as processes
  sudo oneflush bench --busy 2 --modes wal,wal:plain -t 16    on a busy machine
  sudo oneflush bench --workload reopen --modes wal   open, 3 commits, close
  sudo oneflush bench --workload point --beside-writer --modes wal:sqlite,wal
  sudo oneflush bench --workload point --in-turns --modes wal:sqlite,wal:plain
  sudo oneflush bench --in-turns --modes wal,wal:eager    medians, to the floor
  sudo oneflush bench --workload long-reader -t 15 --modes wal
  sudo oneflush bench --sql recording/ --modes wal    SQL of an application
  sudo oneflush bench --plot result.svg --json > result.json
  oneflush bench --from result.json --plot result.png    the same run, again
  sudo oneflush bench --modes wal -n 100000 --plot-latency checkpoints.svg
  sudo oneflush bench --keep-trace t.zst && oneflush report t.zst
  sudo oneflush bench --modes persist,persist:maw     commits without a journal
  sudo oneflush bench --workload attached=5 --modes delete,delete:maw
  sudo oneflush bench --modes delete,delete:mounted    through oneflush mount
  sudo oneflush bench --workload append -t 16         files without SQLite
  sudo oneflush bench --replay app.mobigen            files of an application
  sudo oneflush bench --guest f2fs,ext4 --modes delete    another kernel, F2FS
  sudo oneflush bench --paper waldio -o results/      a paper's figures, again
  sudo oneflush bench --paper lsmvbt --only goal      a part of them
  sudo oneflush bench --paper all -o results/         all papers, on one page
  sudo oneflush bench --device emmc --modes wal,wal:eager    on emulated flash
  oneflush bench --device list                        what is emulated
  oneflush bench --dir . --mobibench -d 0 -j 3 -s 2 -n 1000 --format mobibench";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Work in this directory (no root needed); default: --fs ext4 as root, else a temporary
    /// directory
    #[arg(long, value_name = "DIR", help_heading = "Where")]
    pub(super) dir: Option<PathBuf>,
    /// Work on a scratch file system on a loop device: ext4, ext4-fast-commit, xfs or btrfs (needs
    /// root)
    #[arg(long, value_name = "FS", conflicts_with = "dir", help_heading = "Where")]
    pub(super) fs: Option<FsKind>,
    /// Size of the scratch file system, a sparse file; default: 1G, long-reader (whose WAL grows):
    /// 8G, --paper lsmvbt: 6G
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = size::parse,
        conflicts_with = "dir",
        help_heading = "Where"
    )]
    pub(super) size: Option<u64>,
    /// Work on an emulated flash device: emmc, ufs, sd or nvme, in use, or new with :new behind it
    /// (needs root); it reports erases, write amplification and days of life; list: what is known
    /// of them, with sources
    #[arg(long, value_name = "DEVICE", conflicts_with = "dir", help_heading = "Where")]
    pub(super) device: Option<Device>,
    /// In a guest under QEMU, one for each of these file systems, all with the same kernel: f2fs,
    /// ext4, xfs or btrfs. Its bytes and flushes count, its times do not. Needs a checkout of
    /// Oneflush. With --paper: for the rows that need one
    #[arg(
        long,
        value_name = "FS,…",
        value_delimiter = ',',
        conflicts_with_all = ["sql", "keep_trace", "plot", "plot_latency"],
        help_heading = "Where"
    )]
    pub(super) guest: Vec<GuestFs>,
    /// With --guest: the processor of the guest, x86_64 (default) or aarch64, which needs
    /// `packages/cross aarch64-linux-gnu` before
    #[arg(long, value_name = "ARCH", conflicts_with = "paper", help_heading = "Where")]
    pub(super) guest_arch: Option<GuestArch>,

    /// Modes to compare, separated by commas
    #[arg(long, value_name = "MODES", help_heading = "What")]
    pub(super) modes: Option<String>,
    /// What is done. A row a transaction: insert, update, delete, mixed. A row without
    /// AUTOINCREMENT: one-page. A row with five random index keys: indexed. A row in each of 5
    /// databases: attached=5. Open, commit three times and close: reopen. Reads: point,
    /// point-in-wal, scan. Inserts while a reader keeps its snapshot: long-reader. Without SQLite,
    /// a file for each connection: 4 KiB and an fsync, append or overwrite; 256 KiB and an fsync,
    /// synced-stream; 256 KiB and none, stream or cached-read; from the device, 256 KiB in order,
    /// cold-read, or 4 KiB in random order, cold-read-random
    #[arg(long, value_name = "KIND", default_value = "insert", help_heading = "What")]
    pub(super) workload: Workload,
    /// With point and scan: one more connection commits all the time, or so many times a second
    #[arg(
        long,
        value_name = "N",
        value_parser = rate,
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["sql", "mobibench"],
        help_heading = "What"
    )]
    pub(super) beside_writer: Option<Option<f64>>,
    /// All modes, and for commits the floor, in turns of some milliseconds, so that a noisy machine
    /// hits all alike: their medians compare; one connection
    #[arg(
        long,
        conflicts_with_all = ["sql", "mobibench", "rate", "keep_trace"],
        help_heading = "What"
    )]
    pub(super) in_turns: bool,
    /// With long-reader: how long it keeps its snapshot; before and after, the writers have a third
    /// of that time
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = seconds,
        conflicts_with_all = ["sql", "mobibench"],
        help_heading = "What"
    )]
    pub(super) hold: Option<Duration>,
    /// Replay DIR/loading.sql, then DIR/0.sql, DIR/1.sql, … at the same time, one connection each
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["workload", "mobibench", "txns", "connections"],
        help_heading = "What"
    )]
    pub(super) sql: Option<PathBuf>,
    /// With --sql: one file after the other on one connection, so that the final contents are
    /// always the same
    #[arg(long, help_heading = "What")]
    pub(super) serial: bool,
    /// Replay the file operations of an application, without SQLite: a file with lines `thread
    /// microseconds operation arguments`, as Mobigen writes them; each thread of the recording is
    /// one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workload", "sql", "mobibench", "txns", "connections", "in_turns"],
        help_heading = "What"
    )]
    pub(super) replay: Option<PathBuf>,
    /// With --replay: the recorded time between operations, times this; 0: none of it
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = 0.0,
        value_parser = factor,
        help_heading = "What"
    )]
    pub(super) think: f64,
    /// Transactions of all connections together in each measurement; default: 2000, wal-growing
    /// 1000, point 300000, scan 60, stream and cached-read 1024 (256 MiB)
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "What"
    )]
    pub(super) txns: Option<u64>,
    /// Rounds; every mode runs in every round, and medians are reported; default: 5, or as many as
    /// a minute has time for
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "What"
    )]
    pub(super) rounds: Option<u32>,
    /// Connections that work at the same time, or several numbers: every mode runs with each
    #[arg(
        short = 't',
        long,
        visible_alias = "writers",
        value_name = "N,…",
        default_value = "1",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1000),
        help_heading = "What"
    )]
    pub(super) connections: Vec<u32>,
    /// What a connection is
    #[arg(long = "as", value_name = "KIND", default_value = "threads", help_heading = "What")]
    pub(super) workers: WorkerKind,
    /// Transactions a second of all connections together; default: as many as possible
    #[arg(long, value_name = "N", value_parser = rate, help_heading = "What")]
    pub(super) rate: Option<f64>,
    /// So many busy loops take processor time beside the writers, each a process, as on a machine
    /// with other work
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=256),
        help_heading = "What"
    )]
    pub(super) busy: u32,
    /// Overwrites of one block before each measurement, for the floor; with as many as there are
    /// transactions, its longest compares
    #[arg(
        long,
        value_name = "N",
        default_value_t = FLOOR_WRITES,
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "What"
    )]
    pub(super) floor_writes: u32,

    /// Repeat the tables and figures of a paper, theirs beside ours, with a verdict for each claim:
    /// lsmvbt, eager, io, waldio or maw; all: each of them, and one page of all claims. Only where,
    /// --txns and --rounds can be chosen; default: their numbers, 3 rounds (all: 1 round, some 25
    /// minutes)
    #[arg(
        long,
        value_name = "PAPER",
        conflicts_with_all = OF_NO_PAPER,
        help_heading = "What"
    )]
    pub(super) paper: Option<Asked>,
    /// With --paper: only the tables and figures whose name has this, such as "Fig. 13"
    #[arg(long, value_name = "NAME", requires = "paper", help_heading = "What")]
    pub(super) only: Option<String>,
    /// With --paper: a short form, all papers in some minutes: 20 operations an experiment, one
    /// round, no guests and no large tables
    #[arg(long, requires = "paper", help_heading = "What")]
    pub(super) short: bool,
    /// With --paper: recordings of others, as far as you have some: DIR/mobigen/NAME.mobigen (file
    /// operations), DIR/sql/NAME (statements), DIR/traces/NAME (block I/O)
    #[arg(long, value_name = "DIR", requires = "paper", help_heading = "What")]
    pub(super) inputs: Option<PathBuf>,

    /// Mobibench's database mode: own databases for each thread, one statement a table and
    /// transaction
    #[arg(long, conflicts_with = "workload", help_heading = "Mobibench")]
    pub(super) mobibench: bool,
    /// 0 insert, 1 update, 2 delete
    #[arg(
        short = 'd',
        value_name = "0..2",
        default_value_t = 0,
        requires = "mobibench",
        value_parser = clap::value_parser!(u8).range(0..=2),
        help_heading = "Mobibench"
    )]
    pub(super) operation: u8,
    /// Journal: 0 DELETE, 1 TRUNCATE, 2 PERSIST, 3 WAL, 4 MEMORY, 5 OFF
    #[arg(
        short = 'j',
        value_name = "0..5",
        default_value_t = 1,
        requires = "mobibench",
        conflicts_with = "modes",
        value_parser = clap::value_parser!(u8).range(0..=5),
        help_heading = "Mobibench"
    )]
    pub(super) journal: u8,
    /// Synchronous: 0 OFF, 1 NORMAL, 2 FULL
    #[arg(
        short = 's',
        value_name = "0..2",
        default_value_t = 2,
        requires = "mobibench",
        conflicts_with = "modes",
        value_parser = clap::value_parser!(u8).range(0..=2),
        help_heading = "Mobibench"
    )]
    pub(super) synchronous: u8,
    /// Tables of each database
    #[arg(
        short = 'T',
        value_name = "1..20",
        default_value_t = 3,
        requires = "mobibench",
        value_parser = clap::value_parser!(u32).range(1..=20),
        help_heading = "Mobibench"
    )]
    pub(super) tables: u32,
    /// Databases of each thread; SQLite attaches at most 10 to one connection
    #[arg(
        short = 'D',
        value_name = "1..11",
        default_value_t = 1,
        requires = "mobibench",
        value_parser = clap::value_parser!(u32).range(1..=11),
        help_heading = "Mobibench"
    )]
    pub(super) databases: u32,
    /// Milliseconds between transactions
    #[arg(
        short = 'i',
        value_name = "MS",
        default_value_t = 0,
        requires = "mobibench",
        value_parser = clap::value_parser!(u64).range(0..=10_000),
        help_heading = "Mobibench"
    )]
    pub(super) interval_ms: u64,
    /// Insert in random order of ids; a value is accepted and ignored, as in Mobibench
    #[arg(
        short = 'R',
        value_name = "ANY",
        requires = "mobibench",
        num_args = 0..=1,
        default_missing_value = "1",
        help_heading = "Mobibench"
    )]
    pub(super) random_insert: Option<String>,

    /// Measure nothing: tell and draw what --json of an earlier run wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = MEASURING, help_heading = "Output")]
    pub(super) from: Option<PathBuf>,
    /// Form of the text on stdout
    #[arg(long, value_name = "FORM", default_value = "table", help_heading = "Output")]
    pub(super) format: Format,
    /// Print one JSON object: all figures, rounds and histograms
    #[arg(long, group = "form", conflicts_with = "format", help_heading = "Output")]
    pub(super) json: bool,
    /// Print CSV: one line a mode and round
    #[arg(
        long,
        group = "form",
        conflicts_with_all = ["format", "paper"],
        help_heading = "Output"
    )]
    pub(super) csv: bool,
    /// Print Markdown
    #[arg(
        long,
        group = "form",
        conflicts_with_all = ["format", "paper"],
        help_heading = "Output"
    )]
    pub(super) markdown: bool,
    /// With --paper: also write DIR/PAPER.md and DIR/PAPER.json; with all, DIR/papers.md and
    /// DIR/papers.html, too
    #[arg(short = 'o', long, value_name = "DIR", requires = "paper", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Draw commits a second, KB a commit by class, and times of commits; the name ends in .svg or
    /// .png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) plot: Option<PathBuf>,
    /// Draw every mode's latencies over time, checkpoints as spikes, on one time axis; the name
    /// ends in .svg or .png
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) plot_latency: Option<PathBuf>,
    /// Keep a recording of all that reaches the device, for identify and report (needs root;
    /// commits take a few percent longer)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) keep_trace: Option<PathBuf>,
}

/// The value of `--device`.
#[derive(Clone, Copy)]
pub(super) enum Device {
    List,
    Flash(FlashKind),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(word: &str) -> Result<Device, String> {
        match word {
            "list" => Ok(Device::List),
            other => other.parse().map(Device::Flash).map_err(|error| format!("{error}, or list")),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WorkerKind {
    Threads,
    Processes,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    /// A line a mode: commits/s, KB, the longest commit
    Brief,
    /// The line with times and transactions a second that Mobibench prints
    Mobibench,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let allowed = Duration::from_millis(1)..=Duration::from_secs(3600);
    seconds
        .filter(|seconds| allowed.contains(seconds))
        .ok_or_else(|| "give seconds, from 0.001 to 3600".to_owned())
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.0..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("give a number from 0 to 1000; 1 is the recorded time".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate >= 0.001 && f64::is_finite(rate) => Ok(rate),
        _ => Err("give a number of transactions a second, 0.001 or more".to_owned()),
    }
}
