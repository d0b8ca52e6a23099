//! `oneflush trace --rotate`: several files, one behind the other, that are one recording.
//!
//! Needs root, loop devices and tracefs; each test says so and passes where they are missing.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use oneflush_measure::place::{FsKind, Place};
use oneflush_testing::flawed::{Flawed, Flaws};
use oneflush_testing::{in_own_mounts, named, seed, wait_until};
use rusqlite::Connection;
use rustix::process::Signal;

use crate::common::{Sandbox, assert_refused, may_mount, skip_unless_root, stderr, stdout};
use crate::recording::{self, database, insert, scratch};
use crate::rotated::{self, Part, Recorder, names, numbers, parts};

/// So long a database waits between two commits.
const THINK: Duration = Duration::from_millis(8);

/// Commits for so long; says how many.
fn commits(db: &Connection, time: Duration, think: Duration) -> usize {
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < time {
        insert(db);
        count += 1;
        thread::sleep(think);
    }
    count
}

fn arguments<'a>(output: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["-o", output.to_str().unwrap(), "--rotate", "1s"];
    arguments.extend(more);
    arguments
}

#[test]
fn the_files_together_have_every_event_once_and_each_has_names_labels_and_whole_transactions() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let databases = ["persist", "delete", "wal"]
        .map(|mode| database(&place.path().join(format!("{mode}.db")), mode));
    fs::write(sandbox.path().join("labels"), "# which\ndevice=kiosk 7\nbuild=B\n").unwrap();
    let output = sandbox.path().join("app.zst");
    let rotating = arguments(&output, &["--labels", "labels"]);
    // The second one begins behind the first, and ends before it.
    let rotating = Recorder::begin(&sandbox, &place, &rotating);
    let whole = Recorder::begin(&sandbox, &place, &["-o", "whole.zst"]);
    let made: usize =
        databases.iter().map(|db| commits(db, Duration::from_millis(2500), THINK)).sum();
    whole.end(Signal::INT);
    rotating.end(Signal::TERM);

    let parts = parts(sandbox.path());
    assert!(parts.len() > 5, "{} parts", parts.len());
    let [one, many] = [&[Part::read(&sandbox.path().join("whole.zst"))][..], &parts]
        .map(rotated::lines_of_events);
    rotated::assert_same(&one, &many);
    let mut found = 0;
    for (n, part) in parts.iter().enumerate() {
        assert_eq!(part.facts.part, Some(n as u64 + 1));
        assert_eq!(part.facts.format, Some(1));
        assert_eq!(part.facts.file_systems, ["ext4"]);
        let labels = [("build", "B"), ("device", "kiosk 7")];
        assert!(
            part.facts.labels.iter().map(|(name, value)| (&**name, &**value)).eq(labels),
            "{:?}",
            part.facts
        );
        assert_eq!(part.facts.own_bytes, Some(0), "the files are on another device");
        assert_eq!(part.nameless, 0, "each file tells its names: {}", part.path.display());
        found += part.transactions.len();
    }
    let cut: u64 = parts.iter().map(|part| part.cut_count).sum();
    eprintln!("{found} of {made} commits in {} files, {cut} pieces of others", parts.len());
    assert!(found <= made && found * 100 >= made * 99, "{found} of {made}");
    assert!(found == made || cut > 0, "what is cut is said");
}

/// Their syncs are not told.
#[test]
fn on_xfs_and_btrfs_transactions_are_whole_and_files_have_their_names_too() {
    if scratch().is_none() {
        return;
    }
    for fs in [FsKind::Xfs, FsKind::Btrfs] {
        let Some(place) = recording::scratch_of(fs) else { continue };
        let sandbox = Sandbox::new();
        let db = database(&place.path().join("a.db"), "WAL");
        recording::sync(place.path());
        let output = sandbox.path().join("app.zst");
        let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
        let made = commits(&db, Duration::from_millis(3500), THINK);
        recorder.end(Signal::INT);
        let parts = parts(sandbox.path());
        let of_database = |found: &&serde_json::Value| {
            found["database"].as_str().is_some_and(|name| name.ends_with("/a.db"))
        };
        let found = parts.iter().flat_map(|part| &part.transactions).filter(of_database).count();
        eprintln!("{fs:?}: {found} of {made} commits in {} files", parts.len());
        assert!(parts.len() >= 3 && found <= made && found * 100 >= made * 99, "{fs:?}");
    }
}

