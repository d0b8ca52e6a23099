//! Broken variants of the engine, each without one invariant. The crash simulator must catch every
//! one of them (`crates/crashlab/tests/it/mutants/of_mvbt.rs`).
//!
//! Without the feature `mutants` there is none, and [`is`] is a constant.

/// What is broken, for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Pages that the newest commit block lists are used again at once (I12).
    HeldReused,
    /// Pages that a transaction has freed are used again by it (I12).
    FreedReused,
    /// Bytes of a cell that ends are free in the same transaction (I3).
    CollectedEarly,
    /// A write changes a byte that the active directory's checksum covers (I2).
    CoveredByteChanged,
    /// The newest commit block is taken for complete (I14).
    BlockUnchecked,
    /// Recovery writes an anchor without the void interval (I15).
    VoidsUnwritten,
    /// No anchor raises H, and versions go on above it (I15).
    ReservedNotRaised,
    /// After a recovery versions begin above the last complete one, below H (I15).
    VersionsReused,
    /// A commit of several pages does not wait for its flush (I8).
    CommitUnflushed,
    /// More pages than a block lists are not flushed before it (I11).
    LargeUnflushed,
    /// Who opens a file does not flush what a dead process has written (I14).
    RecoveryUnflushed,
    /// Any directory of the version is what a block lists, whatever its checksum (I10).
    ChecksumsUnlisted,
    /// A transaction that has written pages early commits its last one alone (I9).
    EarlyPagesForgotten,
    /// A version whose transaction was rolled back after it had written is not made void (I13).
    RollbackNotVoid,
    /// A directory leaves to the other one what that still has of the history (H2).
    HistoryInFallback,
    /// Pages that the history alone needs are taken for free ones after an open (H5).
    KeptPagesReused,
    /// A file is cut before an anchor says that its blocks are settled.
    CutUnsettled,
    /// A rollback after the commit's first step leaves the only page as it is (I20).
    SingleUnmarked,
    /// Void directories are taken out of their pages, and not flushed before the anchor forgets
    /// that they are void.
    ScrubUnflushed,
}

oneflush_blocklog::mutant_switch!();
