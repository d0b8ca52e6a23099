//! A guest in somebody's process. Real programs, in Python, know nothing of Oneflush and do with
//! their process what they like: signals, forks, ends without a close. They run under the preload
//! library as `make build` leaves it. Without `ONEFLUSH_BUILT` these tests say that they skip.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use oneflush_testing::built;
use tempfile::TempDir;

/// The strategies that guard a database while it is in use.
const GUARDED: [&str; 2] = ["eager", "waldio"];
/// So long a program may take, on whichever machine; one that hangs is killed then.
const SECONDS_MAX: &str = "240";
/// The 5 s for which a process waits at its end, and the rest of a small program on a busy machine.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

struct Scene {
    folder: PathBuf,
    dir: TempDir,
}

impl Scene {
    fn new() -> Option<Scene> {
        Some(Scene { folder: built(&["python3"])?, dir: tempfile::tempdir().unwrap() })
    }

    /// Runs `guest/SCRIPT` with these arguments, under a time limit that also ends its children.
    fn python(&self, strategy: &str, script: &str, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest").join(script);
        Command::new("timeout")
            .args(["--signal=KILL", SECONDS_MAX, "python3"])
            .arg(script)
            .args(arguments)
            .current_dir(self.dir.path())
            .env("LD_PRELOAD", self.folder.join("liboneflush_preload.so"))
            .env("ONEFLUSH_EXTENSION", self.folder.join("liboneflush.so"))
            .env("ONEFLUSH_EXPECTED_VERSION", env!("CARGO_PKG_VERSION"))
            .env("ONEFLUSH_DEFAULT", "1")
            .env("ONEFLUSH_STRATEGY", strategy)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    fn says(&self, strategy: &str, script: &str, arguments: &[&str]) -> String {
        let output = self.python(strategy, script, arguments);
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(
            output.status.success(),
            "{strategy} {script}: {:?}\n{said}{errors}",
            output.status
        );
        said.trim_end().to_owned()
    }
}

/// A program blocked SIGUSR1 in its threads around a section that its handler must not enter. The
/// handler ran all the same, in our checkpointer's thread, which had been started with the signal
/// open.
#[test]
fn a_section_that_a_program_guards_against_a_signal_is_not_entered_in_our_threads() {
    for strategy in ["plain", "eager"] {
        let Some(scene) = Scene::new() else { return };
        assert_eq!(
            scene.says(strategy, "signals.py", &["a.db", strategy]),
            "guarded",
            "{strategy}"
        );
    }
}

fn forks(scenario: &str, more: &[&str]) {
    for strategy in ["plain", "eager", "waldio"] {
        let Some(scene) = Scene::new() else { return };
        let arguments = [&["a.db", scenario], more].concat();
        assert_eq!(scene.says(strategy, "forks.py", &arguments), "ok", "{strategy}");
    }
}

/// gunicorn with `--preload` and a pool that was filled before the fork. With SQLite alone there
/// was no error, with `eager` hundreds of "bad parameter or other API misuse". A child shares its
/// parent's `flock`s, and so it could not use the board.
#[test]
fn children_use_the_idle_connections_of_a_pool_that_was_filled_before_the_fork() {
    forks("by_inherited_connections", &[]);
}

/// gunicorn with `--preload`, from the second start on. A reader leaves the mark of the kept WAL as
/// it is. The children took the mark for that of a close since the fork, and each of their uses was
/// refused.
#[test]
fn children_of_a_program_that_was_started_again_and_has_only_read_write_to_the_kept_wal() {
    forks("started_again", &[]);
}

#[test]
fn a_child_forks_again_before_and_after_it_has_used_what_it_inherited() {
    forks("of_children", &[]);
}

#[test]
fn a_child_opens_the_database_again_and_leaves_or_closes_what_it_inherited() {
    forks("opened_again", &[]);
}

/// Nobody has SQLite's locks then but the child, which did not get them by the fork: another
/// process would take the database for its own.
#[test]
fn a_daemon_goes_on_with_the_connection_of_a_parent_that_has_gone() {
    forks("parent_ends", &[]);
}

#[test]
fn workers_of_multiprocessing_use_a_connection_of_the_module() {
    forks("with_multiprocessing", &[]);
}

#[test]
fn a_transaction_is_not_in_two_processes_and_idle_connections_beside_it_are_not_disturbed() {
    forks("in_transaction", &[]);
}

#[test]
fn a_child_does_not_write_to_a_database_that_its_parent_has_closed_meanwhile() {
    forks("closed_meanwhile", &[]);
}

/// One of 150 children of a program that checkpoints hung: `fork` had copied a mutex of SQLite's
/// that our checkpointer's thread held.
#[test]
fn no_child_hangs_whose_parent_checkpoints() {
    forks("while_checkpoints_run", &["300"]);
}

/// What stock SQLite finds: rows, and whether it is sound.
fn stock(path: &Path) -> (i64, String) {
    let sql =
        "SELECT count(*) || ' ' || (SELECT integrity_check FROM pragma_integrity_check) FROM t";
    let output = Command::new("sqlite3").arg(path).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let (rows, sound) = said.split_once(' ').unwrap();
    (rows.parse().unwrap(), sound.to_owned())
}

fn beside(scene: &Scene) -> Vec<String> {
    let names =
        std::fs::read_dir(scene.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A server ended by `exit()` with its connections open, and the `sqlite3` shell said "file is not
/// a database".
#[test]
fn a_process_that_ends_by_exit_leaves_a_plain_database() {
    let scenes =
        ["idle", "system_exit", "reading", "writing", "in_child", "beside_another_process"];
    for name in scenes {
        for strategy in GUARDED {
            let Some(scene) = Scene::new() else { return };
            scene.says(strategy, "exits.py", &["a.db", name]);
            assert_eq!(beside(&scene), ["a.db"], "{strategy}, {name}");
            let found = stock(&scene.dir.path().join("a.db"));
            assert_eq!(found, (50, "ok".to_owned()), "{strategy}, {name}");
        }
    }
}

#[test]
fn what_threads_were_told_before_the_end_is_there_whether_the_database_was_closed_or_not() {
    for strategy in GUARDED {
        let Some(scene) = Scene::new() else { return };
        let told: i64 = scene
            .says(strategy, "exits.py", &["a.db", "threads_at_work"])
            .split(' ')
            .map(|n| n.parse::<i64>().unwrap())
            .sum();
        let recovered = Command::new(scene.folder.join("oneflush"))
            .arg("recover")
            .arg(scene.dir.path().join("a.db"))
            .output();
        let (rows, sound) = stock(&scene.dir.path().join("a.db"));
        assert!(
            rows >= told && sound == "ok",
            "{rows} rows of {told}, {sound}; {recovered:?}, {strategy}"
        );
    }
}

#[test]
fn a_use_after_the_database_was_closed_for_the_end_is_an_error() {
    for strategy in GUARDED {
        let Some(scene) = Scene::new() else { return };
        assert_eq!(
            scene.says(strategy, "exits.py", &["a.db", "used_afterwards"]),
            "unable to open database file"
        );
        assert_eq!(beside(&scene), ["a.db"]);
        assert_eq!(stock(&scene.dir.path().join("a.db")), (50, "ok".to_owned()));
    }
}

/// `exit()` out of a callback meets a connection in the middle of a call, with its mutex held by a
/// thread that never goes on. `eager` closes the database only where no other thread could be
/// inside SQLite. In any case the end comes, what was told is there, and of the transaction that
/// was cut off nothing.
#[test]
fn an_exit_from_inside_a_call_of_sqlite_ends_in_bounded_time_and_loses_nothing_that_was_told() {
    const CLOSED: bool = true;
    const AS_KILLED: bool = false;
    for (name, is_closed) in [
        ("busy_handler", CLOSED),
        ("busy_handler_of_a_checkpoint", CLOSED),
        ("trace", CLOSED),
        ("function", CLOSED),
        ("function_in_a_statement_that_spills", CLOSED),
        ("commit_hook", CLOSED),
        ("progress_handler", CLOSED),
        ("function_with_a_mutex_of_the_vfs", AS_KILLED),
        ("function_beside_an_idle_thread", AS_KILLED),
        ("function_beside_a_thread_that_commits", AS_KILLED),
    ] {
        for strategy in ["plain", "eager", "waldio"] {
            let Some(scene) = Scene::new() else { return };
            let about = format!("{strategy}, {name}");
            ends_inside(&scene, strategy, name);
            let left: &[&str] = match (strategy, is_closed) {
                ("plain", _) => &[],
                (_, CLOSED) => &["a.db"],
                ("eager", AS_KILLED) => {
                    &["a.db", "a.db-oneflush", "a.db-oneflush-shm", "a.db-oneflush-wal", "a.db-shm"]
                }
                (_, AS_KILLED) => &["a.db", "a.db-oneflush-shm", "a.db-shm", "a.db-waldio"],
            };
            if !left.is_empty() {
                assert_eq!(beside(&scene), left, "{about}");
            }
            is_recovered(&scene, &about);
        }
    }
}

/// The callback of SQLite's error log is called with our locks in hand, and the board's.
#[test]
fn an_exit_from_inside_sqlites_error_log_ends_in_bounded_time_too() {
    let Some(scene) = Scene::new() else { return };
    ends_inside(&scene, "eager", "log_callback");
    assert!(
        beside(&scene)
            .iter()
            .any(|name| name.starts_with("a.db-oneflush-")
                && name.len() == "a.db-oneflush-".len() + 8)
    );
    is_recovered(&scene, "log_callback");
}

fn ends_inside(scene: &Scene, strategy: &str, name: &str) {
    let before = Instant::now();
    scene.says(strategy, "exits_inside.py", &["a.db", name, strategy]);
    assert!(before.elapsed() < ENDS_WITHIN, "{strategy}, {name}: {:?}", before.elapsed());
}

fn is_recovered(scene: &Scene, about: &str) {
    let path = scene.dir.path().join("a.db");
    let recovered =
        Command::new(scene.folder.join("oneflush")).arg("recover").arg(&path).output().unwrap();
    assert!(recovered.status.success(), "{about}: {recovered:?}");
    assert_eq!(stock(&path), (50, "ok".to_owned()), "{about}");
}
