//! `oneflush check`: each finding, where all is well and where it is not.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use oneflush_testing::flawed::{Answer, Cache, Flawed, Flaws, Locks, Sync};
use oneflush_testing::{Running, has_programs, in_own_mounts, named};
use oneflush_vfs::Ground;
use serde_json::Value;

use crate::common::crashed::{EAGER, MAW, WALDIO, crashed, side};
use crate::common::{Sandbox, assert_refused, may_mount, skip_unless_root, stderr, stdout};
use crate::who::{holder, open};

const AT_MOST: Duration = Duration::from_secs(120);

/// The findings by JSON. The table has the same, in lines of 80 columns, and so has the exit code.
struct Checked {
    findings: Vec<Value>,
    text: String,
}

fn check(sandbox: &Sandbox, path: &Path, arguments: &[&str]) -> Checked {
    let run = |more: &[&str]| {
        sandbox.oneflush().arg("check").arg(path).args(arguments).args(more).output().unwrap()
    };
    checked(&run(&[]), &run(&["--json"]))
}

fn checked(table: &Output, json: &Output) -> Checked {
    let text = stdout(table);
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let answer: Value = serde_json::from_str(&stdout(json))
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(json), stderr(json)));
    let findings = answer["findings"].as_array().unwrap().clone();
    let is_bad = |finding: &&Value| finding["status"] == "warn" || finding["status"] == "fault";
    let bad = findings.iter().filter(is_bad).count();
    for output in [table, json] {
        assert_eq!(output.status.code(), Some(i32::from(bad > 0)), "{text}{}", stderr(output));
        let said = format!("{bad} of {} findings are not ok", findings.len());
        assert_eq!(stderr(output).contains(&said), bad > 0, "{}", stderr(output));
    }
    for finding in &findings {
        assert_eq!(finding["way_out"].is_null(), finding["status"] == "ok", "{finding}");
    }
    for (word, status) in [("WARN", "warn"), ("FAULT", "fault")] {
        let lines = text.lines().filter(|line| line.trim_start().starts_with(word));
        let all = findings.iter().filter(|finding| finding["status"] == status);
        assert_eq!(lines.count(), all.count(), "{text}");
    }
    Checked { findings, text }
}

impl Checked {
    fn about<'a>(&'a self, about: &'a str) -> impl Iterator<Item = &'a Value> {
        self.findings.iter().filter(move |finding| finding["about"] == about)
    }

    /// There is this finding, and it has all of the words.
    fn assert(&self, about: &str, status: &str, words: &[&str]) {
        let is_it = |finding: &Value| {
            let said = format!("{} {}", finding["says"], finding["way_out"]);
            finding["status"] == status && words.iter().all(|word| said.contains(word))
        };
        assert!(
            self.about(about).any(is_it),
            "no {about} {status} {words:?}: {:#?}\n{}",
            self.findings,
            self.text
        );
    }

    fn assert_none(&self, about: &str, status: &str) {
        let found = self.about(about).find(|finding| finding["status"] == status);
        assert!(found.is_none(), "{found:?}");
    }
}

const WAL: &str = "PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES (1)";

/// A database in WAL mode that nobody has open.
fn closed(path: &Path) {
    open(path, "none").execute_batch(WAL).unwrap();
}

/// Each file of the folder: its bytes, its number and when it was changed.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, u64, SystemTime)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let seen = files.map(|entry| {
        let about = entry.metadata().unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, (bytes, about.ino(), about.modified().unwrap()))
    });
    seen.collect()
}

