//! `oneflush trace`: a recording of what reaches a block device, with the file that each write belongs to.
//!
//! Ends with the program that it started, after `--seconds`, or at Ctrl-C, which ends the recording and not more. What it needs
//! in the kernel goes away however it ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use oneflush_bench::interrupt;
use oneflush_trace::record::{Counts, Recorder, Target};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Failure, run};

const EXAMPLES: &str = "Without --dev or --dir, the device of the current directory is recorded, and
only files below it get names. With CMD the exit code is CMD's own; it finds the
file that keeps notes in the recording in ONEFLUSH_TRACE_MARKER.

Examples:
  sudo oneflush trace -o t.zst -- ./app                    until ./app ends
  sudo oneflush trace -o t.zst --dir /var/lib/app          until Ctrl-C
  sudo oneflush trace -o t.zst --dev sda --seconds 60      a whole device
  sudo oneflush trace -o t.zst --dir . --pid $(pidof app)  only this process
  oneflush trace --vfs -o t.txt -- ./app                   no root: files' calls
  oneflush identify t.zst                                  its transactions
  zstdcat t.zst | less                                     it is text";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write the recording to this file: ftrace's text, compressed with zstd
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Record this block device; where it is mounted, all its files get names
    #[arg(long, value_name = "DEV", conflicts_with = "dir")]
    dev: Option<PathBuf>,
    /// Record the device that this directory is on; files below the directory get names
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Only what this process does, what it starts, and the journal of the file system
    #[arg(long, value_name = "P", conflicts_with = "command")]
    pid: Option<u32>,
    /// End after so many seconds
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Record which thread runs, too
    #[arg(long)]
    sched: bool,
    /// Record calls that read, write and synchronize files, too, of all processes
    #[arg(long)]
    syscalls: bool,
    /// Without root: what CMD asks of its databases' files, by Oneflush's VFS (strategy stock); no device
    #[arg(long, requires = "command", conflicts_with_all = ["dev", "dir", "pid", "seconds", "sched", "syscalls"])]
    vfs: bool,
    /// Run this program and record until it ends
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; give seconds above 0, such as 60 or 0.5");
    let seconds = text.parse::<f64>().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

/// How long to wait for events before what is there is written.
const TURN: Duration = Duration::from_millis(100);
/// The same while a program runs, whose end should not be noticed late.
const TURN_BESIDE: Duration = Duration::from_millis(20);
/// So long a program may go on after Ctrl-C.
const END_MAX: Duration = Duration::from_secs(10);
/// Work that is done sooner shows no progress.
const QUIET: Duration = Duration::from_secs(2);

pub fn main(options: &Options) -> Result<ExitCode, Failure> {
    if options.vfs {
        return by_vfs(options);
    }
    let target = match (&options.dev, &options.dir) {
        (Some(device), _) => Target::of_device(device),
        (None, Some(dir)) => Target::of_directory(dir),
        (None, None) => Target::of_directory(".".as_ref()),
    };
    let target = target.map_err(Failure::usage)?;
    let described = target.describe();
    interrupt::install().map_err(Failure::failed)?;
    let unwritable = |error: io::Error| format!("{}: cannot be written: {error}", options.output.display());
    let out = File::create(&options.output).map_err(|error| Failure::failed(unwritable(error)))?;
    let recording = oneflush_trace::record::Options {
        target,
        process: options.pid,
        sched: options.sched,
        syscalls: options.syscalls,
    };
    let recorder = match Recorder::start(recording, out) {
        Ok(recorder) => recorder,
        Err(error) => {
            // Nothing was recorded: no empty file is left that looks like a recording.
            let _ = std::fs::remove_file(&options.output);
            return Err(Failure::failed(error));
        }
    };
    let begun = Instant::now();
    let status = record(options, recorder, &described, begun)?;
    Ok(ExitCode::from(status.map_or(0, exit_code)))
}

/// The VFS writes the recording: a line for each call, in strace's notation.
fn by_vfs(options: &Options) -> Result<ExitCode, Failure> {
    let unwritable = |error: io::Error| format!("{}: cannot be written: {error}", options.output.display());
    File::create(&options.output).map_err(|error| Failure::failed(unwritable(error)))?;
    // The program may work in another directory.
    let output = options.output.canonicalize().map_err(|error| Failure::failed(unwritable(error)))?;
    let mut variables = vec![("ONEFLUSH_TRACE", output.into_os_string())];
    if std::env::var_os("ONEFLUSH_STRATEGY").is_none() {
        variables.push(("ONEFLUSH_STRATEGY", "stock".into()));
    }
    run::with_variables(&options.command, variables)?;
    Ok(ExitCode::SUCCESS)
}

