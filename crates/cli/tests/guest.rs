//! A guest in somebody's process: real programs, in Python, that know nothing of Oneflush, and do with their process what they like: signals,
//! forks, ends without a close. They run under the preload library as `make build` leaves it; without `ONEFLUSH_BUILT` these tests say that they skip.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use oneflush_testing::built;
use tempfile::TempDir;

/// So long a program may take, on whichever machine; one that hangs is killed then.
const SECONDS_MAX: &str = "240";

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
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{strategy} {script}: {:?}\n{said}{errors}", output.status);
        said.trim_end().to_owned()
    }
}

/// A program blocked SIGUSR1 in its threads around a section that its handler must not enter. The handler ran all the same, in our
/// checkpointer's thread, which had been started with the signal open.
#[test]
fn a_section_that_a_program_guards_against_a_signal_is_not_entered_in_our_threads() {
    for strategy in ["plain", "eager"] {
        let Some(scene) = Scene::new() else { return };
        assert_eq!(scene.says(strategy, "signals.py", &["a.db", strategy]), "guarded", "{strategy}");
    }
}

fn forks(scenario: &str, more: &[&str]) {
    for strategy in ["plain", "eager"] {
        let Some(scene) = Scene::new() else { return };
        let arguments = [&["a.db", scenario], more].concat();
        assert_eq!(scene.says(strategy, "forks.py", &arguments), "ok", "{strategy}");
    }
}

/// gunicorn with `--preload` and a pool that was filled before the fork: with SQLite alone no error, with `eager` hundreds of "bad parameter or
/// other API misuse", because a child shares its parent's `flock`s and so could not use the board.
#[test]
fn children_use_the_idle_connections_of_a_pool_that_was_filled_before_the_fork() {
    forks("by_inherited_connections", &[]);
}

#[test]
fn a_child_forks_again_before_and_after_it_has_used_what_it_inherited() {
    forks("of_children", &[]);
}

#[test]
fn a_child_opens_the_database_again_and_leaves_or_closes_what_it_inherited() {
    forks("opened_again", &[]);
}

/// Nobody has SQLite's locks then but the child, which did not get them by the fork: another process would take the database for its own.
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

/// One of 150 children of a program that checkpoints hung: `fork` had copied a mutex of SQLite's that our checkpointer's thread held.
#[test]
fn no_child_hangs_whose_parent_checkpoints() {
    forks("while_checkpoints_run", &["300"]);
}
