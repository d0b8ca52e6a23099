//! `oneflush trace` as a user meets it: what it refuses, how it ends, what it leaves.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};

use oneflush_measure::place::Place;
use oneflush_testing::{Running, built, wait_until};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Sandbox, assert_refused, skip_unless_root, stderr, stdout};
use crate::recording;

/// Of the recorder with this process number.
fn instances(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("oneflush-{pid}-");
    let entries = fs::read_dir(recording::instances()).unwrap().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains(&prefix))
        .collect()
}

/// A recorder that has begun.
struct Recording {
    child: Running,
    messages: BufReader<ChildStderr>,
}

impl Recording {
    fn begin(mut command: Command) -> Recording {
        let mut child = Running::start(command.stderr(Stdio::piped()));
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        messages.read_line(&mut line).unwrap();
        assert!(line.starts_with("oneflush trace: recording /dev/"), "{line}");
        Recording { child, messages }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits until it has.
    fn end(mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let mut text = String::new();
        self.messages.read_to_string(&mut text).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{text}");
    }
}

fn trace(sandbox: &Sandbox, place: &Place, arguments: &[&str]) -> Command {
    let mut command = sandbox.oneflush();
    command.args(["trace", "-o", "t.zst", "--dir"]).arg(place.path()).args(arguments);
    command
}

/// The lines of a recording.
fn lines(sandbox: &Sandbox) -> Vec<String> {
    let packed = fs::read(sandbox.path().join("t.zst")).expect("the recording");
    let text = zstd::decode_all(&packed[..]).expect("zstd");
    String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
}

fn identified(sandbox: &Sandbox) -> Vec<Value> {
    let output = sandbox.oneflush().args(["identify", "t.zst", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn inserts(path: &Path, count: u32) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v)").unwrap();
    for _ in 0..count {
        db.execute("INSERT INTO t(v) VALUES('x')", []).unwrap();
    }
}

fn refused(output: &Output, words: &[&str], code: i32) {
    assert_refused(output, code, words);
}

#[test]
fn who_is_not_root_is_told_so() {
    let sandbox = Sandbox::new();
    let dir = sandbox.open_directory("work");
    // Its device is known to nobody where it is a memory file system.
    let output = sandbox
        .oneflush_as_nobody()
        .args(["trace", "-o", "t.zst", "--dir"])
        .arg(&dir)
        .current_dir(&dir)
        .output();
    let output = output.unwrap();
    // Who runs it as root does not have to be told of the device first.
    let message = stderr(&output);
    assert!(message.contains("needs root") && message.contains("sudo oneflush trace"), "{message}");
    assert_eq!(output.status.code(), Some(3));
    assert!(!dir.join("t.zst").exists());
    let output = sandbox
        .oneflush_as_nobody()
        .args(["trace", "-o", "t.zst", "--dev", "nosuchdevice"])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("needs root"), "{}", stderr(&output));
}

/// `-o -` made a file of that name.
#[test]
fn a_recording_to_standard_output_is_text_and_nothing_else_is_there() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    let mut command = sandbox.oneflush();
    command.args(["trace", "-o", "-", "--dir"]).arg(place.path()).args(["--", "sh", "-c"]);
    let script = format!(
        "echo printed; dd if=/dev/zero of={}/file bs=4k count=4 conv=fsync 2> /dev/null",
        place.path().display()
    );
    let output = command.arg(script).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("block_rq_issue")
            && !text.contains("printed")
            && !text.contains(" events in "),
        "{text}"
    );
    assert!(
        stderr(&output).contains("printed") && stderr(&output).contains(" events in "),
        "{}",
        stderr(&output)
    );
    assert!(!sandbox.path().join("-").exists());
    std::fs::write(sandbox.path().join("t.txt"), &text).unwrap();
    let output = sandbox.oneflush().args(["identify", "t.txt"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output =
        sandbox.oneflush().args(["trace", "--vfs", "-o", "-", "--", "true"]).output().unwrap();
    refused(&output, &["-o -", "name a file"], 2);
}

#[test]
fn devices_directories_and_processes_that_are_not_there_are_refused() {
    if skip_unless_root("a recording") {
        return;
    }
    let sandbox = Sandbox::new();
    let run = |arguments: &[&str]| {
        sandbox.oneflush().args(["trace", "-o", "t.zst"]).args(arguments).output().unwrap()
    };
    refused(&run(&["--dev", "nosuchdevice"]), &["--dev nosuchdevice", "lsblk"], 2);
    refused(&run(&["--dev", "/dev/null"]), &["/dev/null", "not a block device"], 2);
    refused(&run(&["--dir", "nowhere"]), &["--dir nowhere", "No such file"], 2);
    refused(&run(&["--dir", "/proc"]), &["/proc", "no block device", "--dev"], 2);
    refused(&run(&["--seconds", "soon"]), &["--seconds", "such as 60"], 2);
    refused(&run(&["--pid", "1", "--", "true"]), &["--pid"], 2);
    assert!(!sandbox.path().join("t.zst").exists());
}

#[test]
fn an_unknown_process_and_a_program_that_does_not_start_leave_no_recording() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    let output = trace(&sandbox, &place, &["--pid", "999999999"]).output().unwrap();
    refused(&output, &["--pid 999999999", "no such process"], 1);
    assert!(!sandbox.path().join("t.zst").exists());
    let output = trace(&sandbox, &place, &["--", "./nosuchprogram"]).output().unwrap();
    refused(&output, &["cannot start ./nosuchprogram"], 1);
    assert!(!sandbox.path().join("t.zst").exists());
}

