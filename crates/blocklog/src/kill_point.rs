//! What happens at a place where a process can be made to die, for tests that kill processes.
//!
//! `ONEFLUSH_KILL_AT=name:n` ends the process by `SIGKILL` when it comes to that place for the
//! n-th time; `ONEFLUSH_STOP_AT=name:n` stops it there until `SIGCONT`; `ONEFLUSH_PANIC_AT=name:n`
//! panics there.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rustix::process::{Signal, getpid, kill_process};

/// Declares the places of a crate: `Point = "name"`, with what has been done there. All of them are
/// known with its feature `kill-points` alone.
#[macro_export]
macro_rules! kill_points {
    ($($(#[$about:meta])* $point:ident = $name:literal,)*) => {
        /// A place between two steps that other processes can see.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KillPoint {
            $($(#[$about])* $point,)*
        }

        #[cfg(feature = "kill-points")]
        impl KillPoint {
            pub const ALL: &[KillPoint] = &[$(KillPoint::$point,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(KillPoint::$point => $name,)*
                }
            }
        }
    };
}

/// What happens (nothing: a panic), the place, how often it is come to until then.
type Wanted = (Option<Signal>, String, AtomicU64);

/// The process has come to this place.
pub fn reached(place: &str) {
    static WANTED: LazyLock<Option<Wanted>> = LazyLock::new(|| {
        let ways = [
            ("ONEFLUSH_KILL_AT", Some(Signal::KILL)),
            ("ONEFLUSH_STOP_AT", Some(Signal::STOP)),
            ("ONEFLUSH_PANIC_AT", None),
        ];
        let (signal, wanted) = ways
            .into_iter()
            .find_map(|(name, signal)| Some((signal, std::env::var(name).ok()?)))?;
        let (name, count) = wanted.split_once(':')?;
        Some((signal, name.to_owned(), AtomicU64::new(count.parse().ok()?)))
    });
    if let Some((signal, name, left)) = &*WANTED
        && name == place
        && left.fetch_sub(1, SeqCst) == 1
    {
        let Some(signal) = *signal else { panic!("as told, at {name}") };
        let _ = kill_process(getpid(), signal);
        // The signal may come to another thread first.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