#[test]
fn a_whole_database_is_ok_and_nothing_is_changed_beside_it() {
    let sandbox = Sandbox::new();
    let folder = sandbox.open_directory("data");
    let path = folder.join("a.db");
    closed(&path);
    let before = files(&folder);
    let found = check(&sandbox, &path, &["--quick"]);
    found.assert("locks", "ok", &["locks keep others out"]);
    found.assert("orphans", "ok", &["none"]);
    found.assert("state", "ok", &["WAL mode, 2 pages of 4096 bytes"]);
    found.assert("content", "ok", &["quick_check found nothing"]);
    found.assert_none("log", "ok");
    let ground = Ground::of(&folder).unwrap();
    if ground.fault.is_none() {
        found.assert("place", "ok", &[&ground.file_system, "all strategies work"]);
        assert!(found.findings.iter().all(|finding| finding["status"] != "warn"), "{}", found.text);
    }
    assert_eq!(files(&folder), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a scratch folder is left");
    // Without --quick its pages are not read.
    check(&sandbox, &path, &[]).assert_none("content", "ok");
}

/// Nor does it wait for them.
#[test]
fn programs_that_have_it_open_are_named_with_their_sqlite_and_are_not_disturbed() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    closed(&path);
    let alone = holder(&path, "none", "INSERT INTO t VALUES (2); BEGIN IMMEDIATE");
    let found = check(&sandbox, &path, &["--quick"]);
    let version = format!("SQLite {}", rusqlite::version());
    found.assert("users", "ok", &[&alone.id().to_string(), &version, "alone"]);
    found.assert("state", "ok", &["WAL mode", "1 frame not in the file yet"]);
    found.assert("content", "unknown", &["in its WAL alone", "PRAGMA quick_check in a program"]);
    let ours = holder(&path, "plain", "SELECT * FROM t");
    let found = check(&sandbox, &path, &[]);
    found.assert("users", "ok", &[&alone.id().to_string(), &version, "alone"]);
    found.assert("users", "ok", &[&ours.id().to_string(), &version, "with Oneflush"]);
    drop((alone, ours));

    let rollback = sandbox.path().join("r.db");
    open(&rollback, "none").execute_batch("CREATE TABLE t(v)").unwrap();
    let writer = holder(&rollback, "none", "BEGIN EXCLUSIVE; INSERT INTO t VALUES (1)");
    let found = check(&sandbox, &rollback, &[]);
    found.assert("state", "ok", &["a rollback mode", "a transaction runs"]);
    drop(writer);
}

/// Opens the database, says SQLite's version and the file that it is in, and waits. A second
/// library is loaded before.
const PROGRAM: &str = "
import ctypes, sqlite3, sys, time
if len(sys.argv) > 3:
    ctypes.CDLL(sys.argv[3])
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.executescript(sys.argv[2])
files = {line.split(None, 5)[-1].strip() for line in open('/proc/self/maps') if 'sqlite3' in line}
library = max(files, key=lambda file: 'libsqlite3' in file)
print(sqlite3.sqlite_version, library, sep='\\n', flush=True)
time.sleep(600)
";

/// The process, SQLite's version and its file.
fn python(path: &Path, sql: &str, library: Option<&Path>) -> (Running, String, String) {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", PROGRAM]).arg(path).arg(sql).args(library).stdout(Stdio::piped());
    let mut running = Running::start(&mut command);
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut line = || lines.next().expect("it says its version").unwrap();
    let (version, file) = (line(), line());
    (running, version, file)
}

fn is_affected(version: &str) -> bool {
    let parts: Vec<i32> = version.split('.').map(|part| part.parse().unwrap()).collect();
    oneflush_vfs::has_wal_reset_bug(parts[0] * 1_000_000 + parts[1] * 1000 + parts[2])
}

#[test]
fn a_sqlite_with_the_wal_reset_bug_is_warned_of_in_wal_mode_and_so_are_two_in_one_process() {
    if !Path::new("/usr/bin/python3").exists() {
        return oneflush_testing::skip("there is no /usr/bin/python3");
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    let (first, version, file) = python(&path, "CREATE TABLE t(v); SELECT * FROM t", None);
    let named = format!("SQLite {version} alone");
    let found = check(&sandbox, &path, &[]);
    found.assert("users", "ok", &["python3", &first.id().to_string(), &named]);
    found.assert_none("users", "warn");
    drop(first);

    let (first, ..) = python(&path, WAL.replace("CREATE TABLE t(v);", "").as_str(), None);
    let (second, ..) = python(&path, "SELECT * FROM t", None);
    let found = check(&sandbox, &path, &[]);
    let both = [first.id(), second.id()];
    let pids = format!("({}, {})", both.iter().min().unwrap(), both.iter().max().unwrap());
    match is_affected(&version) {
        true => found.assert("users", "warn", &[&pids, &named, "WAL-reset bug", "3.51.3"]),
        false => found.assert("users", "ok", &[&pids, &named]),
    }
    assert!(!found.text.contains("two SQLites"), "{}", found.text);
    drop((first, second));

    let copy = sandbox.path().join("another.so");
    fs::copy(&file, &copy).unwrap();
    let (both, ..) = python(&path, "SELECT * FROM t", Some(&copy));
    let found = check(&sandbox, &path, &[]);
    found.assert("users", "warn", &[&both.id().to_string(), "two SQLites", "another.so"]);
}

#[test]
fn a_program_that_has_no_sqlite_is_not_taken_for_one() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    closed(&path);
    let input = fs::File::open(&path).unwrap();
    let running = Running::start(Command::new("sleep").arg("600").stdin(input));
    let found = check(&sandbox, &path, &[]);
    found.assert("users", "unknown", &["sleep", &running.id().to_string(), "no SQLite was found"]);
    found.assert_none("users", "warn");
}