#[test]
fn an_output_that_cannot_be_written_is_said() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    let output = sandbox
        .oneflush()
        .args(["trace", "-o", "/nowhere/t.zst", "--dir"])
        .arg(place.path())
        .output()
        .unwrap();
    refused(&output, &["/nowhere/t.zst", "cannot be written"], 1);
}

#[test]
fn the_exit_code_is_the_programs_and_its_notes_are_kept() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    let script = "echo a note > $ONEFLUSH_TRACE_MARKER; exit 7";
    let output = trace(&sandbox, &place, &["--", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("exit status: 7"), "{}", stderr(&output));
    assert!(stderr(&output).lines().all(|line| line.chars().count() <= 80), "{}", stderr(&output));
    let lines = lines(&sandbox);
    assert!(lines[0] == "# tracer: nop" && lines[2].starts_with("# oneflush trace "), "{lines:?}");
    assert!(
        lines[3].contains("ext4") && lines[3].contains(&*place.path().to_string_lossy()),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("oneflush_area") && line.ends_with("journal")),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.ends_with("tracing_mark_write: a note")), "{lines:?}");
    assert!(lines.last().unwrap().starts_with("# end of the recording"), "{lines:?}");
}

/// The test once looked into the machine's own tracefs. Where none is mounted, as on a fresh
/// machine, it saw nothing and failed. The recorder that it had started went on for ever.
#[test]
fn ctrl_c_ends_the_recording_and_leaves_nothing_in_the_kernel() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    let recording = Recording::begin(trace(&sandbox, &place, &[]));
    let pid = recording.pid();
    assert_eq!(instances(pid).len(), 1);
    inserts(&place.path().join("a.db"), 10);
    recording.end(Signal::INT);
    assert_eq!(instances(pid), Vec::<PathBuf>::new());
    let found = identified(&sandbox);
    assert_eq!(found.len(), 11, "{found:?}");
    assert!(
        found
            .iter()
            .all(|found| found["database"].as_str().is_some_and(|name| name.ends_with("/a.db")))
    );
}

