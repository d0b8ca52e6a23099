//! Broken variants of `eager`, `waldio` and `maw`, each with one promise less.
//!
//! The crash simulator must catch every one (`crates/crashlab/tests/it/mutants/`). Without the
//! feature `mutants` there is none, and [`is`] is a constant.

/// What is broken in the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A delta is against an older version of its page than the version that recovery has.
    WrongBase,
    /// A page is copied from one that only the database file has. The source is taken for one that
    /// the log has.
    SourcesUncounted,
    /// A commit is acknowledged before a flush has covered it (C1).
    AcknowledgedUncovered,
    /// After a failed flush the next commit tries another one (C2).
    FailureForgotten,
    /// The board is changed without `Busy` (B1).
    BusyForgotten,
    /// A checkpoint logs no page before it overwrites it (E2).
    NoPageImages,
    /// The first checkpoint that writes page 1 takes the guard away, while the log is in use (G1).
    GuardClearedEarly,
    /// The guard is written when the log begins, and becomes durable some time later.
    GuardSetLate,
    /// The guard names the log but does not change the version. So SQLite alone opens the file.
    GuardUnseen,
    /// A process goes on from where it left the log, wherever other processes have left it
    /// meanwhile (B2).
    StaleHead,
    /// The first commit after a recovery begins an epoch, as if the database file had what was
    /// recovered (E1).
    EpochAfterRecovery,
    /// With `waldio`: displaced bytes do not go to the lane (W1).
    LaneForgotten,
    /// With `waldio`: the log gets no copy of page 1.
    PageOneNotKept,
    /// With `waldio`: the header says that the displaced bytes are one byte further.
    GapMisplaced,
    /// With `waldio`: a frame whose bytes in the lane are durable later than the frame itself.
    LaneUnflushed,
    /// With `waldio`: transactions share a block of the lane.
    LaneShared,
    /// With `waldio`: a frame is written again, with the block before it.
    BlockRewritten,
    /// With `waldio`: nobody is told that the WAL begins anew.
    GenerationUntold,
    /// With `waldio`: frames that were rolled back stay in the cache.
    UnpublishedCached,
    /// With `waldio`: the log's end leaves the WAL's header where it is.
    HeaderLeft,
    /// With `maw`: a reader does not look whether a writer has died in the middle (rule 5).
    BusyUnseen,
    /// With `maw`: the first touch of a page is a delta against the page in place (rule 5).
    DeltaAgainstPlace,
    /// With `maw`: an epoch begins before the database file is synced (M1).
    EpochUnsynced,
    /// With `maw`: a super-journal's name goes into an absorbed journal, and each database commits
    /// at its own journal's end (rule 3).
    SuperJournalMissed,
    /// With `maw`: the deletion of an absorbed super-journal commits nothing. Each database commits
    /// at its own journal's end (rule 3).
    CommitsOneByOne,
    /// With `maw`: a database of a transaction over several is not linked to the log that has the
    /// record.
    LinkForgotten,
    /// With `maw`: a link is followed whatever the log calls the database.
    NamesUnread,
    /// With `maw`: a database that is not found needs no log.
    LogNotKept,
    /// With `maw`: the temporary file is not emptied before its next use (rule 6).
    TemporaryNotEmptied,
    /// With `maw`: the absorbed journal can be seen by others, and outlives a crash (rule 1).
    JournalVisible,
    /// With `maw`: the end of a rollback commits what was rolled back (rule 2).
    RollbackCommits,
    /// The board is not told that the image became shorter (E3).
    CutUntold,
}

oneflush_blocklog::mutant_switch!();