#[test]
fn a_place_that_forgets_is_warned_of() {
    let shared = Path::new("/dev/shm");
    if Ground::of(shared).is_none_or(|ground| ground.file_system != "tmpfs") {
        return oneflush_testing::skip("/dev/shm is no tmpfs");
    }
    let sandbox = Sandbox::new();
    let folder = tempfile::tempdir_in(shared).unwrap();
    let path = folder.path().join("a.db");
    closed(&path);
    let found = check(&sandbox, &path, &[]);
    found.assert("place", "warn", &["tmpfs: nothing in memory outlives", "use a disk"]);
    found.assert("locks", "ok", &[]);
}

/// FUSE stands for NFS and its like by the name of its type.
#[test]
fn places_of_several_hosts_and_locks_that_two_have_are_faults() {
    let test = named!(places_of_several_hosts_and_locks_that_two_have_are_faults);
    if !may_mount() || !in_own_mounts(test, AT_MOST) {
        return;
    }
    let sandbox = Sandbox::new();
    let made = |place: &Flawed| {
        let path = place.path().join("a.db");
        // Made elsewhere: SQLite may not be able to do it here.
        let elsewhere = sandbox.path().join("made.db");
        if !elsewhere.exists() {
            closed(&elsewhere);
        }
        fs::copy(&elsewhere, &path).unwrap();
        path
    };
    let place = Flawed::mount("sshfs", Flaws::default()).unwrap();
    let path = made(&place);
    let found = check(&sandbox, &path, &[]);
    let words = ["fuse.sshfs", "no WAL mode", "eager, waldio, maw refuse it", "use a local disk"];
    found.assert("place", "fault", &words);
    found.assert("locks", "ok", &[]);
    fs::remove_file(&path).unwrap();
    open(&path, "none").execute_batch("CREATE TABLE t(v)").unwrap();
    check(&sandbox, &path, &[]).assert("place", "warn", &["fuse.sshfs"]);
    drop(place);

    let locks = |locks| Flaws { locks, ..Flaws::default() };
    for (flaws, status, words) in [
        (locks(Locks::Posix(Answer::Granted)), "fault", "record locks"),
        (locks(Locks::Posix(Answer::Refused(libc_enolck()))), "fault", "record locks"),
        (locks(Locks::Flock(Answer::Granted)), "warn", "flock"),
        (Flaws { sync: Sync::Fails, ..Flaws::default() }, "fault", "sync of file"),
        (Flaws { cache: Cache::NoMaps, ..Flaws::default() }, "warn", "shared mmap"),
    ] {
        // This type is believed, so that only what is tried tells.
        let place = match Flawed::mount("oneflush", flaws) {
            Ok(place) => place,
            Err(error) => {
                oneflush_testing::skip(format_args!("{flaws:?}: {error}"));
                continue;
            }
        };
        let found = check(&sandbox, &made(&place), &[]);
        found.assert("place", "ok", &[]);
        found.assert("locks", status, &[words]);
        let left = fs::read_dir(place.path()).unwrap().count();
        assert_eq!(left, 1, "{flaws:?}: a scratch folder is left");
    }
}

fn libc_enolck() -> i32 {
    rustix::io::Errno::NOLCK.raw_os_error()
}

#[test]
fn the_trial_is_left_out_in_a_folder_that_cannot_be_written() {
    if skip_unless_root("to be somebody who may not write") {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    closed(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let run = |arguments: &[&str]| {
        sandbox.oneflush_as_nobody().arg("check").arg(&path).args(arguments).output().unwrap()
    };
    let found = checked(&run(&["--quick"]), &run(&["--quick", "--json"]));
    found.assert("locks", "unknown", &["left out", "Permission denied", "who may write there"]);
    found.assert("users", "unknown", &["cannot be seen", "run as root"]);
    found.assert("content", "ok", &[]);
}

#[test]
fn orphans_are_named_with_size_date_and_what_to_do() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    closed(&path);
    closed(&side(&path, "-orphan-0"));
    fs::write(side(&path, "-orphan-0-wal"), "12345").unwrap();
    fs::write(side(&path, "-orphan-x"), "").unwrap();
    let found = check(&sandbox, &path, &[]);
    let words = ["a.db-orphan-0: 8192 bytes, WAL of 5 bytes, of 20", "sqlite3 a.db-orphan-0"];
    found.assert("orphans", "warn", &words);
    assert_eq!(found.about("orphans").count(), 1, "{}", found.text);
    fs::write(side(&path, "-orphan-1-wal"), "12345").unwrap();
    let found = check(&sandbox, &path, &[]);
    found.assert("orphans", "warn", &["a.db-orphan-1-wal: 5 bytes, of 20", "OF-149"]);
    assert_eq!(found.about("orphans").count(), 2, "{}", found.text);
}

/// The seatbelt itself has saved it.
#[test]
fn the_orphan_of_a_file_that_was_removed_in_use_is_found() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    let db = open(&path, "plain");
    db.execute_batch(&format!("{WAL}; PRAGMA synchronous=full")).unwrap();
    let moved = sandbox.path().join("moved.db");
    fs::rename(&path, &moved).unwrap();
    db.execute_batch("INSERT INTO t VALUES (2)").unwrap_err();
    drop(db);
    fs::rename(&moved, &path).unwrap();
    check(&sandbox, &path, &[]).assert("orphans", "warn", &["a.db-orphan-0: ", "OF-242"]);
}

