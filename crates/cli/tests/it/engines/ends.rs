//! Copies that end in the middle: by Ctrl-C, by `kill -9`.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use oneflush_testing::{Running, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::common::crashed::side;

const SUFFIX: &str = "-oneflush-converting";
/// On a busy machine the process may be at its end before the signal comes.
const TRIES: usize = 20;

fn large(path: &Path, engine: &str) {
    of_engine(path, engine)
        .execute_batch(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX by_v ON t(v);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
            INSERT INTO t SELECT i, hex(randomblob(50)) FROM n",
        )
        .unwrap();
}

/// Sends `signal` once the copy has so many bytes; tries again where that was too late.
fn caught(sandbox: &Sandbox, from: &Path, to: &Path, engine: &str, at: (u64, Signal)) -> Output {
    for _ in 0..TRIES {
        let mut child = Running::start(
            sandbox
                .oneflush()
                .arg("convert")
                .args([from, to])
                .args(["--engine", engine])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let file = side(to, SUFFIX);
        let has_content = || file.metadata().is_ok_and(|file| file.len() >= at.0);
        wait_until("the copy", || has_content() || child.try_wait().unwrap().is_some());
        let _ = kill_process(Pid::from_raw(child.id() as i32).unwrap(), at.1);
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            return output;
        }
        fs::remove_file(to).unwrap();
    }
    panic!("the signal came too late each time");
}

#[test]
fn ctrl_c_leaves_no_copy_and_nothing_beside_it_at_any_step() {
    let sandbox = Sandbox::new();
    for (engine, other) in [("sqlite", "lsmvbt"), ("lsmvbt", "sqlite")] {
        let path = sandbox.path().join(format!("{engine}.db"));
        large(&path, engine);
        let copy = sandbox.path().join(format!("of-{engine}.db"));
        for bytes in [0, 1 << 20, 4 << 20] {
            let output = caught(&sandbox, &path, &copy, other, (bytes, Signal::INT));
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{message}");
            assert!(message.contains("interrupted; the file was not made [OF-625]"), "{message}");
            assert_eq!(beginning_with(&copy), Vec::<PathBuf>::new(), "{engine} {bytes}");
        }
        convert(&sandbox, &path, &copy, other);
    }
}

#[test]
fn what_a_kill_leaves_is_in_nobodys_way() {
    let sandbox = Sandbox::new();
    for (engine, other) in [("sqlite", "lsmvbt"), ("lsmvbt", "sqlite")] {
        let path = sandbox.path().join(format!("{engine}.db"));
        large(&path, engine);
        let copy = sandbox.path().join(format!("of-{engine}.db"));
        let output = caught(&sandbox, &path, &copy, other, (1 << 20, Signal::KILL));
        assert_eq!(output.status.signal(), Some(9));
        assert!(side(&copy, SUFFIX).exists() && !copy.exists());
        // The database was not made yet, of LS-MVBT.
        fs::write(side(&copy, "-oneflush-converting-oneflush-new"), "a part").unwrap();
        convert(&sandbox, &path, &copy, other);
        assert_eq!(beginning_with(&copy), [copy]);
    }
}
