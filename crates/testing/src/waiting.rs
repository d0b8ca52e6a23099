//! Waiting for what comes sooner or later, however busy the machine is.
//!
//! A test never sleeps and then looks: it waits for what it looks for. The bound only ends a test
//! whose claim is false.

use std::time::{Duration, Instant};

/// For so long. No machine that runs the tests at all is so busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks.
const POLL: Duration = Duration::from_millis(5);

/// Waits until it is so; the test fails if it never is. What brings it about may be done in
/// `is_so`.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + slowed(PATIENCE);
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(POLL);
    }
}

/// How many times slower than usual this machine is: an emulated one, say.
const SLOWNESS: &str = "ONEFLUSH_TEST_SLOWNESS";

/// So long a test waits here for what takes at most `time` on a usual machine.
pub fn slowed(time: Duration) -> Duration {
    let Some(text) = std::env::var_os(SLOWNESS) else { return time };
    let factor: Option<u32> = text.to_str().and_then(|text| text.parse().ok());
    time * factor.unwrap_or_else(|| panic!("{SLOWNESS}: {text:?} is no number"))
}
