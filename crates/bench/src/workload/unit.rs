//! What a workload's figures are counted in: its words in tables, sentences and plots.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Transaction,
    /// Open, a few commits, close.
    Cycle,
    Read,
}

impl Unit {
    pub fn singular(self) -> &'static str {
        match self {
            Unit::Transaction => "transaction",
            Unit::Cycle => "cycle",
            Unit::Read => "read",
        }
    }

    /// What takes the time that is measured.
    pub fn timed(self) -> &'static str {
        match self {
            Unit::Transaction => "commits",
            Unit::Cycle => "cycles",
            Unit::Read => "reads",
        }
    }

    /// Head of the column of rates.
    pub fn per_second(self) -> &'static str {
        match self {
            Unit::Transaction => "txn/s",
            Unit::Cycle => "cycle/s",
            Unit::Read => "read/s",
        }
    }
}
