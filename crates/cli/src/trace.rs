//! `oneflush trace`: a recording of what reaches a block device, with the file that each write
//! belongs to.
//!
//! The recording ends with the program that the command started, after `--seconds`, or at Ctrl-C,
//! which ends nothing else. What it needs in the kernel goes away however it ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use clap::Args;
use oneflush_measure::interrupt;
use oneflush_trace::record::{
    Counts, Labels, Limit, Parts, RecordError, Recorder, Target, Targets,
};

use crate::failure::Failure;
use crate::run;

mod limit;
mod program;
mod progress;

use program::Program;
use progress::Progress;

const EXAMPLES: &str =
    "Without --dev or --dir, the device of the current directory is recorded, and
only files below it get names. Below the device mapper and md, the disks are
recorded, too. CMD finds the file that keeps notes in the recording in
ONEFLUSH_TRACE_MARKER.

Examples:
  sudo oneflush trace -o t.zst -- ./app                    until ./app ends
  sudo oneflush trace -o t.zst --dir /var/lib/app          until Ctrl-C
  sudo oneflush trace -o t.zst --dev sda --seconds 60      a whole device
  sudo oneflush trace -o t.zst --dir /srv/a --dir /srv/b   two disks at once
  sudo oneflush trace -o t.zst --dir . --pid $(pidof app)  only this process
  sudo oneflush trace -o - --seconds 5 | grep jbd2         text, as it comes
  sudo oneflush trace -o a.zst --rotate 64M --keep 10      for months
  oneflush trace --vfs -o t.txt -- ./app                   no root: files' calls
  oneflush identify t.zst                                  its transactions
  zstdcat t.zst | less                                     it is text";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Write the recording to this file: ftrace's text, compressed with zstd; -: to standard
    /// output, as plain text
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    devices: Devices,
    /// Only what this process does, what it starts, and the journal of the file system
    #[arg(long, value_name = "P", conflicts_with_all = ["command", "below"])]
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
    /// Begin a new file after so many bytes or so much time, whichever comes first: 64M, 10m
    /// (minutes) or 64M,10m. A size's unit is a capital letter, a time's a small one. Of -o
    /// DIR/app.zst the files are DIR/app.000001.zst and so on
    #[arg(long, value_name = "SIZE|TIME", value_parser = limit::parse)]
    rotate: Option<Limit>,
    /// Delete the oldest files, so that so many complete ones stay
    #[arg(long, value_name = "N", requires = "rotate",
        value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Put the lines NAME=VALUE of this file into the recording: what the device is, for whoever
    /// reads the recordings of many
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Without root: what CMD asks of its databases' files, by Oneflush's VFS (strategy stock); no
    /// device
    #[arg(
        long,
        requires = "command",
        conflicts_with_all = [
            "dev", "dir", "below", "pid", "seconds", "sched", "syscalls", "labels"
        ]
    )]
    vfs: bool,
    /// Run this program and record until it ends
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Which devices.
#[derive(Args)]
pub struct Devices {
    /// This block device; where it is mounted, all its files get names. Can be given several times
    #[arg(long, value_name = "DEV")]
    dev: Vec<PathBuf>,
    /// The device that this directory is on; files below the directory get names. Can be given
    /// several times
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    /// Of a loop device also the device that its file is on, with all that others do there
    #[arg(long)]
    below: bool,
}

impl Devices {
    /// `is_of_process`: whoever asks a device below for others is not told apart there.
    pub fn targets(&self, is_of_process: bool) -> Result<Targets, Failure> {
        let mut targets: Vec<Target> = Vec::new();
        for device in &self.dev {
            targets.push(Target::of_device(device).map_err(Failure::usage)?);
        }
        for dir in &self.dir {
            targets.push(Target::of_directory(dir).map_err(Failure::usage)?);
        }
        if targets.is_empty() {
            targets.push(Target::of_directory(".".as_ref()).map_err(Failure::usage)?);
        }
        let targets = Targets::new(targets).map_err(Failure::usage)?;
        let targets =
            if is_of_process { targets.with_mapped() } else { targets.with_below(self.below) };
        targets.map_err(Failure::failed)
    }
}

