//! `oneflush convert --engine`: what is refused, and that no file is made then.

use std::os::unix::fs::FileExt;

use super::*;
use crate::common::{assert_refused, crashed};

#[track_caller]
fn refused(sandbox: &Sandbox, from: &Path, engine: &str, words: &[&str]) {
    let copy = sandbox.path().join("copy.db");
    let output = oneflush(sandbox, "convert", from, &[copy.to_str().unwrap(), "--engine", engine]);
    // The file cannot be read or copied, or what it is forbids the copy.
    let code = if words.iter().any(|word| ["[OF-617]", "[OF-626]"].contains(word)) { 1 } else { 3 };
    assert_refused(&output, code, words);
    assert!(beginning_with(&copy).is_empty());
}

#[test]
fn what_cannot_be_copied_is_refused_with_its_name() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path().join(name);
    open(&at("a.db")).execute_batch(SOME).unwrap();
    of_engine(&at("a.mvbt"), "lsmvbt").execute_batch(SOME).unwrap();
    refused(&sandbox, &at("none.db"), "lsmvbt", &["none.db", "No such file", "[OF-617]"]);
    refused(&sandbox, sandbox.path(), "lsmvbt", &["not a regular file", "[OF-614]"]);
    refused(&sandbox, &at("a.db"), "sqlite", &["a.db", "SQLite already", "[OF-622]"]);
    refused(&sandbox, &at("a.mvbt"), "lsmvbt", &["a.mvbt", "LS-MVBT already", "[OF-622]"]);
    fs::write(at("notes.txt"), "a text that is long enough to be a header".repeat(9)).unwrap();
    refused(&sandbox, &at("notes.txt"), "lsmvbt", &["notes.txt", "or encrypted", "[OF-618]"]);
    refused(&sandbox, &at("notes.txt"), "sqlite", &["notes.txt", "SQLite already", "[OF-622]"]);
    fs::write(at("empty.db"), "").unwrap();
    refused(&sandbox, &at("empty.db"), "lsmvbt", &["empty.db", "no page yet", "[OF-615]"]);
    crashed::crashed(&at("eager.db"), &[]);
    refused(&sandbox, &at("eager.db"), "lsmvbt", &["oneflush recover", "eager.db", "[OF-602]"]);
    let none = oneflush(&sandbox, "convert", &at("a.db"), &["no/b.db", "--engine", "lsmvbt"]);
    assert_refused(&none, 3, &["sandbox/no".trim_start_matches("sandbox/"), "[OF-603]"]);
}

#[test]
fn a_file_that_is_there_stays() {
    let sandbox = Sandbox::new();
    let (path, copy) = (sandbox.path().join("a.db"), sandbox.path().join("b.db"));
    open(&path).execute_batch(SOME).unwrap();
    fs::write(&copy, "").unwrap();
    let output =
        oneflush(&sandbox, "convert", &path, &[copy.to_str().unwrap(), "--engine", "lsmvbt"]);
    assert_refused(&output, 3, &["b.db", "is there already", "[OF-621]"]);
    assert_eq!(fs::read(&copy).unwrap(), b"");
}

#[test]
fn a_damaged_database_is_refused_with_what_sqlite_says() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    open(&path).execute_batch(SOME).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 4000], 4096 * 8 + 16).unwrap();
    refused(&sandbox, &path, "lsmvbt", &["a.db", "[OF-6"]);

    let path = sandbox.path().join("a.mvbt");
    of_engine(&path, "lsmvbt").execute_batch(SOME).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let end = file.metadata().unwrap().len();
    for page in (40_960 + 4 * 4096..end).step_by(4096) {
        file.write_all_at(&[0xa5; 4000], page + 16).unwrap();
    }
    refused(&sandbox, &path, "sqlite", &["a.mvbt", "[OF-626]"]);
}

/// A collation of the program is missing here.
#[test]
fn what_only_its_program_can_read_is_told_the_way() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    open(&path)
        .execute_batch(
            "CREATE TABLE t(v COLLATE binary PRIMARY KEY); INSERT INTO t VALUES ('x');
            PRAGMA writable_schema = on;
            UPDATE sqlite_schema SET sql = replace(sql, 'COLLATE binary', 'COLLATE mine')",
        )
        .unwrap();
    refused(&sandbox, &path, "lsmvbt", &["no such collation", "VACUUM INTO", "[OF-627]"]);
}

#[test]
fn options_that_do_not_go_together_are_a_wrong_usage() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.mvbt");
    of_engine(&path, "lsmvbt").execute_batch(SOME).unwrap();
    for (arguments, word) in [
        (&["b.db"][..], "--engine"),
        (&[], "--reserve"),
        (&["--engine", "sqlite"], "COPY"),
        (&["b.db", "--engine", "sqlite", "--reserve", "8"], "--reserve"),
        (&["b.db", "--engine", "sqlite", "--force"], "--force"),
        (&["b.db", "--engine", "sqlight"], "lsmvbt"),
    ] {
        assert_refused(&oneflush(&sandbox, "convert", &path, arguments), 2, &[word]);
    }
    let output = oneflush(&sandbox, "convert", &path, &["--reserve", "24"]);
    assert_refused(&output, 3, &["LS-MVBT", "no reserved bytes", "--engine sqlite", "[OF-623]"]);
}