/// No gap of a millisecond is there to put a boundary into.
#[test]
fn a_database_that_never_rests_loses_at_most_a_transaction_at_each_boundary() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let db = database(&place.path().join("a.db"), "DELETE");
    let output = sandbox.path().join("app.zst");
    let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
    let made = commits(&db, Duration::from_secs(5), Duration::ZERO);
    recorder.end(Signal::INT);
    let parts = parts(sandbox.path());
    let found: usize = parts.iter().map(|part| part.transactions.len()).sum();
    eprintln!("{found} of {made} commits in {} files", parts.len());
    assert!(parts.len() >= 3 && found + parts.len() > made && found <= made, "{found} of {made}");
}

#[test]
fn a_file_is_complete_after_its_time_also_where_nothing_happens() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let output = sandbox.path().join("app.zst");
    let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
    wait_until("three files", || numbers(sandbox.path()).len() >= 3);
    recorder.end(Signal::INT);
}

#[test]
fn only_so_many_files_are_kept_and_their_length_is_what_was_asked_for() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let db = database(&place.path().join("a.db"), "WAL");
    let output = sandbox.path().join("app.zst");
    let more = ["-o", output.to_str().unwrap(), "--rotate", "64K,1h", "--keep", "2"];
    let recorder = Recorder::begin(&sandbox, &place, &more);
    wait_until("the first ones are deleted", || {
        commits(&db, Duration::from_millis(200), Duration::ZERO);
        let whole = numbers(sandbox.path());
        assert!(whole.len() <= 3, "two, and for a moment a third");
        whole.first() >= Some(&3)
    });
    recorder.end(Signal::INT);
    let parts = parts(sandbox.path());
    assert_eq!(parts.len(), 2);
    // The last one ends when the recorder does.
    let bytes = fs::metadata(&parts[0].path).unwrap().len();
    assert!((60 << 10..256 << 10).contains(&bytes), "{bytes}");
    assert!(!names(sandbox.path()).iter().any(|name| name.ends_with(".part")));
}

#[test]
fn after_a_kill_numbers_go_on_and_the_file_that_was_cut_off_gets_its_name_and_says_so() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let db = database(&place.path().join("a.db"), "WAL");
    let output = sandbox.path().join("app.zst");
    let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
    let is_there = |name: &str| {
        fs::metadata(sandbox.path().join(name)).is_ok_and(|metadata| metadata.len() > 0)
    };
    wait_until("the second file is begun", || {
        commits(&db, Duration::from_millis(100), THINK);
        is_there("app.000002.zst.part") || is_there("app.000003.zst.part")
    });
    recorder.kill();
    let left = names(sandbox.path()).into_iter().find(|name| name.ends_with(".part")).unwrap();
    let cut = left.strip_suffix(".part").unwrap();
    let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
    commits(&db, Duration::from_millis(300), THINK);
    recorder.end(Signal::INT);
    let parts = parts(sandbox.path());
    let numbers: Vec<u64> = (1..=parts.len() as u64).collect();
    assert!(parts.iter().map(|part| part.number).eq(numbers), "none is missing");
    let of = parts.iter().find(|part| part.path.ends_with(cut)).expect("it has its name");
    assert!(parts.last().unwrap().number > of.number);
    let identified = sandbox.oneflush().arg("identify").arg(&of.path).output().unwrap();
    assert!(
        stdout(&identified).contains("the trace is cut off: the compressed data end early"),
        "{}",
        stdout(&identified)
    );
}

#[test]
fn what_the_recorder_itself_writes_is_counted_and_is_no_transaction() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let db = database(&place.path().join("a.db"), "WAL");
    let output = place.path().join("traces.db");
    fs::create_dir(&output).unwrap();
    let output = output.join("app.zst");
    let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
    let made = commits(&db, Duration::from_secs(5), THINK);
    let said = recorder.end(Signal::INT);
    let parts = parts(output.parent().unwrap());
    let own: u64 = parts.iter().map(|part| part.facts.own_bytes.unwrap()).sum();
    let whole: u64 = parts.iter().map(|part| fs::metadata(&part.path).unwrap().len()).sum();
    eprintln!("{own} of its own in {} files of {whole} bytes", parts.len());
    // Whole pages, some of them twice; the last file is written out when nobody records any more.
    let last = fs::metadata(&parts.last().unwrap().path).unwrap().len();
    assert!((whole - last..4 * whole).contains(&own), "{own} of {whole}");
    assert!(said.contains(&format!("of these {} KB are the recorder's own", own / 1024)), "{said}");
    let names: Vec<&str> = parts
        .iter()
        .flat_map(|part| &part.transactions)
        .map(|transaction| transaction["database"].as_str().unwrap())
        .collect();
    assert!(names.iter().all(|name| name.ends_with("/a.db")), "{names:?}");
    assert!(names.len() <= made && names.len() * 100 >= made * 99, "{} of {made}", names.len());
    // A recording of one file counts, too.
    let output = place.path().join("one.zst");
    let one = ["-o", output.to_str().unwrap()];
    let recorder = Recorder::begin(&sandbox, &place, &one);
    commits(&db, Duration::from_secs(2), THINK);
    recording::sync(place.path());
    recorder.end(Signal::INT);
    assert!(Part::read(&output).facts.own_bytes.unwrap() > 0);
}

