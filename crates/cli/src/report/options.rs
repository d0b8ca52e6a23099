//! The options of `oneflush report`.

use std::path::PathBuf;

use clap::Args;
use oneflush_trace::identify::Layer;

use crate::identify::input;

const EXAMPLES: &str = "It reads what `oneflush identify` reads. Quantiles, classes and figures are
those of \"On the IO characteristics of the SQLite transactions\"
(MobileSoft'16); findings say what stands out, and what they rest on.

Examples:
  oneflush report trace.txt.gz                     tables and findings
  oneflush report before.txt after.txt             two traces side by side
  oneflush report trace.txt -o report.html         one page with charts, which
                                                   needs no network
  oneflush report trace.txt --json | jq .findings  for programs
  oneflush report trace.txt --perfetto trace.json  to open at ui.perfetto.dev
  oneflush report --database rmq.db phone.po       only this database
  oneflush report fleet                            a data set of many devices
  oneflush report fleet --where 'device=kiosk-7,day>=2026-11-01'
  oneflush report fleet --compare build=A,B        two builds, with bounds";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Traces in any of the formats that `oneflush identify` reads; - is standard input. Or one
    /// data set, a folder that `oneflush identify --dataset` has made
    #[arg(value_name = "TRACE", required = true)]
    pub(super) traces: Vec<PathBuf>,
    /// Write a page (HTML) to this file, which is replaced only when all is done
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Print one JSON object with all figures in place of the tables
    #[arg(long)]
    pub(super) json: bool,
    /// Write transactions, flushes and the devices' queues to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(super) perfetto: Option<PathBuf>,
    /// Only transactions of databases whose path or place holds this text
    #[arg(long, value_name = "SUBSTRING")]
    pub(super) database: Option<String>,
    /// Where devices lie on each other, count bytes, requests and flushes at this one: lowest,
    /// highest or MAJOR,MINOR
    #[arg(long, value_name = "LAYER", default_value = "lowest", value_parser = input::layer)]
    pub(super) layer: Layer,
    /// Of a data set, only rows that meet all conditions: NAME, one of = != < <= > >=, VALUE; NAME
    /// is a label, day or a column. Can be given several times
    #[arg(long = "where", value_name = "CONDITION,…")]
    pub(super) wheres: Vec<String>,
    /// Of a data set, two groups beside each other: a column that has two values, or a column and
    /// two of its values
    #[arg(long, value_name = "NAME[=A,B]")]
    pub(super) compare: Option<String>,
}
