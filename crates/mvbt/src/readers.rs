//! Which versions are being read, in this process.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::Version;

#[derive(Default)]
struct State {
    current: Version,
    /// What is older may be gone: a writer was told so.
    given_up: Version,
    /// How many readers have each version.
    readers: BTreeMap<Version, usize>,
}

/// A reader registers the current version under the lock under which the writer publishes the next
/// one and asks for the oldest. So the writer of x sees each reader below x − 1.
#[derive(Default)]
pub struct Readers(Mutex<State>);

impl Readers {
    pub fn register(&self) -> Version {
        let mut state = self.0.lock();
        let version = state.current;
        *state.readers.entry(version).or_default() += 1;
        version
    }

    /// Registers an older version. False: it may be gone, or is not committed.
    pub fn register_at(&self, version: Version) -> bool {
        let mut state = self.0.lock();
        let is_there = state.given_up <= version && version <= state.current;
        if is_there {
            *state.readers.entry(version).or_default() += 1;
        }
        is_there
    }

    /// A writer will keep nothing older for readers that begin from now on. To be called before it
    /// asks for the horizon.
    pub fn give_up_before(&self, version: Version) {
        let mut state = self.0.lock();
        state.given_up = state.given_up.max(version);
    }

    pub fn unregister(&self, version: Version) {
        let mut state = self.0.lock();
        if let Some(count) = state.readers.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                state.readers.remove(&version);
            }
        }
    }

    pub fn current(&self) -> Version {
        self.0.lock().current
    }

    pub fn publish(&self, version: Version) {
        self.0.lock().current = version;
    }

    /// The oldest version that is read, or the current one.
    pub fn horizon(&self) -> Version {
        let state = self.0.lock();
        state.readers.keys().next().copied().unwrap_or(state.current)
    }
}
