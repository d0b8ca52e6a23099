//! What a workload's figures are counted in: its words in tables, sentences and plots.

use serde::{Deserialize, Serialize};

/// Bytes of a MB in all that is told: 1,024 KB of 1,024 bytes.
pub const MB: f64 = (1 << 20) as f64;

/// Of a piece.
pub const PIECE_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Transaction,
    /// Open, a few commits, close.
    Cycle,
    Read,
    /// A write to a file, and its sync.
    Sync,
    /// A write to a file, without a sync.
    Write,
    /// A quarter of a MiB, written or read.
    Piece,
}

impl Unit {
    pub fn singular(self) -> &'static str {
        match self {
            Unit::Transaction => "transaction",
            Unit::Cycle => "cycle",
            Unit::Read => "read",
            Unit::Sync => "sync",
            Unit::Write => "write",
            Unit::Piece => "piece",
        }
    }

    /// What takes the time that is measured, once.
    pub fn one(self) -> &'static str {
        match self {
            Unit::Transaction => "commit",
            other => other.singular(),
        }
    }

    /// What takes the time that is measured.
    pub fn timed(self) -> &'static str {
        match self {
            Unit::Transaction => "commits",
            Unit::Cycle => "cycles",
            Unit::Read => "reads",
            Unit::Sync => "syncs",
            Unit::Write => "writes",
            Unit::Piece => "pieces",
        }
    }

    /// What a rate is told in: "commits/s".
    pub fn rate(self) -> &'static str {
        match self {
            Unit::Transaction => "commits/s",
            Unit::Cycle => "cycles/s",
            Unit::Read => "reads/s",
            Unit::Sync => "syncs/s",
            Unit::Write => "writes/s",
            Unit::Piece => "MB/s",
        }
    }

    /// So much of that is one a second.
    pub fn in_rate(self) -> f64 {
        match self {
            Unit::Piece => PIECE_BYTES as f64 / MB,
            _ => 1.0,
        }
    }

    /// Whether it is to survive a loss of power once it is done.
    pub fn is_to_last(self) -> bool {
        !matches!(self, Unit::Read | Unit::Write | Unit::Piece)
    }

    /// Head of the column of rates.
    pub fn per_second(self) -> &'static str {
        match self {
            Unit::Transaction => "txn/s",
            Unit::Cycle => "cycle/s",
            Unit::Read => "read/s",
            Unit::Sync => "sync/s",
            Unit::Write => "write/s",
            Unit::Piece => "MB/s",
        }
    }
}