fn record(
    options: &Options,
    mut recorder: Recorder<File>,
    described: &str,
    begun: Instant,
) -> Result<Option<ExitStatus>, Failure> {
    if !recorder.is_watched() {
        eprintln!("oneflush trace: no fanotify with inodes (Linux 5.17): short-lived files may stay without a name");
    }
    if options.dev.is_some() && recorder.is_nameless() {
        eprintln!("oneflush trace: {described}; if a partition of it is mounted, name that one");
    }
    let mut program = Program::start(&options.command, &recorder).map_err(|error| {
        // It would look like a recording.
        let _ = std::fs::remove_file(&options.output);
        Failure::failed(error)
    })?;
    if program.is_none() {
        let end = if options.seconds.is_some() { "" } else { "; Ctrl-C ends it" };
        eprintln!("oneflush trace: recording {described}{end}");
    }
    let mut progress = Progress::new(described, begun);
    let turn = if program.is_some() { TURN_BESIDE } else { TURN };
    let mut asked_to_end = None;
    let status = loop {
        recorder.turn(turn).map_err(Failure::failed)?;
        progress.show(recorder.counts());
        if let Some(program) = &mut program
            && let Some(status) = program.ended().map_err(Failure::failed)?
        {
            break Some(status);
        }
        let is_over = options.seconds.is_some_and(|seconds| begun.elapsed() >= seconds);
        if !is_over && !interrupt::requested() {
            continue;
        }
        let Some(program) = &mut program else { break None };
        let since = *asked_to_end.get_or_insert_with(|| {
            program.ask_to_end();
            Instant::now()
        });
        if since.elapsed() > END_MAX {
            eprintln!("oneflush trace: {} goes on; it is no longer recorded", program.name);
            break None;
        }
    };
    let elapsed = begun.elapsed();
    let counts = recorder.finish().map_err(Failure::failed)?;
    progress.done();
    tell(options, counts, elapsed, status);
    Ok(status)
}

/// What was recorded, on standard error: standard output is the program's.
fn tell(options: &Options, counts: Counts, elapsed: Duration, status: Option<ExitStatus>) {
    let kb = |bytes: u64| bytes / 1024;
    let file = std::fs::metadata(&options.output).map_or(0, |metadata| metadata.len());
    let mut text = format!(
        "{}: {} events in {:.1} s, {} KB\n",
        options.output.display(),
        counts.events,
        elapsed.as_secs_f64(),
        kb(file)
    );
    text += &format!(
        "  KB written: {} files, {} file system journal, {} other metadata\n",
        kb(counts.data_bytes),
        kb(counts.journal_bytes),
        kb(counts.metadata_bytes)
    );
    if counts.unknown_bytes > 0 {
        text += &format!("  {} KB of data belong to no known file\n", kb(counts.unknown_bytes));
    }
    if counts.lost > 0 {
        text += &format!("  {} events were lost: the recording has gaps, and says where\n", counts.lost);
    }
    if let Some(status) = status
        && !status.success()
    {
        text += &format!("  {}: {status}\n", options.command[0].to_string_lossy());
    }
    // Nobody is left to tell.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// As a shell says it: 128 and the signal's number if a signal ended the program.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

struct Program {
    name: String,
    child: Child,
}

impl Program {
    fn start(command: &[OsString], recorder: &Recorder<File>) -> Result<Option<Program>, String> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        let name = program.to_string_lossy().into_owned();
        let child = Command::new(program)
            .args(arguments)
            .env("ONEFLUSH_TRACE_MARKER", recorder.marker())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Some(Program { name, child }))
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("lost {}: {error}", self.name))
    }

    /// The terminal sends Ctrl-C to it too; SIGTERM to this process it would not see.
    fn ask_to_end(&self) {
        // One that has just ended needs no signal.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }
}

/// A line on a terminal that says how it goes, once it takes a while.
struct Progress {
    bar: Option<ProgressBar>,
    described: String,
    begun: Instant,
}

impl Progress {
    fn new(described: &str, begun: Instant) -> Progress {
        Progress { bar: None, described: described.to_owned(), begun }
    }

    fn show(&mut self, counts: Counts) {
        if self.begun.elapsed() < QUIET || !io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner().with_elapsed(self.begun.elapsed());
            // The template is constant; were it wrong, the default would do.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        let lost = if counts.lost > 0 { format!(", {} lost", counts.lost) } else { String::new() };
        bar.set_message(format!("{} events{lost}  {}", counts.events, self.described));
        bar.tick();
    }

    fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