#[test]
fn a_recorder_that_is_killed_leaves_nothing_in_the_kernel_and_what_it_wrote_can_be_read() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    let mut recording = Recording::begin(trace(&sandbox, &place, &[]));
    let pid = recording.pid();
    let identify = || sandbox.oneflush().args(["identify", "t.zst"]).output().unwrap();
    wait_until("the first part is written out", || {
        inserts(&place.path().join("a.db"), 5);
        stdout(&identify()).contains("/a.db")
    });
    recording.child.kill().unwrap();
    assert_eq!(recording.child.wait().unwrap().signal(), Some(9));
    wait_until("the instance goes away", || instances(pid).is_empty());
    let output = identify();
    assert!(stdout(&output).contains("/a.db"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn only_a_chosen_process_is_recorded_with_what_it_starts() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    // Its child works; this test, which is not chosen, works too.
    let script = "read go; (for n in 1 2 3 4 5; do dd if=/dev/zero of=chosen.db bs=4096 count=1 \
        oflag=dsync conv=notrunc; done)";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .current_dir(place.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    let mut chosen = Running::start(&mut command);
    let pid = chosen.id().to_string();
    let recording = Recording::begin(trace(&sandbox, &place, &["--pid", &pid]));
    inserts(&place.path().join("other.db"), 5);
    drop(chosen.stdin.take());
    chosen.wait().unwrap();
    recording.end(Signal::TERM);
    let lines = lines(&sandbox);
    let names: Vec<&String> = lines.iter().filter(|line| line.contains("oneflush_file")).collect();
    assert!(names.iter().any(|line| line.ends_with("/chosen.db")), "{names:?}");
    // Data of others are there only where the journal of the file system wrote them.
    let this_process = format!("({:>7})", std::process::id());
    assert!(
        !lines.iter().any(|line| line.contains("block_bio_queue") && line.contains(&this_process)),
        "{names:?}"
    );
    let count = |event: &str| {
        let is_write =
            |line: &&String| [" WS ", " WFS ", " FWFS "].iter().any(|flags| line.contains(flags));
        lines.iter().filter(|line| line.contains(event)).filter(is_write).count()
    };
    assert!(
        count("block_bio_queue") >= 5 && count("block_rq_complete") >= 5,
        "{}",
        lines.join("\n")
    );
}

#[test]
fn seconds_end_the_recording_and_schedule_and_calls_are_recorded_on_request() {
    let Some(place) = recording::scratch() else { return };
    let sandbox = Sandbox::new();
    let output =
        trace(&sandbox, &place, &["--seconds", "0.5", "--sched", "--syscalls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let lines = lines(&sandbox);
    for event in ["sched_switch: prev_comm=", "sys_enter_", "sys_exit_"] {
        assert!(lines.iter().any(|line| line.contains(event)), "{event}");
    }
    let output = sandbox.oneflush().args(["identify", "t.zst"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stdout(&output).contains("not understood"), "{}", stdout(&output));
}

#[test]
fn the_vfs_writes_down_what_sqlite_asks_of_its_files_without_root() {
    let sandbox = Sandbox::new();
    let (dir, calls) = (sandbox.open_directory("work"), sandbox.path().join("t.zst"));
    let bench = |calls: &Path| {
        let mut command = sandbox.oneflush();
        command.env("ONEFLUSH_TRACE", calls).args([
            "bench",
            "-n",
            "20",
            "--rounds",
            "1",
            "--modes",
            "delete,persist",
        ]);
        command.arg("--dir").arg(&dir).output().unwrap()
    };
    let output = bench(&calls);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = identified(&sandbox);
    for mode in ["DELETE", "PERSIST"] {
        let of = found
            .iter()
            .filter(|found| found["journal_mode"] == mode && found["synchronous"] == "FULL");
        assert!(of.count() >= 20, "{mode}: {found:?}");
    }
    let output = bench(Path::new("/nowhere/t.txt"));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("ONEFLUSH_TRACE") && stderr(&output).contains("/nowhere/t.txt"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn without_root_a_program_is_recorded_by_the_vfs() {
    let Some(built) = built(&["sqlite3"]) else { return };
    let sandbox = Sandbox::new();
    let sql = "CREATE TABLE t(v); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2);";
    let mut command = Command::new(built.join("oneflush"));
    command
        .args(["trace", "--vfs", "-o", "t.zst", "--", "sqlite3", "a.db", sql])
        .current_dir(sandbox.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(identified(&sandbox).len(), 3);
}
