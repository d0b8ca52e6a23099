//! Invariants whose breach would lose or damage data. They are checked in release as well, where
//! the breach would happen.
//!
//! A breach panics before it does harm. Whoever stops the panic lets nothing more be acknowledged.
//! `docs/invariants.md` is made of these checks, and of the mutants that trip them
//! (`scripts/invariants`).

/// Checks that an invariant holds: its number, its sentence, and the condition.
#[macro_export]
macro_rules! invariant {
    ($number:literal, $sentence:literal, $holds:expr $(,)?) => {
        if !$holds {
            $crate::invariant::broken($number, $sentence);
        }
    };
}

/// With the feature `mutants` it returns where checks are off (`Unchecked`).
#[cold]
#[inline(never)]
#[track_caller]
pub fn broken(number: &str, sentence: &str) {
    #[cfg(feature = "mutants")]
    if unchecked::is() {
        return;
    }
    panic!("invariant {number} is broken: {sentence} [OF-246]");
}

#[cfg(feature = "mutants")]
pub use unchecked::Unchecked;

#[cfg(feature = "mutants")]
mod unchecked {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    static EVERYWHERE: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        static HERE: Cell<u32> = const { Cell::new(0) };
    }

    /// While it lives nothing is checked: the crash simulator is to catch a mutant by itself.
    pub struct Unchecked {
        is_everywhere: bool,
    }

    impl Unchecked {
        /// In this process.
        pub fn everywhere() -> Unchecked {
            EVERYWHERE.fetch_add(1, SeqCst);
            Unchecked { is_everywhere: true }
        }

        /// In this thread.
        pub fn here() -> Unchecked {
            HERE.set(HERE.get() + 1);
            Unchecked { is_everywhere: false }
        }
    }

    impl Drop for Unchecked {
        fn drop(&mut self) {
            if self.is_everywhere {
                EVERYWHERE.fetch_sub(1, SeqCst);
            } else {
                HERE.set(HERE.get() - 1);
            }
        }
    }

    pub(super) fn is() -> bool {
        EVERYWHERE.load(SeqCst) > 0 || HERE.get() > 0
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_breach_panics_with_the_number_and_the_sentence() {
        let broken =
            |holds: bool| std::panic::catch_unwind(|| invariant!("L0", "a test holds", holds));
        assert!(broken(true).is_ok());
        let panic = broken(false).unwrap_err();
        let told = panic.downcast_ref::<String>().unwrap();
        assert_eq!(told, "invariant L0 is broken: a test holds [OF-246]");
    }
}
