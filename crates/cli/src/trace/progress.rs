//! A line on a terminal that says how it goes, once it takes a while.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use oneflush_trace::record::Counts;

/// Work that is done sooner shows no progress.
const QUIET: Duration = Duration::from_secs(2);

pub(super) struct Progress {
    bar: Option<ProgressBar>,
    described: String,
    begun: Instant,
}

impl Progress {
    pub(super) fn new(described: &str, begun: Instant) -> Progress {
        Progress { bar: None, described: described.to_owned(), begun }
    }

    pub(super) fn show(&mut self, counts: Counts) {
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

    pub(super) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
