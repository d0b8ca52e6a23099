//! `oneflush advise TRACE…|--live DIR`: what each strategy would write for the transactions of a
//! trace, how long the device lasts, and what to do.
//!
//! The estimates are made in `oneflush_trace::advise`. A signal ends the input, not the program.
//! With `--live` that is an ordinary end. Of a trace the exit code is 1 then.

mod device;
mod live;
mod read;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use oneflush_trace::advise::{Advice, Wear};
use oneflush_trace::identify::Layer;
use serde::Serialize;

use crate::failure::Failure;
use crate::identify::input;
use crate::{output, trace};
use read::{Reading, Trace};

const EXAMPLES: &str =
    "Estimates, calibrated on measurements of `oneflush bench`: docs/advise.md says
how, and how far off they are. A day is the recorded rate, kept up for a day.

Examples:
  oneflush advise trace.zst                        what each strategy would write
  sudo oneflush advise --live /var/lib/app         records for 30 s first
  sudo oneflush advise --live . --seconds 300      for five minutes
  oneflush advise trace.zst --tbw 150              years that 150 TB written last
  oneflush advise phone.txt --life-time life_time  of an eMMC's file
  nvme smart-log -o json /dev/nvme0 > smart.json
  oneflush advise trace.zst --life-time smart.json an NVMe's SMART log
  oneflush advise trace.zst --delta 300            300 bytes change in a page
  oneflush advise trace.zst --json | jq .traces[].total";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Traces in any of the formats that `oneflush identify` reads; - is standard input
    #[arg(value_name = "TRACE", required_unless_present = "live")]
    traces: Vec<PathBuf>,
    /// Record the device that this directory is on, and advise on the databases below it (needs
    /// root)
    #[arg(long, value_name = "DIR", conflicts_with = "traces")]
    live: Option<PathBuf>,
    /// With --live: end after so many seconds; Ctrl-C ends sooner
    #[arg(
        long,
        value_name = "N",
        default_value = "30",
        requires = "live",
        value_parser = trace::seconds
    )]
    seconds: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Only transactions of databases whose path or place holds this text
    #[arg(long, value_name = "SUBSTRING")]
    database: Option<String>,
    /// Where devices lie on each other, count bytes and flushes at this one: lowest, highest or
    /// MAJOR,MINOR
    #[arg(long, value_name = "LAYER", default_value = "lowest", value_parser = input::layer)]
    layer: Layer,
    /// How long a page of the databases is; default: as their files say, else as the trace shows
    #[arg(long, value_name = "BYTES", value_parser = page_size)]
    page_size: Option<u64>,
    /// How many bytes change in a page that a transaction changes, where you know it
    #[arg(long, value_name = "BYTES", value_parser = delta)]
    delta: Option<f64>,
    /// So many terabytes may be written to the device in all, as its maker says
    #[arg(long, value_name = "TB", value_parser = terabytes)]
    tbw: Option<f64>,
    /// How worn the device is: an eMMC's life_time, or an NVMe's SMART log as JSON; default: with
    /// --live what the device says
    #[arg(long, value_name = "FILE")]
    life_time: Option<PathBuf>,
}

/// The advice goes to standard output only.
const NO_RESULTS: [(&str, &Option<PathBuf>); 2] = [("", &None); 2];

fn page_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no page size; give a power of two from 512 to 65536");
    let bytes = text.parse::<u64>().map_err(|_| wrong())?;
    if bytes.is_power_of_two() && (512..=65_536).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(wrong())
    }
}

fn delta(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no number of bytes; give 1 to 65536");
    let bytes = text.parse::<u32>().map_err(|_| wrong())?;
    if (1..=65_536).contains(&bytes) { Ok(f64::from(bytes)) } else { Err(wrong()) }
}

fn terabytes(text: &str) -> Result<f64, String> {
    let terabytes = text.parse::<f64>().ok().filter(|tb| tb.is_finite() && *tb > 0.0);
    terabytes.ok_or_else(|| format!("{text:?} is no endurance; give terabytes, such as 150"))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Told<'a> {
    traces: Vec<TraceTold<'a>>,
    /// Of the device.
    wear: Option<&'a Wear>,
}

#[derive(Serialize)]
struct TraceTold<'a> {
    trace: &'a str,
    format: &'a str,
    /// What a reader of the figures must know of the trace.
    notes: &'a [String],
    /// Years at the rate of each strategy of `total`, in its order.
    #[serde(skip_serializing_if = "Option::is_none")]
    life: Option<Vec<Option<oneflush_trace::advise::Life>>>,
    #[serde(flatten)]
    advice: &'a Advice,
}

pub fn main(options: &Options) -> Result<(), Failure> {
    let given = options.life_time.as_deref().map(device::read).transpose()?;
    let reading = Reading {
        wanted: options.database.as_deref(),
        layer: options.layer,
        page_bytes: options.page_size,
    };
    let mut damaged = None;
    let mut traces: Vec<Trace> = Vec::new();
    let mut found = None;
    match &options.live {
        Some(dir) => {
            trace::check_permission("advise --live")?;
            let targets = trace::targets_of_directory("--live", dir)?;
            found = device::of(&targets);
            traces.push(live::record(&reading, targets, dir, options.seconds)?);
        }
        None => {
            for mut input in input::open_all(&options.traces, NO_RESULTS)? {
                let trace = reading.trace(&mut input);
                damaged = damaged.or(trace.damage.clone());
                let is_over = oneflush_measure::interrupt::requested();
                traces.push(trace);
                if is_over {
                    break;
                }
            }
        }
    }
    let wear = given.or(found).map(|wear| wear.with_tbw(options.tbw));
    let wear = wear.or_else(|| options.tbw.map(Wear::of_tbw));
    let advised: Vec<(&Trace, Advice)> =
        traces.iter().map(|trace| (trace, Advice::new(&trace.loads, options.delta))).collect();
    if options.json {
        let told = Told {
            traces: advised
                .iter()
                .map(|(trace, advice)| told(trace, advice, wear.as_ref()))
                .collect(),
            wear: wear.as_ref(),
        };
        let json = serde_json::to_string(&told).expect("numbers and texts are JSON");
        output::print(&format!("{json}\n"))?;
    } else {
        let texts: Vec<String> = advised
            .iter()
            .map(|(trace, advice)| text::advice(trace, advice, wear.as_ref()))
            .collect();
        output::print(&texts.join("\n"))?;
    }
    damaged.map_or(Ok(()), |why| Err(Failure::failed(why)))
}

fn told<'a>(trace: &'a Trace, advice: &'a Advice, wear: Option<&Wear>) -> TraceTold<'a> {
    let life = wear.map(|wear| {
        let years =
            |row: &oneflush_trace::advise::Row| wear.life(row.estimate?.gb_per_day.likely * 1e9);
        advice.total.iter().map(years).collect()
    });
    TraceTold { trace: &trace.name, format: &trace.format, notes: &trace.notes, life, advice }
}
