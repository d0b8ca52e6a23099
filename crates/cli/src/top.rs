//! `oneflush top`: what SQLite does to a block device just now, by database.
//!
//! On a terminal it is a screen with keys, elsewhere plain tables one after the other. The figures
//! are made in `oneflush_trace::live`.

mod json;
mod render;
mod screen;
mod terminal;
mod view;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use oneflush_measure::interrupt;
use oneflush_trace::identify::Layer;
use oneflush_trace::live::Session;

use crate::failure::Failure;
use crate::identify::input;
use crate::trace;
use crate::trace::Devices;
use screen::PATIENCE;
use view::{Sort, View};

const EXAMPLES: &str = "Figures are of the last 10 s. jrnl: the share of the bytes that is not the
database, but SQLite's journal and the file system's journal and metadata. Keys:
t k f p j n sort, space pauses, ? help, q ends. Without --dev or --dir, it is
the device of the current directory.

Examples:
  sudo oneflush top                                     at a terminal, until q
  sudo oneflush top --dir /var/lib/app --sort flushes   what flushes most, first
  sudo oneflush top --dev sda --interval 5              a whole device
  sudo oneflush top --dir /srv/a --dir /srv/b           two disks at once
  sudo oneflush top --batch 1 --interval 10             one table of 10 s
  sudo oneflush top --batch 60 --json | jq .total       one JSON object a table";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    devices: Devices,
    /// Where devices lie on each other, count bytes, requests and flushes at this one: lowest,
    /// highest or MAJOR,MINOR
    #[arg(long, value_name = "LAYER", default_value = "lowest", value_parser = input::layer)]
    layer: Layer,
    /// A new table after so many seconds, 0.1 or more
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// The largest first; of names the first
    #[arg(long, value_name = "KEY", default_value = "txn")]
    sort: Sort,
    /// Print N tables as plain text and end; without a terminal, tables are printed until Ctrl-C
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Print each table as one JSON object on a line, until Ctrl-C or as many as --batch says
    #[arg(long)]
    json: bool,
}

const INTERVAL_MIN: Duration = Duration::from_millis(100);
pub fn interval(text: &str) -> Result<Duration, String> {
    let interval = trace::seconds(text)?;
    if interval < INTERVAL_MIN {
        return Err(format!("{text} is too short; give at least {}", INTERVAL_MIN.as_secs_f64()));
    }
    Ok(interval)
}

pub fn main(options: &Options) -> Result<(), Failure> {
    trace::check_permission("top")?;
    let targets = options.devices.targets(false)?;
    let mut view = View::new(&targets, options.sort);
    interrupt::install().map_err(Failure::failed)?;
    let session = Session::start(targets, options.layer).map_err(Failure::failed)?;
    if !session.is_watched() {
        eprintln!(
            "oneflush top: no fanotify with inodes (Linux 5.17): short-lived files may stay \
                without a name"
        );
    }
    let is_screen = options.batch.is_none() && !options.json && io::stdout().is_terminal();
    let shown = if is_screen {
        screen::show(&session, &mut view, options.interval)
    } else {
        print(&session, &view, options)
    };
    // What ended the session is the first cause.
    session.end().map_err(Failure::failed)?;
    match shown {
        // Whoever reads has seen enough (`| head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown.map_err(|error| Failure::failed(format!("cannot show the table: {error}"))),
    }
}

/// Tables one after the other, each whole.
fn print(session: &Session, view: &View, options: &Options) -> io::Result<()> {
    let mut due = Instant::now();
    for n in 0..options.batch.unwrap_or(u64::MAX) {
        due += options.interval;
        while Instant::now() < due {
            if interrupt::requested() || session.has_failed() {
                return Ok(());
            }
            std::thread::sleep(PATIENCE.min(due.saturating_duration_since(Instant::now())));
        }
        let snapshot = session.snapshot();
        let mut text = if n > 0 && !options.json { "\n".to_owned() } else { String::new() };
        if options.json {
            text += &json::line(view, snapshot);
            text.push('\n');
        } else {
            for line in render::table(view, snapshot, None) {
                text += line.text.trim_end();
                text.push('\n');
            }
        }
        io::stdout().write_all(text.as_bytes())?;
        io::stdout().flush()?;
    }
    Ok(())
}
