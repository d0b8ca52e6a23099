//! The options of `oneflush identify --dataset`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub struct DatasetOptions {
    /// Write the transactions as rows of this data set, a folder of Parquet files; rows of the same
    /// trace are replaced, all others stay
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["json", "csv", "output", "parquet", "database"]
    )]
    pub dataset: Option<PathBuf>,
    /// What divides a new data set into folders: labels, and the day (UTC) [default: device,day]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "dataset")]
    pub by: Option<Vec<String>>,
    /// What the traces do not say themselves; can be given several times
    #[arg(long, value_name = "NAME=VALUE,…", requires = "dataset")]
    pub label: Vec<String>,
    /// The same for each trace: CSV with the columns trace, begin (a time) and labels
    #[arg(long, value_name = "FILE", requires = "dataset")]
    pub labels: Option<PathBuf>,
    /// UTC of the first event, where the trace does not say it: 2026-11-28T22:44:10Z
    #[arg(long, value_name = "TIME", requires = "dataset")]
    pub begin: Option<String>,
}
