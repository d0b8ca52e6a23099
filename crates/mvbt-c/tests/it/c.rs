//! Programs in C, with the header and both forms of the library.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mvbt::{Database, KillPoint, Options, Read, TreeId};
use oneflush_testing::{Running, Scenes, built, run};

/// The first tree that a database makes.
const TREE: TreeId = TreeId(2);

fn compiled(source: &str, folder: &Path, library: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("program");
    let flags = ["-std=c11", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_GNU_SOURCE"];
    run(Command::new("cc")
        .args(flags)
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg("-o")
        .arg(&program)
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display())));
    program
}

#[test]
fn a_program_in_c_calls_every_function() {
    let Some(libraries) = built(&["cc"]) else { return };
    let all = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all.c"));
    let header = include_str!("../../include/oneflush_mvbt.h");
    let lines = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = lines.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next());
    let functions: Vec<&str> = names.filter(|name| name.starts_with("oneflush_mvbt_")).collect();
    let said = format!("each of the {} functions", functions.len());
    assert!(include_str!("../../README.md").contains(&said), "the README does not say: {said}");
    let all = all.unwrap();
    for name in functions {
        assert!(all.contains(&format!("{name}(")), "{name} is not called");
    }
    for library in ["liboneflush_mvbt_c.a", "liboneflush_mvbt_c.so"] {
        let folder = tempfile::tempdir().unwrap();
        let program = compiled("tests/all.c", folder.path(), &libraries.join(library));
        assert!(run(Command::new(program).arg(folder.path())).contains(" checks"));
    }
}

#[test]
fn valgrind_finds_nothing_in_it() {
    let Some(libraries) = built(&["cc", "valgrind"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled("tests/all.c", folder.path(), &libraries.join("liboneflush_mvbt_c.a"));
    run(Command::new("valgrind")
        .args(["--quiet", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"])
        .args(["--errors-for-leak-kinds=definite"])
        .arg(program)
        .arg(folder.path()));
}

#[test]
fn the_example_keeps_notes() {
    let Some(libraries) = built(&["cc"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program =
        compiled("examples/notes.c", folder.path(), &libraries.join("liboneflush_mvbt_c.a"));
    let notes = |text: &[&str]| run(Command::new(&program).arg(folder.path().join("n")).args(text));
    assert_eq!(notes(&["buy milk"]), "");
    notes(&["call Ada"]);
    assert_eq!(notes(&[]), "1 buy milk\n2 call Ada\n");
}

/// A program that has met a panic lives on, and another one commits meanwhile.
fn panics_there(program: &Path, place: &str, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mvbt");
    let db = Database::create(&path, Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    assert_eq!(txn.create_tree(false).unwrap(), TREE);
    txn.commit().unwrap();
    db.close().unwrap();
    let mut command = Command::new(program);
    command.arg(&path).env("ONEFLUSH_PANIC_AT", format!("{place}:{count}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut panicker = Running::start(&mut command);
    let mut lines = BufReader::new(panicker.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut durable = BTreeSet::new();
    let has_met = loop {
        let line = lines.next().expect("it ends by itself");
        match line.strip_prefix("durable ") {
            Some(number) => drop(durable.insert(number.parse::<i64>().unwrap())),
            None => break line == "met",
        }
    };
    let is_of_a_close = ["deposited", "closed", "deleted"].contains(&place);
    let is_of_a_death = ["recovered", "repairing", "regenerated"].contains(&place);
    let may_miss = is_of_a_close || is_of_a_death || count > 1;
    assert!(has_met || may_miss, "never at {place}");
    let beside = Database::open(&path, Options::default()).unwrap();
    let mut txn = beside.begin_write().unwrap();
    txn.insert(TREE, 0, b"beside").unwrap();
    txn.commit().unwrap();
    drop(panicker.stdin.take());
    assert_eq!(lines.next().as_deref(), Some("closed"));
    assert!(panicker.wait().unwrap().success());
    let reader = beside.begin_read().unwrap();
    let is_there = |key: &i64| reader.get(TREE, *key).unwrap().is_some();
    assert!(is_there(&0));
    assert_eq!(durable.iter().find(|key| !is_there(key)), None, "a row is lost");
    let more = (1..=40).filter(|key| is_there(key) && !durable.contains(key)).count();
    assert!(more <= 1, "{more} rows of transactions that failed");
    drop(reader);
    assert!(beside.check(None).unwrap().faults.is_empty());
    beside.close().unwrap();
}

#[test]
fn a_program_that_meets_a_panic_goes_on_and_commits_nothing_more() {
    let Some(libraries) = built(&["cc"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = libraries.join("liboneflush_mvbt_c.a");
    let program = compiled("tests/panics.c", folder.path(), &library);
    let mut scenes = Scenes::default();
    for point in KillPoint::ALL {
        for count in [1, 3] {
            let place = point.name();
            scenes.play(&format!("{place} {count}"), || panics_there(&program, place, count));
        }
    }
    scenes.end();
}
