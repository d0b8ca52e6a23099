//! `oneflush run`, with the real shell, the real Python and the extension as `make build` leaves it.
//!
//! The programs of `make build` are needed (an extension cannot be built inside `cargo test`): `make test` builds them and
//! sets `ONEFLUSH_BUILT` to their folder. Without it these tests say that they skip.

use std::path::Path;
use std::process::{Command, Output};

use oneflush_testing::built;
use tempfile::TempDir;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(folder.join("oneflush")).arg("run").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn database() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db").display().to_string();
    (dir, path)
}

#[test]
fn the_shell_uses_oneflush_without_knowing_it() {
    let Some(folder) = built() else { return };
    let (_dir, path) = database();
    let sql = "CREATE TABLE t(v); INSERT INTO t VALUES (1); PRAGMA oneflush_strategy;";
    let output = run(&folder, &["--strategy", "stock", "--", "sqlite3", &path, sql, ".vfsname"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "stock\noneflush/unix\n");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn python_uses_oneflush_through_a_module_that_is_loaded_late() {
    let Some(folder) = built() else { return };
    let (_dir, path) = database();
    let program =
        "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('PRAGMA oneflush_strategy').fetchone()[0])";
    let output = run(&folder, &["--", "/usr/bin/python3", "-c", program, &path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "plain\n");
}

#[test]
fn the_exit_code_is_the_programs_own_and_a_signal_is_128_and_its_number() {
    let Some(folder) = built() else { return };
    assert_eq!(run(&folder, &["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&folder, &["--", "sh", "-c", "kill -TERM $$"]).status.code(), Some(128 + 15));
}

#[test]
fn a_program_that_opens_no_database_is_told_so() {
    let Some(folder) = built() else { return };
    let output = run(&folder, &["--", "true"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("Oneflush was not in use"), "{}", text(&output.stderr));
}

#[test]
fn a_missing_program_and_an_unknown_strategy_are_refused() {
    let Some(folder) = built() else { return };
    let output = run(&folder, &["--", "no-such-program"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no-such-program"), "{}", text(&output.stderr));
    let output = run(&folder, &["--strategy", "eagre", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("auto, stock"), "{}", text(&output.stderr));
}

#[test]
fn a_refused_environment_variable_ends_the_program_before_it_opens_anything() {
    let Some(folder) = built() else { return };
    let (_dir, path) = database();
    let output = Command::new(folder.join("oneflush"))
        .args(["run", "--", "sqlite3", &path, "CREATE TABLE t(v)"])
        .env("ONEFLUSH_LOG_SIZE", "tiny")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("ONEFLUSH_LOG_SIZE") && message.contains("\"tiny\""), "{message}");
    assert!(!message.contains("Oneflush was not in use"), "a second message: {message}");
    assert!(!Path::new(&path).exists());
}

/// A folder with the program and the preload library, and `extension` as the extension.
fn folder_with(built: &Path, extension: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["oneflush", "liboneflush_preload.so"] {
        std::fs::copy(built.join(name), dir.path().join(name)).unwrap();
    }
    let source = dir.path().join("extension.c");
    std::fs::write(&source, extension).unwrap();
    let library = dir.path().join("liboneflush.so");
    let compiler = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(compiler.success());
    dir
}

#[test]
fn an_extension_of_another_version_is_refused_with_both_versions() {
    let Some(built) = built() else { return };
    let folder = folder_with(
        &built,
        "const char *oneflush_version(void) { return \"9.8.7\"; } int sqlite3_oneflush_init(void) { return 0; }",
    );
    let (_dir, path) = database();
    let output = run(folder.path(), &["--", "sqlite3", &path, "CREATE TABLE t(v)"]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("9.8.7") && message.contains(oneflush_vfs::VERSION), "{message}");
    assert!(!Path::new(&path).exists());
}

#[test]
fn a_library_that_is_not_the_extension_or_is_missing_is_refused() {
    let Some(built) = built() else { return };
    let folder = folder_with(&built, "int something_else;");
    let (_dir, path) = database();
    let output = run(folder.path(), &["--", "sqlite3", &path, "CREATE TABLE t(v)"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not the Oneflush extension"), "{}", text(&output.stderr));
    std::fs::remove_file(folder.path().join("liboneflush.so")).unwrap();
    let output = run(folder.path(), &["--", "sqlite3", &path, "CREATE TABLE t(v)"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("make build"), "{}", text(&output.stderr));
}

/// `LD_PRELOAD` cannot name a path with a space: the program once ran without Oneflush, with exit code 0.
#[test]
fn a_folder_with_a_space_or_a_colon_works() {
    let Some(built) = built() else { return };
    let parent = tempfile::tempdir().unwrap();
    for name in ["with space", "with:colon"] {
        let folder = parent.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        for file in ["oneflush", "liboneflush_preload.so", "liboneflush.so"] {
            std::fs::copy(built.join(file), folder.join(file)).unwrap();
        }
        let (_dir, path) = database();
        let output = run(&folder, &["--", "sqlite3", &path, "PRAGMA oneflush_strategy"]);
        assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("plain\n", ""), "{name}");
    }
}