/// The device that this directory is on, with those that it lies on. `option` named it.
pub fn targets_of_directory(option: &str, dir: &Path) -> Result<Targets, Failure> {
    let target = Target::of_directory(dir)
        .map_err(|error| Failure::usage(error.to_string().replacen("--dir", option, 1)))?;
    let targets = Targets::new(vec![target]).map_err(Failure::usage)?;
    targets.with_below(false).map_err(Failure::failed)
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

pub fn main(options: &Options) -> Result<ExitCode, Failure> {
    if options.vfs {
        return by_vfs(options);
    }
    if options.rotate.is_some() && options.is_to_stdout() {
        return Err(Failure::usage(
            "-o -: --rotate writes several files; name one, such as /var/lib/traces/app.zst",
        ));
    }
    check_permission("trace")?;
    let labels = options.labels.as_deref().map(Labels::read).transpose().map_err(Failure::usage)?;
    let targets = options.devices.targets(options.pid.is_some())?;
    let described = targets.describe();
    let left_out = targets.left_out();
    interrupt::install().map_err(Failure::failed)?;
    let recording = oneflush_trace::record::Options {
        targets,
        process: options.pid,
        sched: options.sched,
        syscalls: options.syscalls,
        labels: labels.unwrap_or_default(),
    };
    let (recorder, output) = start(options, recording)?;
    let begun = Instant::now();
    let status = record(options, recorder, (&described, &left_out, &output), begun)?;
    Ok(ExitCode::from(status.map_or(0, exit_code)))
}

/// The recorder, and what is said of where it writes.
fn start(
    options: &Options,
    recording: oneflush_trace::record::Options,
) -> Result<(Recorder<File>, String), Failure> {
    if let Some(limit) = options.rotate {
        let parts = Parts::new(&options.output, options.keep).map_err(Failure::usage)?;
        let output = parts.pattern().display().to_string();
        let recorder = Recorder::rotating(recording, parts, limit).map_err(Failure::failed)?;
        return Ok((recorder, output));
    }
    let out = open_output(&options.output)?;
    let started = if options.is_to_stdout() {
        Recorder::live(recording, out)
    } else {
        out.try_clone().map_err(RecordError::Output).and_then(|file| {
            let mut recorder = Recorder::start(recording, out)?;
            recorder.writes(&file).map_err(RecordError::Output)?;
            Ok(recorder)
        })
    };
    let recorder = started.map_err(|error| {
        // Nothing was recorded.
        options.remove_output();
        Failure::failed(error)
    })?;
    Ok((recorder, options.output.display().to_string()))
}

/// Before all else; `command` is the subcommand that needs it.
pub fn check_permission(command: &str) -> Result<(), Failure> {
    oneflush_trace::record::check_permission().map_err(|error| {
        let way_out = match error {
            RecordError::NotRoot => format!(" (sudo oneflush {command} …)"),
            _ => String::new(),
        };
        Failure::refused(format!("{error}{way_out}"))
    })
}

const STDOUT: &str = "-";

impl Options {
    fn is_to_stdout(&self) -> bool {
        self.output.as_os_str() == STDOUT
    }

    /// An empty file would look like a recording.
    fn remove_output(&self) {
        if !self.is_to_stdout() && self.rotate.is_none() {
            let _ = std::fs::remove_file(&self.output);
        }
    }
}

fn open_output(path: &Path) -> Result<File, Failure> {
    let opened = if path.as_os_str() == STDOUT {
        io::stdout().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::create(path)
    };
    opened
        .map_err(|error| Failure::failed(format!("{}: cannot be written: {error}", path.display())))
}

/// The VFS writes the recording: a line for each call, in strace's notation.
fn by_vfs(options: &Options) -> Result<ExitCode, Failure> {
    if options.is_to_stdout() {
        return Err(Failure::usage(
            "-o -: standard output is the program's with --vfs; name a file",
        ));
    }
    if options.rotate.is_some() {
        return Err(Failure::usage(
            "--rotate: with --vfs the program's own threads write the recording, and no recorder \
                is there to begin a new file; leave --rotate out, or record without --vfs",
        ));
    }
    let unwritable =
        |error: io::Error| format!("{}: cannot be written: {error}", options.output.display());
    File::create(&options.output).map_err(|error| Failure::failed(unwritable(error)))?;
    // The program may work in another directory.
    let output =
        options.output.canonicalize().map_err(|error| Failure::failed(unwritable(error)))?;
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
    (described, left_out, output): (&str, &[String], &str),
    begun: Instant,
) -> Result<Option<ExitStatus>, Failure> {
    if !recorder.is_watched() {
        eprintln!(
            "oneflush trace: no fanotify with inodes (Linux 5.17): short-lived files may stay \
                without a name"
        );
    }
    if !options.devices.dev.is_empty() && recorder.is_nameless() {
        eprintln!("oneflush trace: {described}; if a partition of it is mounted, name that one");
    }
    let started = Program::start(&options.command, &recorder, options.is_to_stdout());
    let mut program = match started {
        Ok(program) => program,
        Err(error) => {
            recorder.discard();
            options.remove_output();
            return Err(Failure::failed(error));
        }
    };
    if program.is_none() {
        let end = if options.seconds.is_some() { "" } else { "; Ctrl-C ends it" };
        eprintln!("oneflush trace: recording {described}{end}");
    }
    let mut progress = Progress::new(described, begun);
    let turn = if program.is_some() { TURN_BESIDE } else { TURN };
    let mut asked_to_end = None;
    let status = loop {
        match recorder.turn(turn) {
            // Whoever reads has seen enough (`| head`); the program goes on to its end.
            Err(RecordError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                progress.done();
                return program
                    .map(|mut program| program.wait())
                    .transpose()
                    .map_err(Failure::failed);
            }
            turned => turned.map_err(Failure::failed)?,
        }
        for notice in recorder.notices() {
            eprintln!("oneflush trace: {notice}");
        }
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
    tell(options, (left_out, output), counts, elapsed, status);
    Ok(status)
}

/// What was recorded, on standard error: standard output is the program's.
fn tell(
    options: &Options,
    (left_out, output): (&[String], &str),
    counts: Counts,
    elapsed: Duration,
    status: Option<ExitStatus>,
) {
    let kb = |bytes: u64| bytes / 1024;
    let events = format!("{} events in {:.1} s", counts.events, elapsed.as_secs_f64());
    let mut text = match std::fs::metadata(&options.output) {
        _ if options.rotate.is_some() => {
            let (files, kb) = (counts.files, kb(counts.files_bytes));
            format!("{output}: {events}, {kb} KB in {files} files\n")
        }
        Ok(file) if !options.is_to_stdout() => {
            format!("{output}: {events}, {} KB\n", kb(file.len()))
        }
        _ => format!("oneflush trace: {events}\n"),
    };
    text += &format!(
        "  KB written: {} files, {} file system journal, {} other metadata\n",
        kb(counts.data_bytes),
        kb(counts.journal_bytes),
        kb(counts.metadata_bytes)
    );
    if counts.own_bytes > 0 {
        text += &format!("  of these {} KB are the recorder's own\n", kb(counts.own_bytes));
    }
    if counts.unknown_bytes > 0 {
        text += &format!("  {} KB of data belong to no known file\n", kb(counts.unknown_bytes));
    }
    if counts.lost > 0 {
        text += &format!(
            "  {} events were lost: the recording has gaps, and says where\n",
            counts.lost
        );
    }
    for left_out in left_out {
        text += &format!("  {left_out}; --below records that, too\n");
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
