//! A commit of a trial, as it is told.

use serde::Serialize;

use super::pages::Pages;

/// What a commit is.
#[derive(Clone, Debug, Serialize)]
pub struct Commit {
    /// The user's table; none: one of ours.
    pub table: Option<String>,
    /// Of so many that could be taken it is the largest, unless it was asked for.
    pub tables: usize,
    pub asked: bool,
    /// None: of ours, or SQLite cannot walk its tree.
    pub pages: Option<Pages>,
    pub rows: u64,
    /// There are so many or more.
    pub rows_counted_max: bool,
    pub indexes: u32,
    #[serde(skip)]
    pub(super) quoted: String,
    #[serde(skip)]
    pub(super) rowid: &'static str,
}