#[test]
fn a_file_that_is_cut_is_a_fault() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    closed(&path);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(5000).unwrap();
    let found = check(&sandbox, &path, &[]);
    found.assert("state", "fault", &["is cut", "2 pages", "5000 bytes", "backup"]);
    // One that is longer, as after a crash while it grew, is none.
    file.set_len(100 * 4096).unwrap();
    check(&sandbox, &path, &[]).assert_none("state", "fault");
}

/// A database and its WAL, as the end of its process leaves them.
fn with_wal(sandbox: &Sandbox, name: &str) -> std::path::PathBuf {
    let (live, path) = (sandbox.path().join("live.db"), sandbox.path().join(name));
    if !live.exists() {
        closed(&live);
    }
    let holder = holder(&live, "none", "INSERT INTO t VALUES (2)");
    for suffix in ["", "-wal"] {
        fs::copy(side(&live, suffix), side(&path, suffix)).unwrap();
    }
    drop(holder);
    path
}

#[test]
fn a_wal_that_nobody_closed_or_that_is_not_the_databases_is_told() {
    let sandbox = Sandbox::new();
    let path = with_wal(&sandbox, "a.db");
    let before = files(sandbox.path());
    let found = check(&sandbox, &path, &["--quick"]);
    found.assert("state", "warn", &["a.db-wal has", "nobody uses it", "never copy a.db without"]);
    found.assert("content", "unknown", &["not read", "when it is recovered"]);
    assert_eq!(files(sandbox.path()), before, "it was recovered");

    fs::write(&path, "").unwrap();
    let found = check(&sandbox, &path, &["--quick"]);
    found.assert("state", "fault", &["a.db is empty", "removes the WAL", "a.db-wal aside"]);
    found.assert("content", "ok", &["empty"]);

    let other = with_wal(&sandbox, "b.db");
    fs::remove_file(&other).unwrap();
    open(&other, "none").execute_batch("CREATE TABLE t(v)").unwrap();
    // SQLite has removed it.
    fs::copy(side(&path, "-wal"), side(&other, "-wal")).unwrap();
    check(&sandbox, &other, &[]).assert("state", "fault", &["rollback mode", "another time"]);

    let small = sandbox.path().join("c.db");
    open(&small, "none").execute_batch(&format!("PRAGMA page_size=1024; {WAL}")).unwrap();
    fs::copy(side(&path, "-wal"), side(&small, "-wal")).unwrap();
    let words = ["for pages of 4096 bytes", "c.db has pages of 1024", "aside"];
    check(&sandbox, &small, &[]).assert("state", "fault", &words);

    let [first, newer] = ["first.db", "d.db"].map(|name| sandbox.path().join(name));
    let has_page_one = holder(&first, "none", WAL);
    closed(&newer);
    for table in ["a", "b", "c", "d"] {
        open(&newer, "none").execute_batch(&format!("CREATE TABLE {table}(v)")).unwrap();
    }
    fs::copy(side(&first, "-wal"), side(&newer, "-wal")).unwrap();
    drop(has_page_one);
    let words = ["another time than d.db", "change counters"];
    check(&sandbox, &newer, &[]).assert("state", "fault", &words);
}

