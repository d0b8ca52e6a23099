//! Python's `sqlite3` on the drop-in library: what `sql.py` does with both engines.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use oneflush_testing::flawed::{Flawed, Flaws, why_not};
use oneflush_testing::{built, in_own_mounts, named, run, shared_data, skip};

/// A folder where the shared library has the name that programs load, and the static one beside it.
/// `None`: the test skips.
fn library(programs: &[&str]) -> Option<&'static Path> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let built = built(programs)?;
    let folder = FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("drop-in");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        for (from, to) in [("so", "libsqlite3.so.0"), ("a", "liboneflush_sqlite3.a")] {
            let library = built.join("liboneflush_sqlite3").with_extension(from);
            std::os::unix::fs::symlink(library, folder.join(to)).unwrap();
        }
        folder
    });
    Some(folder)
}

/// Runs cases of `sql.py`.
fn cases(names: &[&str]) {
    let Some(library) = library(&["python3"]) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let said = run(Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql.py"))
        .arg(folder.path())
        .args(names)
        .env("LD_LIBRARY_PATH", library)
        .env_remove("ONEFLUSH_ENGINE"));
    for name in names {
        assert!(said.contains(name), "{name} has not run: {said}");
    }
}

#[test]
fn the_stock_library_exports_nothing_that_is_missing() {
    let Some(library) = library(&["nm"]) else { return };
    let shared = library.join("libsqlite3.so.0");
    let ours = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&shared));
    let names: Vec<&str> = ours.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert!(names.contains(&"sqlite3_backup_init") && names.contains(&"sqlite3session_create"));
    assert!(!names.iter().any(|name| name.starts_with("oneflush") || name.starts_with("stock")));
    for folder in ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"] {
        let stock = Path::new(folder).join("libsqlite3.so.0");
        if !stock.exists() {
            continue;
        }
        let stock = run(Command::new("nm").args(["-D", "--defined-only"]).arg(stock));
        for name in stock.lines().filter_map(|line| line.split(' ').next_back()) {
            let is_public = name.starts_with("sqlite3_") || name.starts_with("sqlite3session_");
            assert!(!is_public || names.contains(&name), "{name} is missing");
        }
    }
}

