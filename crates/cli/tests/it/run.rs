//! `oneflush run`, with the real shell, the real Python and the extension as `make build` leaves
//! it.
//!
//! The programs of `make build` are needed (an extension cannot be built inside `cargo test`):
//! `make test` builds them and sets `ONEFLUSH_BUILT` to their folder. Without it these tests say
//! that they skip.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use oneflush_testing::{Running, built};
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
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = database();
    let sql = "CREATE TABLE t(v); INSERT INTO t VALUES (1); PRAGMA oneflush_strategy;";
    let output = run(&folder, &["--strategy", "stock", "--", "sqlite3", &path, sql, ".vfsname"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "stock\noneflush/unix\n");
    assert_eq!(text(&output.stderr), "");
}

/// Links to the libraries. The program is copied by another process, as `copy_program` explains.
fn install(from: &Path, programs: &Path, libraries: &Path) {
    std::fs::create_dir_all(programs).unwrap();
    std::fs::create_dir_all(libraries).unwrap();
    let copied = Command::new("cp").arg(from.join("oneflush")).arg(programs).status();
    assert!(copied.unwrap().success());
    for name in ["liboneflush.so", "liboneflush_preload.so"] {
        std::os::unix::fs::symlink(from.join(name), libraries.join(name)).unwrap();
    }
}

#[test]
fn the_libraries_are_found_beside_the_program_and_where_packages_install_them() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let triplet = format!("lib/{}-linux-gnu/oneflush", std::env::consts::ARCH);
    for place in ["bin", "lib/oneflush", &triplet] {
        let (dir, path) = database();
        let programs = dir.path().join("bin");
        install(&folder, &programs, &dir.path().join(place));
        let output = run(&programs, &["--", "sqlite3", &path, "CREATE TABLE t(v)", ".vfsname"]);
        assert_eq!(text(&output.stdout), "oneflush/unix\n", "{place}: {}", text(&output.stderr));
    }
    let (dir, path) = database();
    let programs = dir.path().join("bin");
    install(&folder, &programs, &dir.path().join("elsewhere"));
    let output = run(&programs, &["--", "sqlite3", &path, "SELECT 1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("liboneflush.so is neither in") && said.contains(&triplet), "{said}");
}

#[test]
fn python_uses_oneflush_through_a_module_that_is_loaded_late() {
    let Some(folder) = built(&["/usr/bin/python3"]) else { return };
    let (_dir, path) = database();
    let program = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('PRAGMA \
        oneflush_strategy').fetchone()[0])";
    let output = run(&folder, &["--", "/usr/bin/python3", "-c", program, &path]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "plain (inactive: journal_mode=delete)\n");
}

/// Says its number, then each signal that it gets, and ends at the word `end` or where its standard
/// input ends.
const SIGNALLED: &str = r#"
import os, signal, sqlite3, sys
sqlite3.connect(":memory:").execute("SELECT 1")
def got(number, frame):
    os.write(1, (signal.Signals(number).name + "\n").encode())
for name in ("INT", "QUIT", "HUP", "TERM", "USR1", "USR2",
             "TTIN", "TTOU", "WINCH", "CHLD", "PIPE", "ALRM"):
    signal.signal(getattr(signal, "SIG" + name), got)
os.write(1, f"{os.getpid()}\n".encode())
sys.stdin.readline()
"#;

/// `oneflush run` was the program's parent. It died of SIGUSR1, USR2, TTIN and others, and left the
/// program an orphan. gunicorn and systemd speak to a service by such signals, and took it for
/// ended.
#[test]
fn every_signal_to_the_process_that_was_started_reaches_the_program_for_it_is_the_program() {
    let Some(folder) = built(&["python3"]) else { return };
    let mut command = Command::new(folder.join("oneflush"));
    command
        .args(["run", "--", "python3", "-c", SIGNALLED])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut started = Running::start(&mut command);
    let pid = started.id();
    let mut lines = BufReader::new(started.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), pid.to_string(), "the program's number is that of what was started");
    for signal in [
        "INT", "QUIT", "HUP", "TERM", "USR1", "USR2", "TTIN", "TTOU", "WINCH", "CHLD", "PIPE",
        "ALRM",
    ] {
        kill(signal, pid);
        assert_eq!(next(), format!("SIG{signal}"));
    }
    kill("STOP", pid);
    let state = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().rsplit(") ").next().unwrap()
            [..1]
            .to_owned()
    };
    while state() != "T" {
        std::thread::yield_now();
    }
    kill("USR1", pid);
    kill("CONT", pid);
    assert_eq!(next(), "SIGUSR1", "after SIGSTOP and SIGCONT");
    kill("KILL", pid);
    assert_eq!(started.wait().unwrap().signal(), Some(9), "its death is the program's");
}

