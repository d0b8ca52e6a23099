//! Broken variants of `eager`, one promise less each: the crash simulator must catch every one of them (`crates/crashlab/tests/mutants.rs`).
//!
//! Without the feature `mutants` there is none, and [`is`] is a constant.

/// What is broken, for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A delta is against an older version of its page than the one that recovery has.
    WrongBase,
    /// A page that is copied from one that only the database file has is taken for one that the log has.
    SourcesUncounted,
    /// A checkpoint logs no page before it overwrites it (invariant 3 of the log).
    NoPageImages,
    /// The guard is taken away by the first checkpoint that writes page 1, while the log is in use.
    GuardClearedEarly,
    /// The guard is written when the log begins, and durable some time later.
    GuardSetLate,
    /// The guard names the log and does not change the version, so that SQLite alone opens the file.
    GuardUnseen,
    /// A process goes on from where it left the log, wherever others have left it meanwhile.
    StaleHead,
    /// The first commit after a recovery begins an epoch, as if the database file had what was recovered.
    EpochAfterRecovery,
    /// The board is not told that the image is made shorter (invariant 2 of `image_store.rs`).
    CutUntold,
}

oneflush_blocklog::mutant_switch!();