#[test]
fn a_hot_journal_is_told_and_one_beside_a_wal_is_a_fault() {
    let sandbox = Sandbox::new();
    let (live, path) = (sandbox.path().join("live.db"), sandbox.path().join("a.db"));
    open(&live, "none").execute_batch("CREATE TABLE t(v)").unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) \
        INSERT INTO t SELECT hex(zeroblob(500)) FROM n";
    let sql = format!("PRAGMA cache_size=5; BEGIN; {many}; UPDATE t SET v = hex(zeroblob(400))");
    let writer = holder(&live, "none", &sql);
    check(&sandbox, &live, &[]).assert("state", "ok", &["a transaction runs"]);
    for suffix in ["", "-journal"] {
        fs::copy(side(&live, suffix), side(&path, suffix)).unwrap();
    }
    drop(writer);
    let before = files(sandbox.path());
    let found = check(&sandbox, &path, &["--quick"]);
    found.assert("state", "warn", &["a.db-journal is hot", "rolls it back"]);
    found.assert("content", "unknown", &["a transaction to roll back"]);
    assert_eq!(files(sandbox.path()), before, "it was rolled back");

    let other = Sandbox::new();
    fs::copy(side(&with_wal(&other, "w.db"), "-wal"), side(&path, "-wal")).unwrap();
    let words = ["a.db-journal is hot", "a.db-wal has commits", "copy a.db* aside"];
    check(&sandbox, &path, &[]).assert("state", "fault", &words);
}

#[test]
fn the_log_of_a_strategy_fits_or_not() {
    for logged in [&EAGER, &WALDIO, &MAW] {
        let sandbox = Sandbox::new();
        let path = sandbox.path().join("a.db");
        logged.crashed_after(&path, &[], |_| {});
        let found = check(&sandbox, &path, &["--quick"]);
        let words = ["interrupted in use with", logged.strategy, "oneflush recover a.db"];
        found.assert("log", "warn", &words);
        found.assert("content", "unknown", &["the log of a strategy"]);
        let log = side(&path, logged.log);
        fs::rename(&log, sandbox.path().join("away")).unwrap();
        check(&sandbox, &path, &[]).assert("log", "fault", &["log is missing", "--dry-run"]);
        fs::remove_file(&path).unwrap();
        closed(&path);
        fs::rename(sandbox.path().join("away"), &log).unwrap();
        check(&sandbox, &path, &[]).assert("log", "fault", &["commits of another"]);
    }
    let sandbox = Sandbox::new();
    let (path, used) = (sandbox.path().join("a.db"), sandbox.path().join("used.db"));
    let sql = format!("PRAGMA synchronous=full; {WAL}");
    let user = holder(&used, "eager", &sql);
    let found = check(&sandbox, &used, &[]);
    found.assert("log", "ok", &["in use with eager"]);
    found.assert("users", "ok", &[&user.id().to_string(), "with Oneflush (eager)"]);
    // A log with a damaged record.
    crashed(&path, &[]);
    let log = fs::File::options().read(true).write(true).open(side(&path, "-oneflush")).unwrap();
    log.write_all_at(&[0xff; 4096], 0).unwrap();
    check(&sandbox, &path, &[]).assert("log", "fault", &["a.db"]);
}

#[test]
fn pages_that_are_damaged_are_found_by_quick_alone() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    closed(&path);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0x5a; 4096], 4096).unwrap();
    check(&sandbox, &path, &[]).assert("state", "ok", &[]);
    let found = check(&sandbox, &path, &["--quick"]);
    found.assert("content", "fault", &["quick_check: ", "restore a backup"]);
}

/// SQLite follows a link, and so does the check.
#[test]
fn a_link_leads_to_the_database_and_what_lies_beside_that() {
    let sandbox = Sandbox::new();
    let path = with_wal(&sandbox, "a.db");
    let link = sandbox.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    check(&sandbox, &link, &[]).assert("state", "warn", &["a.db-wal has"]);
}

#[test]
fn what_is_no_database_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    let run = |name: &str| sandbox.oneflush().args(["check", name]).output().unwrap();
    assert_refused(&run("missing.db"), 1, &["missing.db", "No such file"]);
    let text = "not a database, but a text that is long enough";
    fs::write(sandbox.path().join("notes.txt"), text).unwrap();
    assert_refused(&run("notes.txt"), 1, &["notes.txt", "not a SQLite database"]);
    fs::create_dir(sandbox.path().join("folder.db")).unwrap();
    assert_refused(&run("folder.db"), 1, &["folder.db", "directory"]);
    fs::write(sandbox.path().join("m.db"), "Oneflush mvbt 1\n and more").unwrap();
    assert_refused(&run("m.db"), 3, &["m.db", "LS-MVBT", "oneflush mvbt check", "[OF-343]"]);
    if has_programs(&["mkfifo"]) {
        let pipe = sandbox.path().join("pipe.db");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_refused(&run("pipe.db"), 1, &["pipe.db", "no regular file"]);
    }
    // An empty file is an empty database.
    fs::write(sandbox.path().join("e.db"), "").unwrap();
    let empty = sandbox.path().join("e.db");
    check(&sandbox, &empty, &["--quick"]).assert("state", "ok", &["no page was written yet"]);
}
