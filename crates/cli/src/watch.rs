//! Progress of long work on a database on stderr, and Ctrl-C that reaches into a statement of
//! SQLite.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use oneflush_measure::interrupt;
use oneflush_vfs::shown_name;
use rusqlite::InterruptHandle;

/// Short work says nothing before its result.
const QUIET: Duration = Duration::from_secs(2);
/// Where stderr is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// How much of a step is done, and of how much.
pub type Share = (u64, u64);

pub struct Watch {
    database: String,
    begun: Instant,
    told: Instant,
    bar: Option<ProgressBar>,
}

impl Watch {
    pub fn new(database: &Path) -> Watch {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            // The template is constant; were it wrong, the default bar would do.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        // The first line comes after the time of quiet.
        let told = (now + QUIET).checked_sub(LINE_EVERY).unwrap_or(now);
        Watch { database: shown_name(database).into_owned(), begun: now, told, bar }
    }

    /// Runs a step. If it has a connection, this handle interrupts it.
    ///
    /// A signal may come between two statements, when there is nothing to interrupt. So the
    /// interruption is repeated until the step ends.
    pub fn during<T>(
        &mut self,
        step: &str,
        connection: Option<&InterruptHandle>,
        share: impl Fn() -> Option<Share> + Send,
        work: impl FnOnce() -> T,
    ) -> T {
        let (running, end) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while end.recv_timeout(LOOKS_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if let Some(connection) = connection.filter(|_| interrupt::requested()) {
                        connection.interrupt();
                    }
                    self.tell(step, &share);
                }
            });
            let result = work();
            drop(running);
            result
        })
    }

    pub fn tell(&mut self, step: &str, share: impl Fn() -> Option<Share>) {
        if self.begun.elapsed() < QUIET {
            return;
        }
        if self.bar.is_none() && self.told.elapsed() < LINE_EVERY {
            return;
        }
        let share = match share() {
            Some((done, all)) if all > 0 => format!(", {} %", (done * 100 / all).min(100)),
            _ => String::new(),
        };
        let text = format!("{}: {step}{share}", self.database);
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_message(text);
                bar.tick();
            }
            None => {
                self.told = Instant::now();
                eprintln!("{text}, {} s", self.begun.elapsed().as_secs());
            }
        }
    }
}

impl Drop for Watch {
    /// A message must not follow half a line.
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
