//! What a strategy would write and flush, or why nobody can say.

use serde::{Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// As recorded, whatever it was recorded with ([`super::DatabaseAdvice::recorded`]).
    Stock,
    Plain,
    Eager,
    Waldio,
    Maw,
}

impl Strategy {
    pub const ALL: [Strategy; 5] =
        [Strategy::Stock, Strategy::Plain, Strategy::Eager, Strategy::Waldio, Strategy::Maw];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Stock => "stock",
            Strategy::Plain => "plain",
            Strategy::Eager => "eager",
            Strategy::Waldio => "waldio",
            Strategy::Maw => "maw",
        }
    }
}

/// An estimate with its limits. What was recorded has no range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Extent {
    pub low: f64,
    pub likely: f64,
    pub high: f64,
}

impl Extent {
    pub(super) fn of(numbers: [f64; 3]) -> Extent {
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(0.0, f64::max);
        Extent { low, likely: numbers[1], high }
    }

    pub(super) fn times(self, factor: f64) -> Extent {
        Extent { low: self.low * factor, likely: self.likely * factor, high: self.high * factor }
    }

    pub(super) fn plus(self, other: Extent) -> Extent {
        Extent {
            low: self.low + other.low,
            likely: self.likely + other.likely,
            high: self.high + other.high,
        }
    }

    /// Whether the limits say something else than the number between them.
    pub fn is_range(&self) -> bool {
        self.high > self.low * 1.1
    }
}

/// Where the KB of a transaction go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    pub commits: f64,
    pub checkpoints: f64,
    pub write_back: f64,
    pub file_system: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Of a transaction, of 1,024 bytes.
    pub kb: Extent,
    /// Of a transaction.
    pub flushes: Extent,
    /// Of 1,000,000,000 bytes, at the recorded rate.
    pub gb_per_day: Extent,
    pub flushes_per_day: Extent,
    /// Of `kb.likely`; none of what was recorded.
    pub kb_parts: Option<Parts>,
    /// Zeros for a log that grows: once for each time that a program opens the database, in all.
    pub once_kb: f64,
    pub once_flushes: f64,
    /// In memory on average, in all: a sync of the file system writes it.
    pub left_kb: f64,
    pub in_recording: InRecording,
}

/// What a measurement as long as the recording would find, if it began with a new log and ended
/// with a sync of the file system, as one of `oneflush bench` does. Of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct InRecording {
    pub kb: Extent,
    pub flushes: Extent,
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEstimated {
    /// `maw` is for rollback modes.
    WalMode,
    /// Commits that nobody synchronizes.
    NotDurable,
    /// A log of ours was recorded, and does not say which pages it holds.
    OwnLog,
    /// The engine LS-MVBT has neither a journal nor a WAL.
    Lsmvbt,
    /// No commit was found.
    NoCommit,
}

impl NotEstimated {
    pub fn words(self) -> &'static str {
        match self {
            NotEstimated::WalMode => "for the rollback modes",
            NotEstimated::NotDurable => "commits are not synchronized",
            NotEstimated::OwnLog => "recorded with a log of ours, which hides the pages",
            NotEstimated::Lsmvbt => "of LS-MVBT, which has no journal and no WAL",
            NotEstimated::NoCommit => "no commit was found",
        }
    }
}

impl Serialize for NotEstimated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    pub strategy: Strategy,
    #[serde(flatten)]
    pub estimate: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_estimated: Option<NotEstimated>,
}
