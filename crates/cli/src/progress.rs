//! Progress on stderr: a bar on a terminal, one line a round elsewhere.

use std::fmt::Display;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use oneflush_measure::run::Progress;

pub struct Terminal {
    bar: Option<ProgressBar>,
    /// Before, nothing is known of what is left.
    has_length: bool,
}

impl Terminal {
    pub fn new() -> Terminal {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::no_length();
            set_style(&bar, "{msg}  {elapsed}");
            bar.set_message("making a place to measure");
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Terminal { bar, has_length: false }
    }
}

/// The templates are constant; were one wrong, the bar would go on as before.
fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

impl Progress for Terminal {
    fn slice(&mut self, number: u32, count: u32, round: u32, mode: &dyn Display) {
        if let Some(bar) = &self.bar {
            bar.set_length(u64::from(count));
            bar.set_position(u64::from(number - 1));
            if !std::mem::replace(&mut self.has_length, true) {
                set_style(bar, "{bar:30} {pos}/{len}  {msg}  {elapsed}, about {eta} left");
            }
            bar.set_message(format!("round {round}: {mode}"));
        }
    }

    fn round_done(&mut self, round: u32, rounds: u32) {
        if self.bar.is_none() {
            eprintln!("round {round} of {rounds} done");
        }
    }

    fn part(&mut self, number: u32, count: u32, what: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("{number} of {count}: {what}")),
            None => eprintln!("{number} of {count}: {what}"),
        }
    }

    fn done(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Terminal {
    /// An error message must not follow half a bar.
    fn drop(&mut self) {
        self.done();
    }
}
