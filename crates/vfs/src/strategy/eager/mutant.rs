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

/// 0: none; else one more than the mutant's number.
#[cfg(feature = "mutants")]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Breaks the log, or mends it, from the next call on.
#[cfg(feature = "mutants")]
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.store(mutant.map_or(0, |mutant| mutant as u8 + 1), std::sync::atomic::Ordering::SeqCst);
}

#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    CHOSEN.load(std::sync::atomic::Ordering::SeqCst) == mutant as u8 + 1
}

#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn is(_: Mutant) -> bool {
    false
}
