//! `oneflush identify --dataset` and a loss of power: of each state that may be left, no half
//! file is seen, and the command once more makes all of it.
//!
//! Needs root and FUSE; each test says so and passes where they are missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use oneflush_testing::flawed::{Flawed, Flaws, History};
use oneflush_testing::{in_own_mounts, named, seed};

use crate::common::commits::Commits;
use crate::common::visible::files;
use crate::common::{Sandbox, may_mount, stderr};

type Files = BTreeMap<String, Vec<u8>>;

fn identify(sandbox: &Sandbox, dataset: &Path, arguments: &str) {
    let mut command = sandbox.oneflush();
    command.args(["identify", "--dataset"]).arg(dataset).args(arguments.split(' '));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// What the last of the commands asks of its place, after those before it.
fn history(sandbox: &Sandbox, place: &Flawed, commands: &[&str]) -> History {
    let (last, before) = commands.split_last().unwrap();
    let dataset = place.path().join("fleet");
    before.iter().for_each(|arguments| identify(sandbox, &dataset, arguments));
    place.begin_history().unwrap();
    identify(sandbox, &dataset, last);
    place.end_history().unwrap()
}

/// The files that the commands leave, one after the other, where no power is lost.
fn expected(sandbox: &Sandbox, commands: &[&str]) -> Vec<Files> {
    let plain = tempfile::tempdir().unwrap();
    let dataset = plain.path().join("fleet");
    let done = |arguments: &&str| {
        identify(sandbox, &dataset, arguments);
        files(&dataset)
    };
    commands.iter().map(done).collect()
}

fn assert_losses(test: &str, commands: &[&str]) {
    if !may_mount() || !in_own_mounts(test, Duration::from_secs(300)) {
        return;
    }
    let sandbox = Sandbox::new();
    // An hour between two commits, so that a trace has several days, and files.
    let spread = |count, name| Commits { gap_us: 3_600_000_000, name, ..Commits::new(count, 2) };
    fs::write(sandbox.path().join("one.txt"), spread(60, "app").text()).unwrap();
    fs::write(sandbox.path().join("two.txt"), spread(6, "other").text()).unwrap();

    let known = expected(&sandbox, commands);
    let last = known.last().unwrap();
    let place = Flawed::mount("power", Flaws::default()).unwrap();
    let losses = history(&sandbox, &place, commands).losses(seed());
    assert!(losses.len() > 100, "{} states", losses.len());
    for loss in &losses {
        // What is synced here tells nothing.
        let left = tempfile::tempdir_in("/dev/shm").unwrap();
        loss.put(left.path()).unwrap();
        let dataset = left.path().join("fleet");
        let at = format!("after step {} of {commands:?}", loss.steps);
        if dataset.is_dir() {
            let found = files(&dataset);
            for (path, bytes) in &found {
                let is_whole = known.iter().any(|known| known.get(path) == Some(bytes));
                assert!(is_whole, "{at}: {path} is torn: {:?}", loss.files.keys());
            }
            if loss.is_at_end {
                assert_same(&found, last, &format!("{at}, which has ended well"));
            }
        } else {
            assert!(!loss.is_at_end, "{at}: the data set is gone");
        }
        identify(&sandbox, &dataset, commands.last().unwrap());
        assert_same(&files(&dataset), last, &format!("{at}, and the command again"));
    }
    eprintln!("{} states", losses.len());
}

fn assert_same(found: &Files, expected: &Files, when: &str) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{when}");
    assert!(found == expected, "{when}: a file has something else");
}

#[test]
fn of_a_new_data_set_all_is_there_or_comes_again() {
    assert_losses(
        named!(of_a_new_data_set_all_is_there_or_comes_again),
        &["--begin 2026-11-28T00:00:00Z --label device=k one.txt two.txt"],
    );
}

#[test]
fn rows_that_are_replaced_in_their_files_are_the_old_or_the_new_ones() {
    let begin = "--begin 2026-11-28T00:00:00Z --label device=k";
    assert_losses(
        named!(rows_that_are_replaced_in_their_files_are_the_old_or_the_new_ones),
        &[&format!("{begin},build=A one.txt two.txt"), &format!("{begin},build=B one.txt")],
    );
}

/// Rows of a trace that began on another day are in other folders.
#[test]
fn rows_that_move_to_other_folders_do_not_stay_in_the_old_ones() {
    assert_losses(
        named!(rows_that_move_to_other_folders_do_not_stay_in_the_old_ones),
        &[
            "--begin 2026-11-28T00:00:00Z --label device=k one.txt two.txt",
            "--begin 2026-12-24T00:00:00Z --label device=k one.txt",
        ],
    );
}
