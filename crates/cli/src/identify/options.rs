//! The options of `oneflush identify`.

use std::path::PathBuf;

use clap::Args;
use oneflush_trace::identify::Layer;

use super::dataset_options::DatasetOptions;
use super::input;

const EXAMPLES: &str = "Formats, plain, gzip or zstd: ftrace and trace-cmd text, perf script text,
blktrace records, blkparse text (also MOST's), strace -f -ttt -yy -T text
(other options as far as they go), AndroTrace records.

Examples:
  oneflush identify trace.txt.gz                 a table: one row a database
  oneflush identify before.txt after.txt         two traces, one table each
  oneflush identify sda.blktrace.0               with those of other CPUs
  oneflush identify --database rmq.db phone.po   only this database
  oneflush identify t.txt --json | jq .latency_ms
                                                 one JSON object a transaction
  oneflush identify t.txt --csv -o t.csv         the same as CSV
  oneflush identify t.txt --parquet t.parquet    the table, and a Parquet file
  oneflush identify *.zst --dataset fleet --label device=kiosk-7
                                                 rows of a data set of many
  cat /sys/kernel/tracing/trace_pipe | oneflush identify -
                                                 until Ctrl-C";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Traces in any of the formats below; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    pub(super) traces: Vec<PathBuf>,
    /// Print one JSON object a line and transaction, in the order in which they become complete
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print the same as CSV, with a head
    #[arg(long)]
    pub(super) csv: bool,
    /// Only transactions of databases whose path or place holds this text
    #[arg(long, value_name = "SUBSTRING")]
    pub(super) database: Option<String>,
    /// Write to this file, which is replaced only when all is done
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Where devices lie on each other, count bytes, requests and flushes at this one: lowest,
    /// highest or MAJOR,MINOR
    #[arg(long, value_name = "LAYER", default_value = "lowest", value_parser = input::layer)]
    pub(super) layer: Layer,
    /// Write the columns of the CSV to this Parquet file as well
    #[arg(long, value_name = "FILE")]
    pub(super) parquet: Option<PathBuf>,
    #[command(flatten)]
    pub(super) dataset: DatasetOptions,
}