#[test]
fn a_program_links_the_static_library() {
    let Some(library) = library(&["cc"]) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = folder.path().join("app.c");
    let text = "#include <stdio.h>\n\
        typedef struct sqlite3 sqlite3;\n\
        int sqlite3_open(const char*, sqlite3**);\n\
        int sqlite3_close(sqlite3*);\n\
        typedef int (*row)(void*, int, char**, char**);\n\
        int sqlite3_exec(sqlite3*, const char*, row, void*, char**);\n\
        static int show(void *p, int n, char **values, char **names) {\n\
          return puts(values[0]) < 0;\n\
        }\n\
        int main(int n, char **arguments) {\n\
          sqlite3 *db;\n\
          return sqlite3_open(arguments[1], &db) || sqlite3_exec(db, \"PRAGMA journal_mode;\"\n\
            \"CREATE TABLE t(a); INSERT INTO t VALUES(7); SELECT a FROM t\", show, 0, 0)\n\
            || sqlite3_close(db);\n\
        }\n";
    std::fs::write(&source, text).unwrap();
    let program = folder.path().join("app");
    run(Command::new("cc")
        .arg(&source)
        .arg(library.join("liboneflush_sqlite3.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    let said =
        run(Command::new(program).arg(folder.path().join("db")).env("ONEFLUSH_ENGINE", "lsmvbt"));
    assert_eq!(said, "lsmvbt\n7\n");
}

/// `fuzz/exercise.c` with the static library, and the databases that it makes.
fn exercise(library: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("exercise");
    run(Command::new("cc")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/exercise.c"))
        .arg(library.join("liboneflush_sqlite3.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    run(Command::new(&program).arg("make").arg(folder.path()));
    (folder, program)
}

#[test]
fn an_allocation_or_the_disk_that_fails_at_any_time_leaves_a_sound_database() {
    let Some(library) = library(&["cc"]) else { return };
    let (folder, program) = exercise(library);
    let file = |name| folder.path().join(name);
    run(Command::new(&program).arg("use").args(["usual", "history", "empty"].map(file)));
    run(Command::new(&program).arg("fail").arg(file("usual")));
    run(Command::new(&program).arg("starve").arg(file("small")));
}

#[test]
fn tables_indexes_and_long_rows() {
    cases(&[
        "ddl_and_indexes",
        "long_rows",
        "records_that_are_gone",
        "text_encodings",
        "upsert_and_returning",
        "pragmas",
    ]);
}

#[test]
fn savepoints_aborts_and_changes_under_a_scan() {
    cases(&[
        "statement_aborts",
        "savepoints",
        "changes_under_a_scan",
        "functions_that_write",
        "blobs",
        "serialized",
    ]);
}

#[test]
fn triggers_and_virtual_tables() {
    cases(&["triggers_and_foreign_keys", "fts_json_rtree"]);
}

#[test]
fn vacuum_backups_and_both_engines_at_once() {
    cases(&["vacuum", "backups", "attached", "chosen"]);
}

#[test]
fn stats_history_and_older_versions() {
    cases(&["stats_and_retain", "snapshots"]);
}

#[test]
fn connections_threads_and_processes() {
    cases(&["two_connections", "many_threads", "vacuum_beside_writers", "second_process"]);
}

#[test]
fn a_process_that_is_killed_leaves_what_it_has_committed() {
    cases(&["killed"]);
}

#[test]
fn a_child_of_a_fork_goes_on_with_what_was_idle_and_takes_nothing_from_its_parent() {
    cases(&["forked_idle", "forked_in_transaction"]);
}

#[test]
fn a_child_of_a_fork_reads_its_version_on_and_no_file_that_came_in_the_place_of_its_own() {
    cases(&["forked_with_a_snapshot", "forked_and_replaced"]);
}

/// The strategies were refused where a program decides what a flush does, and LS-MVBT acknowledged
/// commits there.
#[test]
fn what_may_keep_no_flush_is_refused_unless_it_is_allowed() {
    let Some(library) = library(&["python3"]) else { return };
    if let Some(why) = why_not() {
        skip(why);
        return;
    }
    let name = named!(what_may_keep_no_flush_is_refused_unless_it_is_allowed);
    if !in_own_mounts(name, Duration::from_secs(120)) {
        return;
    }
    let open = "import sqlite3, sys\n\
        try:\n  db = sqlite3.connect(sys.argv[1], uri=True)\n\x20 \
          print(db.execute('CREATE TABLE t(a)').fetchall())\n\
        except sqlite3.Error as error: print(error)";
    for (kind, is_refused) in [("elsewhere", true), ("oneflush", false)] {
        let flawed = Flawed::mount(kind, Flaws::default()).unwrap();
        let database = flawed.path().join("a.db").display().to_string();
        let said = |uri: &str| {
            let output = Command::new("python3")
                .args(["-c", open, uri])
                .env("LD_LIBRARY_PATH", library)
                .env("ONEFLUSH_ENGINE", "lsmvbt")
                .env("ONEFLUSH_LOG", "stderr")
                .stderr(std::process::Stdio::piped())
                .output()
                .unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (text(&output.stdout), text(&output.stderr))
        };
        let (answer, message) = said(&format!("file:{database}"));
        assert_eq!(answer != "[]\n", is_refused, "{answer}{message}");
        for word in ["fuse.elsewhere", "a program decides", "unsafe_ground=allow", "[OF-823]"] {
            assert_eq!(message.contains(word), is_refused, "{message}");
        }
        let (answer, message) = said(&format!("file:{database}-allowed?unsafe_ground=allow"));
        assert_eq!((answer.as_str(), message.as_str()), ("[]\n", ""));
    }
}

/// The SQL of two apps: one thread after the other, and both at once. In memory if that is there:
/// each of the 3,000 commits is a flush.
#[test]
fn the_sql_of_two_apps_leaves_the_same_contents_on_both_engines() {
    let Some(library) = library(&["python3"]) else { return };
    let Some(data) = shared_data("sql") else { return };
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    let folder = tempfile::tempdir_in(place).unwrap();
    let said = run(Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings.py"))
        .arg(data)
        .arg(folder.path())
        .env("LD_LIBRARY_PATH", library)
        .env_remove("ONEFLUSH_ENGINE"));
    assert!(said.contains("facebook: 5068 statements, 0 errors on both, 436 rows"), "{said}");
    assert!(said.contains("twitter: 8905 statements, 0 errors on both, 2528 rows"), "{said}");
}

#[test]
fn random_sql_has_the_same_answers_on_both_engines() {
    let Some(library) = library(&["python3"]) else { return };
    for seed in 1..=8 {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        run(Command::new("python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/random_sql.py"))
            .arg(folder.path())
            .args([seed.to_string(), "300".to_owned()])
            .env("LD_LIBRARY_PATH", library)
            .env_remove("ONEFLUSH_ENGINE"));
    }
}
