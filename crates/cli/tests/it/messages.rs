//! Reasons in sight: what `ONEFLUSH_LOG` says where, with real programs and the extension as `make
//! build` leaves it (`ONEFLUSH_BUILT`, see `run.rs`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use oneflush_testing::built;
use tempfile::TempDir;

/// A directory to work in.
struct Work {
    folder: PathBuf,
    dir: TempDir,
}

impl Work {
    fn new() -> Option<Work> {
        Some(Work { folder: built(&["python3", "sqlite3"])?, dir: tempfile::tempdir().unwrap() })
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
        let mut command = Command::new(self.folder.join("oneflush"));
        command.arg("run").args(arguments).current_dir(self.dir.path()).env("HOME", "/nonexistent");
        command
            .env_remove("ONEFLUSH_LOG")
            .env_remove("ONEFLUSH_STRATEGY")
            .envs(variables.iter().copied());
        answer(&command.output().unwrap())
    }

    fn python(&self, program: &str, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
        self.run(&["--", "python3", "-c", program], variables)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn answer(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn ours(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("oneflush[")).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Opens a database with an option that has no such value, and says its process's number.
const REFUSED: &str = "
import os, sqlite3
print(os.getpid())
def refused(name='a.db'):
    try:
        sqlite3.connect(f'file:{name}?vfs=oneflush&strategy=fast', uri=True)
    except sqlite3.OperationalError as error:
        print(error)
refused()
";

/// The reason of a refused open was only in SQLite's error log, which Python's sqlite3 cannot read:
/// "unable to open database file".
#[test]
fn the_reason_of_a_refused_open_is_on_standard_error_under_run() {
    let Some(work) = Work::new() else { return };
    let (code, out, err) = work.python(REFUSED, &[]);
    assert_eq!(code, Some(0), "{err}");
    let pid = out.lines().next().unwrap();
    let lines = ours(&err);
    assert_eq!(lines.len(), 1, "{err}");
    assert!(lines[0].starts_with(&format!("oneflush[{pid}]: ")), "{err}");
    for word in ["a.db", "URI parameter strategy", "\"fast\"", "allowed: auto, stock, plain, eager"]
    {
        assert!(lines[0].contains(word), "{word}: {err}");
    }
    assert_eq!(ours(&work.python(REFUSED, &[("ONEFLUSH_LOG", "off")]).2), Vec::<&str>::new());
}

#[test]
fn a_file_gets_each_message_with_its_time_and_the_processs_number() {
    let Some(work) = Work::new() else { return };
    let program = format!(
        "{REFUSED}
for n in range(50): refused()
child = os.fork()
if child == 0:
    refused('b.db')
    os._exit(0)
os.waitpid(child, 0)
print(child)"
    );
    let (code, out, err) = work.python(&program, &[("ONEFLUSH_LOG", "./oneflush.log")]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let log = read(&work.path("oneflush.log"));
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "the same is not repeated: {log}");
    for (line, pid) in lines.iter().zip([out.lines().next().unwrap(), out.lines().last().unwrap()])
    {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.len() == 24 && time.ends_with('Z') && time.contains('T'), "{line}");
        assert!(rest.starts_with(&format!("oneflush[{pid}]: ")), "{pid}: {line}");
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_the_program_before_it_opens_anything() {
    let Some(work) = Work::new() else { return };
    std::fs::write(work.path("other.db"), b"SQLite format 3\0").unwrap();
    for (value, word) in [
        ("/no such folder/log", "No such file"),
        ("./other.db", "no text file"),
        ("stdrr", "allowed: off"),
    ] {
        let (code, _, err) =
            work.run(&["--", "sqlite3", "a.db", "CREATE TABLE t(v)"], &[("ONEFLUSH_LOG", value)]);
        assert_eq!(code, Some(1), "{value}: {err}");
        assert!(err.contains("ONEFLUSH_LOG") && err.contains(word), "{value}: {err}");
        assert!(!work.path("a.db").exists());
    }
    assert_eq!(read(&work.path("other.db")), "SQLite format 3\0");
}

#[test]
fn a_misspelt_variable_is_said_with_the_one_that_was_meant() {
    let Some(work) = Work::new() else { return };
    let (code, _, err) =
        work.run(&["--", "sqlite3", "a.db", "SELECT 1"], &[("ONEFLUSH_STRATEGIE", "eager")]);
    assert_eq!((code, ours(&err).len()), (Some(0), 1), "{err}");
    assert!(
        err.contains("ONEFLUSH_STRATEGIE") && err.contains("did you mean ONEFLUSH_STRATEGY?"),
        "{err}"
    );
}

/// A database in DELETE mode was written with `--strategy eager`, which did nothing, and nobody was
/// told.
#[test]
fn a_strategy_that_was_named_and_changes_nothing_is_said_once_for_a_database() {
    let Some(work) = Work::new() else { return };
    let sql = "CREATE TABLE t(v); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)";
    for strategy in ["eager", "plain"] {
        let name = format!("{strategy}.db");
        let (code, _, err) = work.run(&["--strategy", strategy, "--", "sqlite3", &name, sql], &[]);
        assert_eq!((code, ours(&err).len()), (Some(0), 1), "{err}");
        for word in [&name, "is inactive: journal_mode=delete", "PRAGMA journal_mode=WAL"] {
            assert!(err.contains(word), "{word}: {err}");
        }
        let read_only = work
            .run(&["--strategy", strategy, "--", "sqlite3", &name, "SELECT count(*) FROM t"], &[]);
        assert_eq!(read_only, (Some(0), "2\n".to_owned(), String::new()));
        let wal = format!("wal-{name}");
        let (_, _, err) = work.run(
            &[
                "--strategy",
                strategy,
                "--",
                "sqlite3",
                &wal,
                &format!("PRAGMA journal_mode=wal; {sql}"),
            ],
            &[],
        );
        assert_eq!(err, "", "in WAL mode from its first transaction on");
    }
    for arguments in [vec!["--strategy", "stock"], vec!["--strategy", "auto"], vec![]] {
        let all = [
            arguments.as_slice(),
            &["--", "sqlite3", "other.db", "CREATE TABLE IF NOT EXISTS t(v)"],
        ]
        .concat();
        assert_eq!(
            work.run(&all, &[]).2,
            "",
            "nobody has asked for another strategy: {arguments:?}"
        );
    }
}

/// A program had closed descriptor 2, and its own data file got the number.
#[test]
fn a_file_that_has_become_descriptor_2_gets_no_message() {
    let Some(work) = Work::new() else { return };
    for (n, mode) in ["w+b", "wb"].into_iter().enumerate() {
        let name = format!("data{n}");
        let program = format!(
            "import os; os.close(2); data = open('{name}', '{mode}'); assert data.fileno() == \
                2\n{REFUSED}"
        );
        let (code, out, _) = work.python(&program, &[]);
        assert!(code == Some(0) && out.contains("unable to open"), "{out}");
        assert_eq!(read(&work.path(&name)), "", "{mode}");
    }
    let program = format!(
        "{REFUSED}
os.close(2)
data = open('late', 'w+b')
assert data.fileno() == 2
refused('b.db')"
    );
    assert_eq!(work.python(&program, &[]).0, Some(0));
    assert_eq!(read(&work.path("late")), "");
}

#[test]
fn a_pipe_that_nobody_reads_does_not_end_the_program() {
    let Some(work) = Work::new() else { return };
    let program = format!(
        "import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)
reader, writer = os.pipe()
os.dup2(writer, 2); os.close(writer); os.close(reader)\n{REFUSED}"
    );
    let (code, out, _) = work.python(&program, &[]);
    assert!(code == Some(0) && out.contains("unable to open"), "{code:?} {out}");
}
