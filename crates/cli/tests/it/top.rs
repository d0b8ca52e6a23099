//! `oneflush top` beside programs that commit: its figures, its screen at a terminal, what it
//! refuses and what it leaves.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oneflush_measure::place::Place;
use oneflush_testing::{Running, has_programs};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Sandbox, skip_unless_root, stderr, stdout};
use crate::recording::{self, DeviceCounts, database, device, insert, scratch};

/// Commits one row every few milliseconds, until it is told to stop.
fn commit(path: &Path, mode: &str, count: &AtomicU64, over: &AtomicBool) {
    let db = database(path, mode);
    while !over.load(Ordering::Relaxed) {
        insert(&db);
        count.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `watch` while one program commits in PERSIST and another in WAL, and hands it their counts.
fn beside_writers<T>(place: &Place, watch: impl FnOnce([&AtomicU64; 2]) -> T) -> T {
    let (persist, wal, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for (name, mode, count) in
            [("rolls back.db", "PERSIST", &persist), ("logs.db", "WAL", &wal)]
        {
            let (path, over) = (place.path().join(name), &over);
            scope.spawn(move || commit(&path, mode, count, over));
        }
        while persist.load(Ordering::Relaxed).min(wal.load(Ordering::Relaxed)) < 10 {
            thread::sleep(Duration::from_millis(10));
        }
        let result =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| watch([&persist, &wal])));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn top(sandbox: &Sandbox, place: &Place, arguments: &[&str]) -> Command {
    let mut command = sandbox.oneflush();
    command.args(["top", "--dir"]).arg(place.path()).args(arguments).stdin(Stdio::null());
    command
}

/// No trace of a process that has ended is left in the kernel; a guard may need a moment after a
/// `kill -9`.
fn assert_no_instances() {
    let of_the_dead = || -> Vec<String> {
        let entries = fs::read_dir(recording::instances()).unwrap().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let pid = |name: &str| Some(name.strip_prefix("oneflush-")?.split('-').next()?.to_owned());
        names
            .filter(|name| pid(name).is_some_and(|pid| !Path::new("/proc").join(pid).exists()))
            .collect()
    };
    let until = Instant::now() + Duration::from_secs(60);
    while !of_the_dead().is_empty() {
        assert!(Instant::now() < until, "{:?}", of_the_dead());
        thread::sleep(Duration::from_millis(50));
    }
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("{field} of {value}"))
}

fn assert_near(what: &str, shown: f64, truth: f64) {
    assert!((shown - truth).abs() <= 0.4 * truth, "{what}: {shown} is shown, {truth} is true");
}

/// What is true when a table comes: how many commits of each writer, bytes and flushes of the
/// device.
type Truth = [f64; 4];

/// Tables with what was true when each came, and the output that follows.
fn watched(mut command: Command, truth: impl Fn() -> Truth) -> (Vec<(Value, Truth)>, Output) {
    let mut top = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let lines = BufReader::new(top.stdout.take().unwrap()).lines();
    let tables =
        lines.map(|line| (serde_json::from_str(&line.unwrap()).unwrap(), truth())).collect();
    (tables, top.wait_with_output().unwrap())
}

#[test]
fn each_database_has_its_mode_its_rate_and_its_flushes() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let arguments = ["--batch", "3", "--interval", "2", "--json", "--sort", "flushes"];
    let (tables, output) = beside_writers(&place, |counts| {
        watched(top(&sandbox, &place, &arguments), || {
            let [persist, wal] = counts.map(|count| count.load(Ordering::Relaxed) as f64);
            let sent = DeviceCounts::of(&device(&place));
            [persist, wal, sent.written_bytes as f64, sent.flushes as f64]
        })
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(tables.len(), 3);
    let (first, last) = (&tables[0], &tables[2]);
    // Both are of all that was watched, so the difference of two sums is what was done between the
    // tables. How long a busy machine takes to begin, to end, or for a commit, is in neither.
    assert!(number(&last.0, "window_s") < 9.5, "{}", last.0);
    let between = |rate: &dyn Fn(&Value) -> f64| {
        let sum = |table: &Value| rate(table) * number(table, "window_s");
        sum(&last.0) - sum(&first.0)
    };
    let truth: Vec<f64> = last.1.iter().zip(first.1).map(|(last, first)| last - first).collect();
    let last = &last.0;
    assert_eq!(last["lost"], 0);
    // What flushes most comes first.
    let databases = last["databases"].as_array().unwrap();
    assert_eq!(databases.len(), 2, "{last}");
    // In PERSIST a commit synchronizes journal, its header and the database; in WAL the log.
    for (n, name, mode, flushes) in
        [(0, "rolls back.db", "PERSIST", 3.0..8.0), (1, "logs.db", "WAL", 0.9..2.9)]
    {
        let row = &databases[n];
        assert!(row["database"].as_str().unwrap().ends_with(name), "{last}");
        assert_eq!(
            (&row["journal_mode"], &row["synchronous"]),
            (&mode.into(), &"FULL".into()),
            "{row}"
        );
        assert_eq!(row["pid"], std::process::id(), "{row}");
        assert!(flushes.contains(&number(row, "flushes_per_transaction")), "{row}");
        let rate = |table: &Value| {
            let rows = table["databases"].as_array().unwrap();
            let row = rows
                .iter()
                .find(|row| row["database"].as_str().is_some_and(|it| it.ends_with(name)));
            row.map_or(0.0, |row| number(row, "transactions_per_s"))
        };
        assert_near(name, between(&rate), truth[n]);
    }
    let share = number(&databases[1], "journaling_share");
    assert!(share > 0.9, "WAL writes little but its log: {share}");
    assert_near("bytes", between(&|table| number(table, "written_bytes_per_s")), truth[2]);
    assert_near("flushes", between(&|table| number(table, "flushes_per_s")), truth[3]);
    let of_transactions = |table: &Value| {
        let total = &table["total"];
        number(total, "transactions_per_s") * total["bytes_per_transaction"].as_f64().unwrap_or(0.0)
    };
    assert_near("bytes of transactions", between(&of_transactions), truth[2]);
}

/// Of a table.
const HEAD: &str = "txn/s KB/txn";

#[test]
fn without_a_terminal_it_prints_tables_of_80_columns_until_it_is_told_to_stop() {
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let output: Output = beside_writers(&place, |_| {
        let mut command = top(&sandbox, &place, &["--interval", "0.5"]);
        let mut top = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut tables = String::new();
        let mut lines = BufReader::new(top.stdout.take().unwrap());
        while tables.matches(HEAD).count() < 3 || !tables.contains("rolls back.db") {
            assert!(lines.read_line(&mut tables).unwrap() > 0, "it ended by itself: {tables}");
        }
        kill_process(Pid::from_child(&top), Signal::INT).unwrap();
        lines.read_to_string(&mut tables).unwrap();
        let mut output = top.wait_with_output().unwrap();
        output.stdout = tables.into_bytes();
        output
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("PERSIST FULL")
            && text.contains("WAL FULL")
            && text.contains("rolls back.db"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    let wide = text.lines().find(|line| line.contains(" FULL ") && line.chars().count() > 80);
    assert_eq!(wide, None);
    assert_no_instances();
}

/// A terminal of 80 columns and 24 lines, keys, and how it is afterwards. The second argument: the
/// signal that ends it, or `q`.
const AT_A_TERMINAL: &str = r#"
import fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time
end, program = sys.argv[1], sys.argv[2:]
terminal, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
before = termios.tcgetattr(slave)
child = subprocess.Popen(program, stdin=slave, stdout=slave, stderr=slave)
seen, whole = b"", b""
def read(seconds):
    global seen, whole
    if select.select([terminal], [], [], seconds)[0]:
        new = os.read(terminal, 65536)
        seen, whole = seen + new, whole + new
def wait_for(what):
    global seen
    until = time.monotonic() + 120
    while what not in seen:
        if time.monotonic() > until:
            child.kill()
            sys.exit(f"{what} did not come: {seen[-3000:]}")
        read(0.1)
    seen = seen[seen.index(what) + len(what):]
def press(key, what):
    os.write(terminal, key)
    wait_for(what)
wait_for(b"[?1049h")
wait_for(b"PERSIST FULL")
assert termios.tcgetattr(slave) != before, "it is not raw"
press(b"f", b"by fl/tx")
press(b"n", b"by database")
press(b"?", b"what SQLite does to a block device")
press(b"?", b"txn/s")
press(b" ", b"PAUSED")
until, times = time.monotonic() + 120, []
while len(times) < 5 and time.monotonic() < until:
    read(0.1)
    times = re.findall(rb"last (\d+\.\d) s   PAUSED", seen)
assert len(times) >= 5, f"it is not drawn in a pause: {times}"
assert len(set(times)) == 1, f"figures changed in a pause: {times}"
press(b" ", b"by database")
wait_for(b"last ")
if end == "q":
    os.write(terminal, b"q")
else:
    child.send_signal(getattr(signal, end))
until = time.monotonic() + 120
while child.poll() is None and time.monotonic() < until:
    read(0.1)
read(0.1)
assert child.poll() == 0, f"{child.poll()}: {whole[-2000:]}"
assert termios.tcgetattr(slave) == before, "the terminal is not as it was"
assert whole.rindex(b"[?1049l") > whole.rindex(b"[?1049h")
assert whole.rindex(b"[?25h") > whole.rindex(b"[?25l")
colours = b"[38;5" in whole
print("colours" if colours else "no colours")
"#;

#[test]
fn keys_sort_pause_and_end_and_the_terminal_is_as_it_was() {
    if !has_programs(&["python3"]) {
        return;
    }
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    beside_writers(&place, |_| {
        for (end, no_colour, said) in
            [("q", "", "colours\n"), ("SIGTERM", "1", "no colours\n"), ("SIGHUP", "", "colours\n")]
        {
            let inner = top(&sandbox, &place, &["--interval", "0.2"]);
            let mut command = Command::new("python3");
            command
                .args(["-c", AT_A_TERMINAL, end])
                .arg(inner.get_program())
                .args(inner.get_args());
            let output = command.env("NO_COLOR", no_colour).env("TERM", "xterm").output().unwrap();
            assert_eq!(
                (output.status.code(), stdout(&output).as_str()),
                (Some(0), said),
                "{end}: {}",
                stderr(&output)
            );
        }
    });
    assert_no_instances();
}

#[test]
fn what_cannot_be_watched_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    for (arguments, words) in [
        (&["--dev", "no-such-device"][..], &["--dev", "no-such-device", "lsblk"][..]),
        (&["--dir", "no such folder"], &["--dir", "no such folder", "existing directory"]),
        (&["--interval", "0.01"], &["--interval", "0.01", "at least 0.1"]),
        (&["--interval", "soon"], &["--interval", "soon", "seconds"]),
        (&["--batch", "0"], &["--batch", "0"]),
        (&["--sort", "size"], &["--sort", "size", "flushes"]),
    ] {
        let output = sandbox.oneflush().arg("top").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{word:?} is not in: {}", stderr(&output));
        }
    }
}

#[test]
fn who_is_not_root_is_told_so() {
    if skip_unless_root("running as somebody else") {
        return;
    }
    let Some(place) = scratch() else { return };
    let sandbox = Sandbox::new();
    let device = format!("/dev/{}", place.device().expect("a device").name);
    let output = sandbox
        .oneflush_as_nobody()
        .args(["top", "--batch", "1", "--dev", &device])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("needs root") && stderr(&output).contains("sudo"),
        "{}",
        stderr(&output)
    );
}
