//! Mutexes that know their place in the order of locks ([`ranks`](super::ranks)).

use super::ranks::LEAF;
use super::raw;

/// A mutex of this rank. While a thread holds it, the thread takes only mutexes of a higher rank.
/// In builds with debug assertions a breach is a panic.
#[derive(Default, Debug)]
pub struct Mutex<T, const RANK: u8 = LEAF>(raw::Mutex<T>);

pub struct MutexGuard<'a, T, const RANK: u8 = LEAF> {
    guard: raw::MutexGuard<'a, T>,
    held: Held<RANK>,
}

impl<T, const RANK: u8> Mutex<T, RANK> {
    pub const fn new(value: T) -> Mutex<T, RANK> {
        Mutex(raw::Mutex::new(value))
    }

    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T, RANK> {
        let held = Held::awaited::<T>();
        MutexGuard { guard: raw::lock(&self.0), held }
    }
}

#[cfg(not(feature = "shuttle"))]
impl<T, const RANK: u8> Mutex<T, RANK> {
    /// It does not wait, so there is no order.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, RANK>> {
        self.0.try_lock().map(|guard| MutexGuard { guard, held: Held::taken() })
    }
}

impl<'a, T, const RANK: u8> MutexGuard<'a, T, RANK> {
    /// Lets `act` release the mutex and take it again.
    pub(super) fn with(
        self,
        act: impl FnOnce(raw::MutexGuard<'a, T>) -> raw::MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T, RANK> {
        let MutexGuard { guard, held } = self;
        MutexGuard { guard: act(guard), held }
    }
}

impl<T, const RANK: u8> std::ops::Deref for MutexGuard<'_, T, RANK> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T, const RANK: u8> std::ops::DerefMut for MutexGuard<'_, T, RANK> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// This thread holds a mutex of this rank. Without debug assertions it knows nothing.
struct Held<const RANK: u8>;

#[cfg(debug_assertions)]
mod known {
    use std::cell::RefCell;

    use super::Held;
    use crate::sync::ranks;

    #[cfg(feature = "shuttle")]
    shuttle::thread_local! {
        static HELD: RefCell<Vec<u8>> = RefCell::new(Vec::new());
    }

    #[cfg(not(feature = "shuttle"))]
    thread_local! {
        static HELD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    impl<const RANK: u8> Held<RANK> {
        /// The thread is about to wait for the mutex around a `T`.
        #[track_caller]
        pub(super) fn awaited<T>() -> Held<RANK> {
            // While a thread ends, nothing is known of it.
            let highest = HELD.try_with(|held| held.borrow().iter().copied().max());
            if let Some(highest) = highest.ok().flatten() {
                let is_in_order = highest < RANK || highest == RANK && ranks::may_be_several(RANK);
                assert!(
                    is_in_order || std::thread::panicking(),
                    "a lock of rank {RANK}, around {}, is taken while one of rank {highest} is \
                        held: sync/ranks.rs",
                    std::any::type_name::<T>()
                );
            }
            Held::taken()
        }

        pub(super) fn taken() -> Held<RANK> {
            let _ = HELD.try_with(|held| held.borrow_mut().push(RANK));
            Held
        }
    }

    pub(super) fn apart<R>(act: impl FnOnce() -> R) -> R {
        struct SetAside(Vec<u8>);
        impl Drop for SetAside {
            fn drop(&mut self) {
                HELD.with(|held| held.replace(std::mem::take(&mut self.0)));
            }
        }
        let _set_aside = SetAside(HELD.with(RefCell::take));
        act()
    }

    impl<const RANK: u8> Drop for Held<RANK> {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|&rank| rank == RANK) {
                    held.remove(at);
                }
            });
        }
    }
}

/// Runs `act` as if nothing were held (`ranks.rs` says why it may).
#[cfg(debug_assertions)]
pub fn apart<R>(act: impl FnOnce() -> R) -> R {
    known::apart(act)
}

#[cfg(not(debug_assertions))]
pub fn apart<R>(act: impl FnOnce() -> R) -> R {
    act()
}

#[cfg(not(debug_assertions))]
impl<const RANK: u8> Held<RANK> {
    #[inline(always)]
    fn awaited<T>() -> Held<RANK> {
        Held
    }

    #[inline(always)]
    fn taken() -> Held<RANK> {
        Held
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::sync::ranks;

    #[test]
    fn a_lock_of_a_lower_rank_is_not_taken_while_a_higher_one_is_held() {
        assert_eq!(ranks::SHIMS, 0, "the lowest");
        let low = Mutex::<_, { ranks::SHIMS }>::new(());
        let high = Mutex::<_, { ranks::MAIN }>::new(());
        let leaf: Mutex<()> = Mutex::default();
        let panics =
            |act: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
        let in_order = || drop((low.lock(), high.lock(), leaf.lock()));
        assert!(!panics(&in_order));
        assert!(panics(&|| drop((high.lock(), low.lock()))));
        assert!(panics(&|| drop((leaf.lock(), high.lock()))));
        let other: Mutex<()> = Mutex::default();
        assert!(panics(&|| drop((leaf.lock(), other.lock()))), "of the same rank");
        let several = [(); 2].map(Mutex::<_, { ranks::MAW_LOG }>::new);
        assert!(!panics(&|| drop(several.each_ref().map(Mutex::lock))));
        assert!(!panics(&in_order), "nothing is held after these panics");
    }
}
