//! The states of losses of power that all strategies and engines share, so that one more takes no
//! more time.

/// `ONEFLUSH_TEST_STATES` says another number, as `make states` does.
const STATES: u64 = 20_000;
/// `plain`, `eager`, `waldio`, `maw`; the second B-tree alone, and with SQLite on it.
const SHARES: u64 = 6;

pub fn states_of_one() -> u64 {
    let given = std::env::var("ONEFLUSH_TEST_STATES").ok();
    given.and_then(|states| states.parse().ok()).unwrap_or(STATES) / SHARES
}
