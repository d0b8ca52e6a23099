//! `oneflush probe` in places that do not keep what a database relies on: it says so and goes on,
//! whatever fails there.

use std::time::Duration;

use oneflush_measure::probe::probe;
use oneflush_testing::flawed::{Answer, Flawed, Flaws, Locks, Sync, why_not};
use oneflush_testing::{in_own_mounts, named};

#[test]
fn what_fails_in_a_place_is_said_and_ends_no_probe() {
    if let Some(why) = why_not() {
        return oneflush_testing::skip(why);
    }
    let name = named!(what_fails_in_a_place_is_said_and_ends_no_probe);
    if !in_own_mounts(name, Duration::from_secs(300)) {
        return;
    }
    let none = Flaws::default();
    let cases = [
        (
            "oneflush",
            Flaws { sync: Sync::Fails, ..none },
            "sync of file",
            "refuses: Input/output error",
        ),
        // The latencies ended it with "Invalid argument".
        ("oneflush", Flaws { refuses_direct: true, ..none }, "direct I/O", "eager           works"),
        (
            "oneflush",
            Flaws { locks: Locks::Flock(Answer::Granted), ..none },
            "flock",
            "refuses: flock keeps nobody out",
        ),
        ("other", none, "", "refuses: eager is refused on fuse.other"),
    ];
    for (subtype, flaws, fails, expected) in cases {
        let place = Flawed::mount(subtype, flaws).unwrap();
        let probe = probe(place.path()).unwrap();
        let failed =
            probe.tried.iter().find(|tried| tried.fails.is_some()).map_or("", |tried| tried.what);
        assert_eq!(failed, fails, "{probe}");
        assert!(probe.to_string().contains(expected), "{expected}: {probe}");
        assert!(!probe.to_string().contains("[OF-"), "a table has no codes: {probe}");
        assert_eq!(probe.latencies.is_empty(), flaws.sync == Sync::Fails, "{probe}");
        assert_eq!(std::fs::read_dir(place.lower()).unwrap().count(), 0, "nothing is left");
    }
}
