//! Why a data set could not be written or read.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("{}: {what} failed: {source}", path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error("{}: {source}", path.display())]
    Parquet { path: PathBuf, source: ParquetError },
    #[error(
        "{}: is no data set of oneflush and not empty; name a new folder or a data set",
        path.display()
    )]
    NotADataset { path: PathBuf },
    #[error(
        "{}: is no data set of oneflush: it has no file oneflush-dataset.json; \
         `oneflush identify TRACE --dataset DIR` makes one",
        path.display()
    )]
    NoDataset { path: PathBuf },
    #[error("{}: is not what oneflush writes: {reason}", path.display())]
    Marker { path: PathBuf, reason: String },
    #[error(
        "{}: is a data set of version {version}, and this oneflush knows version {known}; \
         use a newer oneflush",
        path.display(),
        known = super::VERSION
    )]
    Newer { path: PathBuf, version: i64 },
    #[error(
        "{}: is divided by {there}; give --by {there}, or name another folder for --by {asked}",
        path.display()
    )]
    OtherBy { path: PathBuf, there: String, asked: String },
    #[error("{0}")]
    By(String),
    #[error("{0}")]
    Label(String),
    #[error("{}{}: {reason}", path.display(), at_line(*line))]
    LabelsFile { path: PathBuf, line: Option<u64>, reason: String },
    #[error("{0}")]
    Where(String),
}

fn at_line(line: Option<u64>) -> String {
    line.map_or(String::new(), |line| format!(", line {line}"))
}

impl FleetError {
    pub(crate) fn io(
        path: impl Into<PathBuf>,
        what: &'static str,
    ) -> impl FnOnce(io::Error) -> FleetError {
        let path = path.into();
        move |source| FleetError::Io { path, what, source }
    }

    pub(crate) fn parquet(path: impl Into<PathBuf>) -> impl FnOnce(ParquetError) -> FleetError {
        let path = path.into();
        move |source| FleetError::Parquet { path, source }
    }
}