#[test]
fn labels_are_read_again_for_each_file_and_those_that_are_wrong_are_said_once() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let (output, labels) = (sandbox.path().join("app.zst"), sandbox.path().join("labels"));
    fs::write(&labels, "build=A").unwrap();
    let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &["--labels", "labels"]));
    let builds = || -> Vec<String> {
        let whole = parts(sandbox.path()).into_iter();
        whole.map(|part| part.facts.labels["build"].clone()).collect()
    };
    wait_until("the first file", || builds() == ["A"]);
    fs::write(&labels, "build=B").unwrap();
    wait_until("a file of the new label", || builds().last().is_some_and(|build| build == "B"));
    fs::write(&labels, "build").unwrap();
    let known = builds().len();
    wait_until("two more files", || builds().len() >= known + 3);
    let said = recorder.end(Signal::INT);
    assert_eq!(builds().last().unwrap(), "B");
    assert_eq!(said.matches("line 1: \"build\" is no label").count(), 1, "{said}");
}

const FULL_BYTES: u64 = 64 << 20;

/// Leaves a little room.
fn fill(place: &Place) {
    let mut file = fs::File::create(place.path().join("filler")).unwrap();
    let piece = vec![1; 64 << 10];
    while file.write_all(&piece).is_ok() {}
    let bytes = file.metadata().unwrap().len();
    file.set_len(bytes - (256 << 10)).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn on_a_full_disk_the_oldest_file_makes_room_if_files_are_kept_only_for_a_while() {
    let Some(place) = scratch() else { return };
    let small = Place::scratch(FsKind::Ext4, FULL_BYTES).unwrap();
    fill(&small);
    let sandbox = Sandbox::new();
    let db = database(&place.path().join("a.db"), "WAL");
    let output = small.path().join("app.zst");
    let keep = ["-o", output.to_str().unwrap(), "--rotate", "64K", "--keep", "1000"];
    let recorder = Recorder::begin(&sandbox, &place, &keep);
    wait_until("the first ones made room", || {
        commits(&db, Duration::from_millis(200), Duration::ZERO);
        numbers(small.path()).first() >= Some(&3)
    });
    let said = recorder.end(Signal::INT);
    assert!(
        said.contains("the disk is full: ") && said.contains("000001.zst makes room"),
        "{said}"
    );
    let parts = parts(small.path());
    assert!(parts.windows(2).all(|two| two[0].number + 1 == two[1].number));
    assert!(parts.iter().all(|part| part.ends), "each is whole");
}

#[test]
fn on_a_full_disk_the_recorder_ends_with_an_error_where_nothing_may_be_deleted() {
    let Some(place) = scratch() else { return };
    let small = Place::scratch(FsKind::Ext4, FULL_BYTES).unwrap();
    fill(&small);
    let sandbox = Sandbox::new();
    let db = database(&place.path().join("a.db"), "WAL");
    let output = small.path().join("app.zst");
    let arguments = ["-o", output.to_str().unwrap(), "--rotate", "64K"];
    let mut recorder = Recorder::begin(&sandbox, &place, &arguments);
    wait_until("the recorder ends", || {
        commits(&db, Duration::from_millis(200), Duration::ZERO);
        recorder.has_ended()
    });
    let (code, said) = recorder.ended();
    assert_eq!(code, Some(1), "{said}");
    for word in ["cannot write the recording", ".zst.part", "No space left", "--keep N"] {
        assert!(said.contains(word), "{word} in {said}");
    }
    let parts = parts(small.path());
    assert!(!parts.is_empty() && parts.iter().all(|part| part.ends), "what is whole stays");
}

#[test]
fn options_that_do_not_fit_are_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    let run =
        |arguments: &[&str]| sandbox.oneflush().arg("trace").args(arguments).output().unwrap();
    let refused = |arguments: &[&str], words: &[&str]| assert_refused(&run(arguments), 2, words);
    refused(&["-o", "t.zst", "--rotate", "64"], &["--rotate", "no unit", "64M,10m"]);
    refused(&["-o", "t.zst", "--rotate", "64m,10M,1s"], &["--rotate", "second of its kind"]);
    refused(&["-o", "t.zst", "--keep", "3"], &["--rotate"]);
    refused(&["-o", "t.zst", "--rotate", "1m", "--keep", "0"], &["--keep"]);
    refused(&["-o", "-", "--rotate", "1m"], &["-o -", "--rotate", "name one"]);
    refused(
        &["-o", "t.txt", "--rotate", "1m", "--vfs", "--", "true"],
        &["--rotate", "--vfs", "leave --rotate out"],
    );
    refused(&["-o", "t.txt", "--labels", "l", "--vfs", "--", "true"], &["--labels", "--vfs"]);
    if skip_unless_root("a recording") {
        return;
    }
    fs::write(sandbox.path().join("l"), "a=1\nB=2").unwrap();
    refused(&["-o", "t.zst", "--labels", "l"], &["--labels l, line 2", "small letters"]);
    refused(&["-o", "t.zst", "--labels", "none"], &["--labels none", "cannot be read"]);
    assert_eq!(names(sandbox.path()), ["l", "tmp"]);
    let Some(place) = scratch() else { return };
    let mut command = sandbox.oneflush();
    command.args(["trace", "-o", "/nowhere/t.zst", "--rotate", "1m", "--dir"]).arg(place.path());
    assert_refused(&command.output().unwrap(), 2, &["-o /nowhere/t.zst", "existing directory"]);
    let mut command = sandbox.oneflush();
    command.args(["trace", "-o", "t.zst", "--rotate", "1m", "--dir"]).arg(place.path());
    let output = command.args(["--", "./nosuchprogram"]).output().unwrap();
    assert_refused(&output, 1, &["cannot start ./nosuchprogram"]);
    assert_eq!(names(sandbox.path()), ["l", "tmp"], "no recording is left");
}

