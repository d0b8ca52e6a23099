//! Records for a while, and reads what is recorded meanwhile. Nothing is kept in a file.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use oneflush_measure::interrupt;
use oneflush_trace::import::{Format, ImportError, Reader};
use oneflush_trace::record::{Labels, Options, RecordError, Recorder, Targets};

use super::read::{Reading, Trace};
use crate::failure::Failure;

const TURN: Duration = Duration::from_millis(100);

pub fn record(
    reading: &Reading<'_>,
    targets: Targets,
    dir: &Path,
    length: Duration,
) -> Result<Trace, Failure> {
    let described = targets.describe();
    interrupt::install().map_err(Failure::failed)?;
    let (read, write) = io::pipe().map_err(Failure::failed)?;
    let options = Options {
        targets,
        process: None,
        sched: false,
        syscalls: false,
        labels: Labels::default(),
    };
    let recorder = Recorder::live(options, write).map_err(Failure::failed)?;
    let name = format!("{}, live", dir.display());
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> Result<(Trace, Option<ImportError>), ImportError> {
            let mut reader = Reader::with_format("the recording", read, Format::Ftrace)?;
            Ok(reading.events(&name, &mut reader))
        });
        let recorded = turns(recorder, length, &described);
        let (trace, error) =
            reader.join().expect("the reader does not panic").map_err(|error| {
                Failure::failed(format!("what is recorded cannot be read: {error}"))
            })?;
        // If the reader has failed, the recorder cannot write. The first cause is told.
        if let Some(error) = error {
            return Err(Failure::failed(format!("what is recorded cannot be read: {error}")));
        }
        recorded.map_err(Failure::failed)?;
        Ok(trace)
    })
}

/// Until the time is over or somebody presses Ctrl-C. Closes the pipe.
fn turns(
    mut recorder: Recorder<io::PipeWriter>,
    length: Duration,
    described: &str,
) -> Result<(), RecordError> {
    let begun = Instant::now();
    let progress = Progress::new(length, described);
    while begun.elapsed() < length && !interrupt::requested() {
        recorder.turn(TURN.min(length.saturating_sub(begun.elapsed())))?;
        progress.show(begun.elapsed(), recorder.counts().events);
    }
    progress.done();
    recorder.finish()?;
    Ok(())
}

/// A bar on a terminal, a line elsewhere.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new(length: Duration, described: &str) -> Progress {
        let seconds = length.as_secs_f64();
        if !io::stderr().is_terminal() {
            eprintln!("oneflush advise: recording {described} for {seconds} s; Ctrl-C ends it");
            return Progress(None);
        }
        let bar = ProgressBar::new(length.as_millis() as u64);
        // The template is constant; were it wrong, the default bar would do.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        Progress(Some(bar))
    }

    fn show(&self, elapsed: Duration, events: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(elapsed.as_millis() as u64);
            bar.set_message(format!(
                "{:.0} s, {events} events; Ctrl-C ends it",
                elapsed.as_secs_f64()
            ));
        }
    }

    fn done(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
