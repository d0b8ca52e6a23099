//! File systems: one that clones, one in memory, one that is full.

use std::time::Duration;

use oneflush_bench::place::{FsKind, Place};
use oneflush_testing::in_own_mounts;
use rustix::mount::{MountFlags, mount};

use super::*;
use crate::common::{assert_refused, skip_unless_root};

const AT_MOST: Duration = Duration::from_secs(300);

#[test]
fn a_file_system_that_clones_is_asked_to() {
    if skip_unless_root("a mount")
        || !in_own_mounts("places::a_file_system_that_clones_is_asked_to", AT_MOST)
    {
        return;
    }
    if !oneflush_testing::has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::scratch(FsKind::Xfs, 512 << 20).unwrap();
    let path = place.path().join("app.db");
    make(&path, "delete", 20_000);
    let found = tried(&sandbox, &path);
    assert_eq!(found["subject"]["database"]["cloned"], true);
    assert_eq!(found["subject"]["fs"], "xfs");
    // The disk is the test's own, and so the counts are.
    let counting = &found["counting"];
    assert!(
        counting["bytes_counted"] != "calls" && counting["flushes_counted"] != "calls",
        "{counting}"
    );
    assert!(found["subject"]["device"].as_str().unwrap().starts_with("loop"), "{found}");
}

#[test]
fn memory_is_no_place_for_advice_and_a_small_one_is_refused() {
    let name = "places::memory_is_no_place_for_advice_and_a_small_one_is_refused";
    if skip_unless_root("a mount") || !in_own_mounts(name, AT_MOST) {
        return;
    }
    let sandbox = Sandbox::new();
    let mounted = |name: &str, options: &std::ffi::CStr| {
        let path = sandbox.open_directory(name);
        mount("tmpfs", &path, "tmpfs", MountFlags::empty(), Some(options)).unwrap();
        path
    };
    let path = mounted("memory", c"size=256m").join("app.db");
    make(&path, "wal", 1_000);
    let found = tried(&sandbox, &path);
    assert_eq!(found["subject"]["fault"], "memory");
    assert!(found["advice"]["strategy"].is_null());
    let words = found["advice"]["words"][0].as_str().unwrap();
    assert!(words.contains("tmpfs is memory"), "{words}");

    let path = mounted("small", c"size=20m").join("app.db");
    make(&path, "wal", 1_000);
    assert_refused(
        &command(&sandbox, &path).output().unwrap(),
        1,
        &["too little room", "are free", "--dir"],
    );
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    // Elsewhere there is room.
    let other = sandbox.open_directory("other");
    let output = command_in(&sandbox, &path, &other);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("another file system than the database"),
        "{}",
        stdout(&output)
    );
    sandbox.assert_nothing_left(&[&other]);
}

fn command_in(sandbox: &Sandbox, path: &Path, directory: &Path) -> Output {
    let mut command = sandbox.oneflush();
    command.args(["try", "--seconds", "1", "--dir"]).arg(directory).arg(path).output().unwrap()
}
