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