#[test]
fn a_second_recorder_does_not_take_the_file_that_the_first_one_writes() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let output = sandbox.path().join("app.zst");
    let first = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
    let second = rotated::command(&sandbox, &place, &arguments(&output, &[])).output().unwrap();
    assert_refused(&second, 2, &[".zst.part", "another recorder", "-o"]);
    first.end(Signal::INT);
}

#[test]
fn a_program_is_recorded_in_several_files_until_it_ends() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let output = sandbox.path().join("app.zst");
    let arguments = arguments(&output, &["--", "sh", "-c", "sleep 2.5; exit 7"]);
    let output = rotated::command(&sandbox, &place, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("app.*.zst: "), "{}", stderr(&output));
    assert!(stderr(&output).contains(" files\n"), "{}", stderr(&output));
    assert!(parts(sandbox.path()).len() >= 2);
}

#[test]
fn a_recording_of_a_newer_format_is_refused() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path().join("t.txt"), "# tracer: nop\n#\n# oneflush: format 2\n").unwrap();
    let output = sandbox.oneflush().args(["identify", "t.txt"]).output().unwrap();
    assert_refused(&output, 1, &["t.txt", "format 2", "knows format 1", "newer one"]);
}

/// Names are durable when the next file begins, and no file has its name before it is whole.
#[test]
fn after_a_loss_of_power_each_file_with_its_name_is_whole() {
    let test = named!(after_a_loss_of_power_each_file_with_its_name_is_whole);
    if !may_mount() || !in_own_mounts(test, Duration::from_secs(120)) {
        return;
    }
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let db = database(&place.path().join("app.db"), "wal");
    let traces = Flawed::mount("power", Flaws::default()).unwrap();
    traces.begin_history().unwrap();
    let output = traces.path().join("app.zst");
    let recorder = Recorder::begin(&sandbox, &place, &arguments(&output, &[]));
    commits(&db, Duration::from_millis(2500), THINK);
    recorder.end(Signal::TERM);
    let losses = traces.end_history().unwrap().losses(seed());

    let whole = names(traces.path());
    assert!(whole.len() > 2 && whole.iter().all(|name| name.ends_with(".zst")), "{whole:?}");
    let mut named_count = 0;
    for loss in &losses {
        let is_named = |path: &Path| path.extension().is_some_and(|end| end == "zst");
        for (path, bytes) in loss.files.iter().filter(|(path, _)| is_named(path)) {
            named_count += 1;
            let expected = fs::read(traces.lower().join(path)).unwrap();
            assert!(bytes.as_ref() == Some(&expected), "{} after {}", path.display(), loss.steps);
        }
        if loss.is_at_end {
            assert!(loss.files.keys().map(|path| path.to_str().unwrap()).eq(&whole));
        }
    }
    eprintln!("{} states, {named_count} files with names", losses.len());
    assert!(named_count > 0);
}
