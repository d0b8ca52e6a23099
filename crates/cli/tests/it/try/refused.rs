//! What is refused, with words that lead out. It is as it was, and nothing is beside it.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::common::assert_refused;
use crate::common::crashed::{EAGER, MAW, WALDIO};

#[track_caller]
fn refused(sandbox: &Sandbox, path: &Path, code: i32, words: &[&str]) {
    let before = look(path.parent().unwrap());
    assert_refused(&command(sandbox, path).output().unwrap(), code, words);
    assert!(look(path.parent().unwrap()) == before, "it is as it was");
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn what_is_no_database_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    refused(&sandbox, &data.join("none.db"), 1, &["none.db", "No such file"]);
    fs::write(data.join("notes.txt"), "a text that is long enough for a header".repeat(9)).unwrap();
    let out = format!("oneflush try {}", data.display());
    refused(&sandbox, &data.join("notes.txt"), 3, &["notes.txt", "encrypted", &out]);
    let pipe = data.join("pipe.db");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_refused(
        &command(&sandbox, &pipe).output().unwrap(),
        3,
        &["pipe.db", "neither a file nor a directory"],
    );
    let mut bytes = fs::read({
        make(&data.join("torn.db"), "delete", 3_000);
        data.join("torn.db")
    })
    .unwrap();
    bytes[100..40_960].fill(0x5a);
    fs::write(data.join("torn.db"), bytes).unwrap();
    refused(
        &sandbox,
        &data.join("torn.db"),
        3,
        &["torn.db", "SQLite says of the copy", "malformed"],
    );
}

#[test]
fn a_database_in_use_with_a_log_is_refused_with_who_uses_it() {
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    let path = data.join("app.db");
    oneflush_vfs::register().unwrap();
    let uri = format!("file:{}?vfs=oneflush&strategy=eager", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t(v); INSERT INTO t VALUES (1)")
        .unwrap();
    let me = std::process::id().to_string();
    let words = ["in use with eager already", &me, "PRAGMA oneflush_stats", "oneflush try /"];
    assert_refused(&command(&sandbox, &path).output().unwrap(), 75, &words);
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    drop(db);
    let found = tried(&sandbox, &path);
    assert_eq!(found["subject"]["database"]["journal"], "wal");
}

#[test]
fn a_database_whose_log_has_commits_is_to_be_recovered_first() {
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    for logged in [EAGER, WALDIO, MAW] {
        let live = sandbox.open_directory(logged.strategy).join("app.db");
        logged.crashed_after(&live, &[], |_| {});
        let path = data.join(format!("{}.db", logged.strategy));
        copy_of_live(&live, &path, &[logged.log]);
        refused(
            &sandbox,
            &path,
            3,
            &["interrupted here", "first: oneflush recover", logged.strategy],
        );
    }
}

/// SQLite would look for the common journal of all, which is the original's.
#[test]
fn a_hot_journal_of_several_databases_is_left_to_their_program() {
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    let (live, path) = (sandbox.path().join("live.db"), data.join("app.db"));
    make(&live, "delete", 3_000);
    let db = open(&live);
    db.execute_batch("PRAGMA cache_size = 5; BEGIN; DELETE FROM messages").unwrap();
    copy_of_live(&live, &path, &["-journal"]);
    // As SQLite ends a journal whose transaction has a common one.
    let journal = with_suffix(&path, "-journal");
    let mut bytes = fs::read(&journal).unwrap();
    let magic: Vec<u8> = bytes[..8].to_vec();
    let name = b"/srv/app-mj0123";
    let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
    bytes.extend(name);
    bytes.extend((name.len() as u32).to_be_bytes());
    bytes.extend(sum.to_be_bytes());
    bytes.extend(magic);
    fs::write(&journal, bytes).unwrap();
    refused(&sandbox, &path, 3, &["over several databases", "open it with the program"]);
}

#[test]
fn a_directory_that_cannot_be_written_needs_another_one() {
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    let path = data.join("app.db");
    make(&path, "wal", 1_000);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o555)).unwrap();
    let before = look(&data);
    let run = |arguments: &[&OsStr]| {
        let mut command = sandbox.oneflush_as_nobody();
        command.args(["try", "--seconds", "1"]).arg(&path).args(arguments).output().unwrap()
    };
    assert_refused(&run(&[]), 3, &["no directory for the copy", "denied", "--dir"]);
    let other = sandbox.open_directory("other");
    let output = run(&[OsStr::new("--dir"), other.as_os_str()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(look(&data) == before);
    sandbox.assert_nothing_left(&[&other]);
}

#[test]
fn a_database_larger_than_the_room_is_refused_before_it_is_copied() {
    let sandbox = Sandbox::new();
    let data = sandbox.open_directory("data");
    let path = data.join("app.db");
    make(&path, "delete", 1_000);
    // A file with a hole: no disk has so much room, and reading all of it would take hours.
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 43).unwrap();
    let output = command(&sandbox, &path).output().unwrap();
    let words = ["too little room", "8796", "are free", "--dir"];
    assert_refused(&output, 3, &words);
    sandbox.assert_nothing_left(&[]);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
}
