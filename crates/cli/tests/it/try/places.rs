//! File systems: one that clones, one in memory, one that is full.

use std::time::Duration;

use oneflush_measure::place::{FsKind, Place};
use oneflush_testing::{Running, in_own_mounts, named, wait_until};
use rustix::mount::{MountFlags, mount};

use super::*;
use crate::common::{assert_refused, skip_unless_root};

const AT_MOST: Duration = Duration::from_secs(300);

/// The test may make a disk of its own, with another program that writes there.
fn has_own_disk(test: &str) -> bool {
    !skip_unless_root("a mount")
        && in_own_mounts(test, AT_MOST)
        && oneflush_testing::has_programs(&["mkfs.xfs", "python3"])
}

/// A disk that is the test's own: what is counted there is known to be right.
#[test]
fn a_disk_is_counted_and_who_else_writes_to_it_is_noticed() {
    if !has_own_disk(named!(a_disk_is_counted_and_who_else_writes_to_it_is_noticed)) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::scratch(FsKind::Xfs, 512 << 20).unwrap();
    let path = place.path().join("app.db");
    make(&path, "delete", 2_000);
    rustix::fs::syncfs(fs::File::open(place.path()).unwrap()).unwrap();
    let counted = || {
        let output = sandbox
            .oneflush()
            .args(["try", "--seconds", "3", "--json"])
            .arg(&path)
            .output()
            .unwrap();
        json(&output)
    };
    let found = counted();
    assert_eq!(found["subject"]["fs"], "xfs");
    assert!(found["subject"]["device"].as_str().unwrap().starts_with("loop"), "{found}");
    let counting = &found["counting"];
    assert!(counting["bytes_counted"] != "calls", "{counting}");
    assert!(counting["flushes_counted"] != "calls", "{counting}");
    let delete = &found["measured"][0];
    assert!(delete["flushes_per_commit"].as_f64().unwrap() >= 2.0, "journal, database: {delete}");
    assert!(delete["bytes_per_commit"].as_f64().unwrap() >= 12_000.0, "{delete}");

    let script = "import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
while True:
    os.pwrite(file, os.urandom(1 << 20), 0)
    os.fsync(file)
";
    let other = place.path().join("other");
    let mut writer = Command::new("python3");
    let _writer = Running::start(writer.args(["-c", script]).arg(&other));
    wait_until("the other writer", || other.exists());
    let found = counted();
    assert_eq!(found["counting"]["bytes_counted"], "calls", "{found}");
    assert!(found["counting"]["others_bytes_per_s"].as_f64().unwrap() > 1e5, "{found}");
}

/// A neighbour whose bursts are in no idle gap: it writes while there is a WAL. SQLite's WAL then
/// cost 464,475 bytes a commit, and the advice was `eager` for 0.07 of the bytes.
#[test]
fn bursts_that_no_idle_gap_sees_are_no_bytes_of_a_commit() {
    if !has_own_disk(named!(bursts_that_no_idle_gap_sees_are_no_bytes_of_a_commit)) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::scratch(FsKind::Xfs, 512 << 20).unwrap();
    let path = place.path().join("app.db");
    make(&path, "wal", 2_000);
    let script = "import glob, os, sys, time
file = os.open(sys.argv[1] + '/other', os.O_RDWR | os.O_CREAT)
noise = os.urandom(4 << 20)
while True:
    if glob.glob(sys.argv[1] + '/oneflush-*/copy.db-wal'):
        os.pwrite(file, noise, 0)
        os.fdatasync(file)
    else:
        time.sleep(0.002)
";
    let mut writer = Command::new("python3");
    let _writer = Running::start(writer.args(["-c", script]).arg(place.path()));
    wait_until("the other writer", || place.path().join("other").exists());
    let mut command = sandbox.oneflush();
    let output = command.args(["try", "--seconds", "3", "--json"]).arg(&path).output().unwrap();
    let found = json(&output);
    // Two pages of the table and two of the index: as with a quiet disk, or what SQLite wrote.
    let stock = found["measured"][0]["bytes_per_commit"].as_f64().unwrap();
    assert!(stock < 60_000.0, "{stock}: {}", found["counting"]);
    assert_eq!(found["counting"]["bytes_counted"], "calls", "{found}");
    assert_eq!(found["counting"]["others_in_bursts"], true, "{found}");
}

#[test]
fn a_large_database_is_cloned_where_the_file_system_can() {
    let name = named!(a_large_database_is_cloned_where_the_file_system_can);
    if skip_unless_root("a mount") || !in_own_mounts(name, AT_MOST) {
        return;
    }
    if !oneflush_testing::has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let place = Place::scratch(FsKind::Xfs, 512 << 20).unwrap();
    let path = place.path().join("app.db");
    make(&path, "delete", 2_000);
    // SQLite goes by the number of pages in the header. Twice the file has no room here.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(480 << 20).unwrap();
    let output = command(&sandbox, &path).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("The copy is a clone"), "{}", stdout(&output));
    assert_eq!(file.metadata().unwrap().len(), 480 << 20);
}

#[test]
fn memory_is_no_place_for_advice_and_a_small_one_is_refused() {
    let name = named!(memory_is_no_place_for_advice_and_a_small_one_is_refused);
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
        3,
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
