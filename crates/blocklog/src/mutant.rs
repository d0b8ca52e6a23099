//! Broken variants of this log, each without one promise. The crash simulator must catch every one
//! of them (`crates/crashlab/tests/it/mutants/`).
//!
//! Without the feature `mutants` there is none, and [`is`] is a constant.

/// What is broken, for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// V8 is not checked: a torn record counts as a whole one.
    UncheckedPayload,
    /// A new epoch has the number and the lane of the one before (L2).
    EpochReused,
    /// The records of every epoch are counted from 1 (L3).
    LsnReused,
    /// The last piece of a record of several is written durably. The others are not flushed (L4).
    PieceUnflushed,
    /// A record that does not fit is written beyond the end of its lane (L1).
    LaneOverrun,
}

/// Makes the switch of an `enum Mutant`: `choose` and `is`. Without the feature `mutants` of the
/// enum's crate, `is` is a constant.
#[macro_export]
macro_rules! mutant_switch {
    () => {
        /// 0: none. Else the mutant's number plus one.
        #[cfg(feature = "mutants")]
        static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

        /// Breaks the code, or mends it, from the next call on.
        #[cfg(feature = "mutants")]
        pub fn choose(mutant: Option<Mutant>) {
            CHOSEN.store(
                mutant.map_or(0, |mutant| mutant as u8 + 1),
                std::sync::atomic::Ordering::SeqCst,
            );
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
    };
}

mutant_switch!();
