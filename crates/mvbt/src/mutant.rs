//! Broken variants of the engine, each without one invariant. One that names a number, such as
//! `I12` in brackets, trips its check: in `crates/crashlab/tests/it/mutants/invariants.rs`, or in
//! `tests/it/invariants.rs`. With the checks off the crash simulator catches those of
//! `crates/crashlab/tests/it/mutants/of_mvbt.rs`.
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
    /// No anchor raises H, and versions go on above it (I21).
    ReservedNotRaised,
    /// After a recovery versions begin above the last complete one, below H (I1).
    VersionsReused,
    /// A commit of several pages does not wait for its flush (I8).
    CommitUnflushed,
    /// More pages than a block lists are not flushed before it (I11).
    LargeUnflushed,
    /// Who opens a file does not flush what a dead process has written (I14).
    RecoveryUnflushed,
    /// Any directory of the version is what a block lists, whatever its checksum: I10 in vain.
    ChecksumsUnlisted,
    /// A transaction that has written pages early commits its last one alone (I9).
    EarlyPagesForgotten,
    /// A version whose transaction was rolled back after it had written is not made void (I13).
    RollbackNotVoid,
    /// A directory leaves to the other one what that still has of the history (H2).
    HistoryInFallback,
    /// Pages that the history alone needs are taken for free ones after an open: H5.
    KeptPagesReused,
    /// A file is cut before an anchor says that its blocks are settled (I23).
    CutUnsettled,
    /// A rollback after the commit's first step leaves the only page as it is (I20).
    SingleUnmarked,
    /// Void directories are taken out of their pages, and not flushed before the anchor forgets
    /// that they are void.
    ScrubUnflushed,
    /// A cell that ends is not listed, though readers may need it (I4).
    DeadUnlisted,
    /// A page says that it serves all readers that there are (I5).
    FloorTooLow,
    /// A fresh page keeps the directory that it had in an older use (I6).
    FreshNotEmptied,
    /// A long payload goes into pages that its own transaction has freed (I7).
    OverflowRewritten,
    /// A commit block lists no overflow pages (I10).
    OverflowUnlisted,
    /// A file that has grown is not flushed (I11a).
    GrowthUnflushed,
    /// Who writes first after a crash writes no anchor, and says that all is judged (I16).
    VoidsUnsaid,
    /// A failed write is forgotten (I17).
    FailureForgotten,
    /// A page that was read is kept, whatever the writer has put meanwhile (I18).
    StaleReadKept,
    /// The directory of a new file is not synced (I22).
    NameUnsynced,
    /// A version is published before its pages are entered (P1).
    EnteredLate,
    /// Readers do not show their versions (P2).
    ReaderUnseen,
    /// Users do not say that they have a slot (P3).
    SlotUncounted,
    /// What a dead writer has left is not judged (P4).
    RepairSkipped,
    /// A user who writes does not read the anchor that another one has written (P7).
    AnchorUnread,
    /// After a failed write a transaction says that it has left nothing (P8).
    FailureHidden,
    /// A writer does not say what it gives up (P9).
    GivenUpUnsaid,
}

oneflush_blocklog::mutant_switch!();
