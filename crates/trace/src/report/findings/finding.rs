//! A finding, and what it is made with.

use serde::Serialize;

use crate::report::tables::Tables;
use crate::report::words::count;

/// No finding rests on fewer transactions.
pub(super) const TRANSACTIONS_COUNT_MIN: u64 = 30;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// A word for programs.
    pub kind: &'static str,
    /// Label of the trace.
    pub trace: String,
    pub text: String,
    pub basis: String,
    /// What to do: a command, a PRAGMA or an option by name.
    pub action: String,
}

pub(super) fn finding(
    kind: &'static str,
    tables: &Tables,
    text: String,
    basis: String,
    action: impl Into<String>,
) -> Finding {
    Finding { kind, trace: tables.trace.clone(), text, basis, action: action.into() }
}

/// "1,234 transactions"
pub(super) fn transactions(tables: &Tables) -> String {
    format!("{} transactions", count(tables.transactions))
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
