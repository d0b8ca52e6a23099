//! `oneflush bench --guest`: what is refused before a guest is started. Guests themselves are for
//! `guest/bench`.

use std::fs;

use crate::common::{Sandbox, assert_refused};

#[test]
fn what_a_guest_cannot_have_is_refused_by_name() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("dir")).unwrap();
    for (arguments, code, words) in [
        (&["--guest", "zfs"][..], 2, &["zfs", "f2fs, ext4, xfs or btrfs"][..]),
        (
            &["--guest", "ext4", "--modes", "wal:mounted"],
            2,
            &["wal:mounted", "--guest has no mount"],
        ),
        (&["--guest", "f2fs", "--dir", "dir"], 2, &["--guest", "--dir"]),
        (&["--guest", "f2fs", "--fs", "xfs"], 2, &["--guest", "--fs"]),
        (&["--guest", "f2fs", "--sql", "dir"], 2, &["--guest", "--sql"]),
        (&["--guest", "f2fs", "--keep-trace", "t"], 2, &["--guest", "--keep-trace"]),
        (&["--guest", "f2fs", "--from", "t"], 2, &["--guest", "--from"]),
    ] {
        let output = sandbox.oneflush().arg("bench").args(arguments).output().unwrap();
        assert_refused(&output, code, words);
    }
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn without_a_checkout_the_error_is_one_line_with_the_way_out() {
    let sandbox = Sandbox::new();
    // A copy outside of the checkout.
    let mut command = sandbox.oneflush_as_nobody();
    let output = command.args(["bench", "--guest", "f2fs", "--modes", "delete"]).output().unwrap();
    assert_refused(&output, 1, &["guest/run", "checkout", "make build-all"]);
    let mut command = sandbox.oneflush_as_nobody();
    command.args(["bench", "--paper", "maw", "--guest", "f2fs", "--only", "Fig. 5"]);
    assert_refused(&command.output().unwrap(), 1, &["guest/run", "checkout", "make build-all"]);
}
