//! The recording of a run that is kept: everything that reached the place's device, for `oneflush
//! identify` and `oneflush report`.
//!
//! A thread of its own takes the kernel's events while the slices run. Notes in the recording say
//! where each slice begins and ends. However the run ends, the file holds what was recorded until
//! then.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use oneflush_trace::record::{Counts, Labels, Options, RecordError, Recorder, Target};
use serde::{Deserialize, Serialize};

use super::RunError;
use crate::place::Place;

/// How long to wait for events before what is there is written.
const TURN: Duration = Duration::from_millis(100);

/// What was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    pub path: PathBuf,
    pub events: u64,
    /// Events that the kernel had no room for.
    pub lost: u64,
}

pub(super) struct Recording {
    path: PathBuf,
    marker: File,
    stop: Arc<AtomicBool>,
    /// None once it was waited for.
    thread: Option<JoinHandle<Result<Counts, RecordError>>>,
}

impl Recording {
    pub(super) fn start(path: &Path, place: &Place) -> Result<Recording, RunError> {
        let target = Target::of_directory(place.path())?;
        let failed = |reason: String| RunError::Recording { path: path.to_owned(), reason };
        let out = File::create(path).map_err(|error| failed(error.to_string()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut recorder = Recorder::start(
                Options {
                    targets: target.into(),
                    process: None,
                    sched: false,
                    syscalls: false,
                    labels: Labels::default(),
                },
                out,
            )?;
            // Nobody listens where the run has ended already; then `stop` is set.
            let _ = tell.send(recorder.marker());
            while !stopped.load(Ordering::Acquire) {
                recorder.turn(TURN)?;
            }
            recorder.finish()
        });
        let Ok(marker) = told.recv() else {
            // Nothing was recorded: no empty file is left that looks like a recording.
            let _ = fs::remove_file(path);
            return ended(thread).and(Err(failed("the recorder ended before it began".to_owned())));
        };
        let marker = OpenOptions::new()
            .write(true)
            .open(&marker)
            .map_err(|error| failed(format!("{}: {error}", marker.display())))?;
        Ok(Recording { path: path.to_owned(), marker, stop, thread: Some(thread) })
    }

    /// Stands in the recording at this place.
    pub(super) fn note(&mut self, text: &str) -> Result<(), RunError> {
        self.marker.write_all(text.as_bytes()).map_err(|reason| RunError::Recording {
            path: self.path.clone(),
            reason: reason.to_string(),
        })
    }

    pub(super) fn finish(mut self) -> Result<Kept, RunError> {
        self.stop.store(true, Ordering::Release);
        let counts = self.thread.take().map(ended).transpose()?.unwrap_or_default();
        Ok(Kept { path: self.path.clone(), events: counts.events, lost: counts.lost })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The run failed, and says why; what was recorded until then is written.
            let _ = ended(thread);
        }
    }
}

fn ended(thread: JoinHandle<Result<Counts, RecordError>>) -> Result<Counts, RunError> {
    match thread.join() {
        Ok(result) => Ok(result?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
