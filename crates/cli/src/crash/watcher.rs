//! How far a run is, shown while it runs.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use oneflush_crashlab::{Progress, Report, Watch};
use oneflush_measure::interrupt;

use crate::failure::Failure;

/// Shows how far a run is, and ends it after Ctrl-C.
pub fn watched<C>(
    states: u64,
    run: impl FnOnce(&Watch<'_>) -> Report<C>,
) -> Result<Report<C>, Failure> {
    let watcher = Watcher::new(states);
    interrupt::install().map_err(Failure::failed)?;
    let report = run(&|progress| {
        watcher.tell(progress);
        if interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    watcher.done();
    Ok(report)
}

/// Progress on stderr: a bar on a terminal, a line every ten seconds elsewhere.
struct Watcher {
    bar: Option<ProgressBar>,
    states: u64,
    began: Instant,
    told: Mutex<Instant>,
    most: AtomicU64,
}

impl Watcher {
    fn new(states: u64) -> Watcher {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(states);
            // The template is constant; were it wrong, the default bar would do.
            if let Ok(style) = ProgressStyle::with_template(
                "{bar:30} {pos}/{len} {msg}  {elapsed}, about {eta} left",
            ) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Watcher { bar, states, began: now, told: Mutex::new(now), most: AtomicU64::new(0) }
    }

    fn tell(&self, progress: Progress) {
        let states = self.most.fetch_max(progress.states, Relaxed).max(progress.states);
        let faults = match progress.fault_runs {
            0 => String::new(),
            runs => format!(", {runs} runs with faults"),
        };
        if let Some(bar) = &self.bar {
            bar.set_position(states.min(self.states));
            bar.set_message(format!("states{faults}"));
            return;
        }
        let Ok(mut told) = self.told.try_lock() else { return };
        if told.elapsed() >= Duration::from_secs(10) {
            *told = Instant::now();
            eprintln!(
                "{states} of {} states{faults} in {} s",
                self.states,
                self.began.elapsed().as_secs()
            );
        }
    }

    fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