/// The shell's own `kill` needs no package.
fn kill(signal: &str, pid: u32) {
    assert!(
        Command::new("sh")
            .args(["-c", &format!("kill -{signal} {pid}")])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn the_exit_code_and_the_death_are_the_programs_own() {
    let Some(folder) = built(&[]) else { return };
    for code in [0, 7, 255] {
        assert_eq!(
            run(&folder, &["--", "sh", "-c", &format!("exit {code}")]).status.code(),
            Some(code)
        );
    }
    for (name, number) in [("TERM", 15), ("SEGV", 11), ("PIPE", 13)] {
        let status = run(&folder, &["--", "sh", "-c", &format!("kill -{name} $$")]).status;
        assert_eq!((status.code(), status.signal()), (None, Some(number)));
    }
}

/// systemd ignores SIGPIPE in its services, and a supervisor may block signals: Rust's runtime and
/// its `exec` change both.
#[test]
fn ignored_and_blocked_signals_descriptors_and_the_directory_are_inherited() {
    let Some(folder) = built(&["python3"]) else { return };
    let program = "import os, signal; print(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), \
                   *[line for line in open('/proc/self/status') if line.startswith(('SigIgn', \
                   'SigBlk'))], \
                   sorted(os.listdir('/proc/self/fd')), os.getcwd(), os.getppid())";
    let outer = r#"
import os, signal, subprocess, sys
folder, program, ignored = sys.argv[1:]
signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignored == "1" else signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
python = ["/usr/bin/python3", "-c", program]
said = [subprocess.run(command, restore_signals=False, stdout=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, cwd="/").stdout
        for command in (python, [folder + "/oneflush", "run", "--", *python])]
assert said[0] == said[1] and b"SigIgn" in said[0], said
"#;
    for ignored in ["0", "1"] {
        let output = Command::new("python3")
            .args(["-c", outer])
            .arg(&folder)
            .args([program, ignored])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn a_program_that_opens_no_database_is_told_so() {
    let Some(folder) = built(&[]) else { return };
    let output = run(&folder, &["--", "true"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("Oneflush was not in use"), "{}", text(&output.stderr));
}

/// The process that `oneflush run` became says it at its end, so it must know what it cannot know:
/// nobody else may be blamed.
#[test]
fn a_program_whose_children_open_databases_or_whose_messages_go_elsewhere_is_told_nothing() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = database();
    let silent = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    };
    let oneflush = |arguments: &[&str]| {
        let mut command = Command::new(folder.join("oneflush"));
        command.arg("run").args(arguments);
        command
    };
    silent(&mut oneflush(&[
        "--strategy",
        "stock",
        "--",
        "sh",
        "-c",
        &format!("sqlite3 '{path}' 'SELECT 1' > /dev/null; true"),
    ]));
    silent(oneflush(&["--", "true"]).env("ONEFLUSH_LOG", "off"));
    silent(&mut oneflush(&["--", "sh", "-c", "exec 2>&-; true"]));
}

#[test]
fn a_program_that_is_linked_statically_is_named_before_it_starts() {
    let Some(folder) = built(&["cc"]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("a.c"), dir.path().join("a"));
    std::fs::write(&source, "int main(void) { return 3; }").unwrap();
    assert!(
        Command::new("cc")
            .arg("-static")
            .arg("-o")
            .args([&program, &source])
            .status()
            .unwrap()
            .success()
    );
    let output = run(&folder, &["--", program.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("linked statically"), "{}", text(&output.stderr));
}

#[test]
fn a_missing_program_is_127_one_that_cannot_be_executed_126_and_an_unknown_strategy_2() {
    let Some(folder) = built(&[]) else { return };
    for (program, code) in
        [("no-such-program", 127), ("/no/such/program", 127), ("/etc/passwd", 126), ("/", 126)]
    {
        let output = run(&folder, &["--", program]);
        assert_eq!(output.status.code(), Some(code), "{program}");
        assert!(text(&output.stderr).contains(program), "{}", text(&output.stderr));
    }
    let output = run(&folder, &["--strategy", "eagre", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("auto, stock"), "{}", text(&output.stderr));
}

/// It was refused, with a tip that was for options.
#[test]
fn without_the_dashes_all_that_stands_behind_the_program_is_the_programs() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = database();
    let sql = "CREATE TABLE t(v); PRAGMA oneflush_strategy";
    let output = run(&folder, &["--strategy", "stock", "sqlite3", "-batch", &path, sql]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("stock\n".into(), String::new()));
    let output = run(&folder, &["echo", "--strategy", "--", "--help"]);
    assert_eq!(text(&output.stdout), "--strategy -- --help\n");
    let output = run(&folder, &["--strategi", "stock", "true"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_refused_environment_variable_ends_the_program_before_it_opens_anything() {
    let Some(folder) = built(&["sqlite3"]) else { return };
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
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .unwrap();
    assert!(compiler.success());
    dir
}

#[test]
fn an_extension_of_another_version_is_refused_with_both_versions() {
    let Some(built) = built(&["sqlite3", "cc"]) else { return };
    let folder = folder_with(
        &built,
        "const char *oneflush_version(void) { return \"9.8.7\"; } int sqlite3_oneflush_init(void) \
            { return 0; }",
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
    let Some(built) = built(&["sqlite3", "cc"]) else { return };
    let folder = folder_with(&built, "int something_else;");
    let (_dir, path) = database();
    let output = run(folder.path(), &["--", "sqlite3", &path, "CREATE TABLE t(v)"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("not the Oneflush extension"),
        "{}",
        text(&output.stderr)
    );
    std::fs::remove_file(folder.path().join("liboneflush.so")).unwrap();
    let output = run(folder.path(), &["--", "sqlite3", &path, "CREATE TABLE t(v)"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("make build"), "{}", text(&output.stderr));
}

/// `LD_PRELOAD` cannot name a path with a space: the program once ran without Oneflush, with exit
/// code 0.
#[test]
fn a_folder_with_a_space_or_a_colon_works() {
    let Some(built) = built(&["sqlite3"]) else { return };
    let parent = tempfile::tempdir().unwrap();
    for name in ["with space", "with:colon"] {
        let folder = parent.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        for file in ["oneflush", "liboneflush_preload.so", "liboneflush.so"] {
            std::fs::copy(built.join(file), folder.join(file)).unwrap();
        }
        let (_dir, path) = database();
        let tmp = parent.path().join("tmp");
        std::fs::create_dir_all(&tmp).unwrap();
        let mut command = Command::new(folder.join("oneflush"));
        command
            .args(["run", "--", "sqlite3", &path, "PRAGMA oneflush_strategy"])
            .env("TMPDIR", &tmp);
        let output = command.output().unwrap();
        // The link stays for as long as programs use it, so it must not become more of them.
        let again = command.output().unwrap();
        assert_eq!((again.status.code(), &again.stdout), (Some(0), &output.stdout));
        let links: Vec<_> =
            std::fs::read_dir(&tmp).unwrap().map(|link| link.unwrap().path()).collect();
        assert_eq!(
            std::fs::read_link(&links[links.len() - 1]).unwrap().parent(),
            Some(folder.as_path())
        );
        assert_eq!(links.len(), 1, "{links:?}");
        std::fs::remove_file(&links[0]).unwrap();
        let answer = "plain (inactive: journal_mode=delete)\n";
        assert_eq!(
            (text(&output.stdout).as_str(), text(&output.stderr).as_str()),
            (answer, ""),
            "{name}"
        );
    }
}
