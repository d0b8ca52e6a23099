//! `oneflush run` and SQLites that Oneflush is not in: built into the program, or the second one of
//! a process. Their programs go on as they would alone, and one line says so.
//!
//! The second SQLite is what `make sqlite-lsmvbt` leaves as a static library, in a shared library
//! that exports its functions, as the wheel `pysqlite3-binary` does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use oneflush_testing::{Running, built, skip};
use tempfile::TempDir;

const ARCHIVE: &str = "liboneflush_sqlite3.a";

/// Writes to a database and says how many rows it has. Its calls are bound at their first use, or
/// all at once, as the linker is told.
const USER: &str = r#"
#include <stdio.h>
int sqlite3_open_v2(const char *, void **, int, const char *);
int sqlite3_open(const char *, void **);
int sqlite3_close(void *);
int sqlite3_exec(void *, const char *, int (*)(void *, int, char **, char **), void *, char **);
static int say(void *name, int n, char **values, char **names) {
    return printf("%s: %s\n", (char *)name, values[0]) < 0;
}
int USE(const char *path, const char *name) {
    void *db;
    int code = sqlite3_open_v2(path, &db, 6, 0);
    if (!code) code = sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES (1);"
        "SELECT count(*) FROM t; PRAGMA oneflush_strategy", say, (void *)name, 0);
    fflush(stdout);
    sqlite3_close(db);
    return code;
}
"#;

/// Loads libraries, and lets each use a database: a library, its function and a database at a time.
/// Without a function the library is there for all others. The archive knows both engines, and any
/// SQLite of a program knows one.
const HOST: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments) {
    unsetenv("ONEFLUSH_ENGINE");
    for (int n = 1; n + 2 < count; n += 3) {
        int scope = !*arguments[n + 1] ? RTLD_GLOBAL : getenv("DEEP") ? RTLD_DEEPBIND : RTLD_LOCAL;
        void *library = dlopen(arguments[n], RTLD_LAZY | scope);
        if (!library) { puts(dlerror()); return 9; }
        if (!*arguments[n + 1]) continue;
        int (*use)(const char *, const char *) = dlsym(library, arguments[n + 1]);
        int code = use(arguments[n + 2], arguments[n + 1]);
        if (code) return code;
    }
    return 0;
}
"#;

/// A server with SQLite built in, which ends by `_exit()` or runs until somebody ends it.
const SERVER: &str = r#"
#include <stdlib.h>
#include <unistd.h>
int use(const char *, const char *);
int main(int count, char **arguments) {
    unsetenv("ONEFLUSH_ENGINE");
    int code = use(arguments[1], "server");
    if (count > 2) { alarm(60); pause(); }
    _exit(code);
}
"#;

struct Work {
    folder: PathBuf,
    dir: TempDir,
}

impl Work {
    fn new() -> Option<Work> {
        let folder = built(&["cc"])?;
        if !folder.join(ARCHIVE).exists() {
            skip(format_args!("`make sqlite-lsmvbt` has not left {ARCHIVE} beside the program"));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        Some(Work { folder, dir })
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn compile(&self, name: &str, source: &str, options: &[&str]) -> String {
        let file = self.dir.path().join(format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let made = Command::new("cc")
            .args(["-O2", "-o", &self.path(name)])
            .arg(&file)
            .args(options)
            .status()
            .unwrap();
        assert!(made.success(), "{name}");
        self.path(name)
    }

    fn archive(&self) -> String {
        self.folder.join(ARCHIVE).display().to_string()
    }

    fn system() -> Option<String> {
        let sqlite = format!("/usr/lib/{}-linux-gnu/libsqlite3.so.0", std::env::consts::ARCH);
        if !Path::new(&sqlite).exists() {
            skip("there is no libsqlite3.so.0 of the system");
            return None;
        }
        Some(sqlite)
    }

    /// A library that uses the system's SQLite.
    fn of_system(&self, binding: &str) -> Option<String> {
        let sqlite = Work::system()?;
        let options = ["-shared", "-fPIC", "-DUSE=of_system", binding, &sqlite];
        Some(self.compile("of_system.so", USER, &options))
    }

    /// A library that brings its own, and exports its functions.
    fn with_own(&self, binding: &str) -> String {
        let archive = self.archive();
        let options = ["-shared", "-fPIC", "-DUSE=with_own", binding];
        let libraries = ["-Wl,--whole-archive", &archive, "-Wl,--no-whole-archive", "-lm"];
        self.compile("with_own.so", USER, &[&options[..], &libraries].concat())
    }

    fn server(&self) -> String {
        let user = self.compile("user.o", USER, &["-c", "-DUSE=use"]);
        self.compile("server", SERVER, &[&user, &self.archive(), "-lm", "-lpthread", "-ldl"])
    }

    fn oneflush(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join("oneflush"));
        command
            .arg("run")
            .args(arguments)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .env("TMPDIR", self.dir.path().join("tmp"));
        for variable in ["ONEFLUSH_STRATEGY", "ONEFLUSH_ENGINE", "ONEFLUSH_LOG"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.oneflush(arguments).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(output: &Output) -> Vec<String> {
    text(&output.stderr).lines().map(str::to_owned).collect()
}

/// ChromaDB's users import `sqlite3` and put `pysqlite3` in its place. The handle of one SQLite
/// came into the hands of the other: SIGSEGV in each run, and with the second alone `[OF-512]` and
/// exit code 1.
#[test]
fn of_two_sqlites_in_a_process_the_first_is_served_and_the_other_left_alone_with_one_line() {
    let Some(work) = Work::new() else { return };
    for binding in ["-Wl,-z,lazy", "-Wl,-z,now"] {
        let Some(of_system) = work.of_system(binding) else { return };
        let with_own = work.with_own(binding);
        let host = work.compile("host", HOST, &["-ldl"]);
        let (a, b, c) = (work.path("a.db"), work.path("b.db"), work.path("c.db"));
        let system_first = [
            &*host,
            &of_system,
            "of_system",
            &a,
            &with_own,
            "with_own",
            &b,
            &of_system,
            "of_system",
            &a,
        ];
        let own_first = [
            &*host,
            &with_own,
            "with_own",
            &a,
            &of_system,
            "of_system",
            &b,
            &with_own,
            "with_own",
            &c,
        ];
        for strategy in ["stock", "plain", "eager"] {
            let run = |arguments: &[&str]| {
                for file in [&a, &b, &c] {
                    let _ = fs::remove_file(file);
                }
                work.run(&[&["--strategy", strategy, "--"], arguments].concat())
            };
            let output = run(&system_first);
            let answered = text(&output.stdout);
            let said = lines(&output);
            assert_eq!(output.status.code(), Some(0), "{binding} {strategy}: {output:?}");
            let words: Vec<&str> = answered.lines().collect();
            assert_eq!(
                [words[0], words[2], words[3]],
                ["of_system: 1", "with_own: 1", "of_system: 2"]
            );
            assert!(words[1].starts_with(&format!("of_system: {strategy}")), "{answered}");
            let said: Vec<&String> = said.iter().filter(|line| line.contains("[OF-533]")).collect();
            assert_eq!(said.len(), 1, "{output:?}");
            assert!(said[0].contains(&b) && said[0].contains(&with_own), "{said:?}");

            let output = run(&own_first);
            let answered = text(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "{binding} {strategy}: {output:?}");
            assert!(answered.contains(&format!("with_own: {strategy}")), "{answered}");
            assert!(!answered.contains(&format!("of_system: {strategy}")), "{answered}");
            assert_eq!(text(&output.stderr).matches("[OF-533]").count(), 1, "{output:?}");
        }
    }
}

/// A library is bound to one SQLite, and then another comes into the scope of all. What the library
/// is bound to counts, and not what a look-up would find by now.
#[test]
fn a_second_libsqlite3_for_all_changes_nothing_for_those_that_are_bound() {
    let Some(work) = Work::new() else { return };
    for binding in ["-Wl,-z,lazy", "-Wl,-z,now"] {
        let Some(of_system) = work.of_system(binding) else { return };
        let copy = work.path("libsqlite3.so.0");
        fs::copy(Work::system().unwrap(), &copy).unwrap();
        let options = ["-shared", "-fPIC", "-DUSE=of_any", binding];
        let of_any = work.compile("of_any.so", USER, &options);
        let host = work.compile("host", HOST, &["-ldl"]);
        let (a, b) = (work.path("a.db"), work.path("b.db"));
        let _ = (fs::remove_file(&a), fs::remove_file(&b));
        let first = ["--", &host, &of_system, "of_system", &a, &copy, "", ""];
        let then = [&*of_system, "of_system", &a, &of_any, "of_any", &b];
        let output = work.run(&[&first[..], &then].concat());
        let plain = "plain (inactive: journal_mode=delete)";
        let expected = format!(
            "of_system: 1\nof_system: {plain}\nof_system: 2\nof_system: {plain}\nof_any: 1\n"
        );
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), expected), "{output:?}");
        let said = lines(&output);
        assert!(said.len() == 1 && said[0].contains(&copy) && said[0].contains(&b), "{said:?}");
    }
}

/// `RTLD_DEEPBIND` lets a library find its own functions before ours, and the C library's `open`.
/// So nobody sees what it opens, and the program hears it at its end.
#[test]
fn a_library_that_finds_its_own_functions_first_is_left_alone() {
    let Some(work) = Work::new() else { return };
    let with_own = work.with_own("-Wl,-z,lazy");
    let host = work.compile("host", HOST, &["-ldl"]);
    let path = work.path("a.db");
    let output = work
        .oneflush(&["--", &host, &with_own, "with_own", &path])
        .env("DEEP", "1")
        .output()
        .unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"with_own: 1\n"[..]));
    let said = lines(&output);
    assert!(said.len() == 1 && said[0].contains("[OF-507]"), "{said:?}");
}

/// Go's programs end by `exit_group`, servers by a signal. OF-507 was said in `exit()`, so neither
/// ever heard that Oneflush was not in use.
#[test]
fn a_program_with_sqlite_built_in_is_told_at_its_first_database_and_only_then() {
    let Some(work) = Work::new() else { return };
    let server = work.server();
    let log = work.path("oneflush.log");
    // A new one, one that is there, and a file without a database.
    fs::write(work.path("empty.db"), "").unwrap();
    for name in ["a.db", "a.db", "empty.db"] {
        let path = work.path(name);
        let output = work.run(&["--strategy", "eager", "--", &server, &path]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = lines(&output);
        assert_eq!(said.len(), 1, "{name}: {said:?}");
        assert!(said[0].contains(&path) && said[0].contains("[OF-533]"), "{said:?}");
    }
    let output = work
        .oneflush(&["--", &server, &work.path("a.db")])
        .env("ONEFLUSH_LOG", &log)
        .output()
        .unwrap();
    assert_eq!(lines(&output).len(), 1, "{output:?}");
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.lines().count() == 1 && logged.contains("Z oneflush run: "), "{logged}");
    let output =
        work.oneflush(&["--", &server, ":memory:"]).env("ONEFLUSH_LOG", "off").output().unwrap();
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_server_that_runs_hears_it_while_it_runs() {
    let Some(work) = Work::new() else { return };
    let server = work.server();
    let mut command = work.oneflush(&["--", &server, &work.path("a.db"), "stay"]);
    let mut started = Running::start(command.stderr(Stdio::piped()).stdout(Stdio::null()));
    let line = BufReader::new(started.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(line.contains("[OF-533]"), "{line}");
}

/// A program may copy databases, or serve them as files. It is no SQLite because of that.
#[test]
fn a_program_that_only_reads_and_writes_database_files_is_told_nothing_about_them() {
    let Some(work) = Work::new() else { return };
    fs::write(work.path("a.db"), b"SQLite format 3\0 and more").unwrap();
    let copy = ["--require", "--", "cp", &work.path("a.db"), &work.path("b.db")];
    let output = work.run(&copy);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!text(&output.stderr).contains("[OF-533]"), "{output:?}");
    // Its own SQLite is in the program, but another way of opening is not.
    let source = "#include <fcntl.h>\n#include <unistd.h>\nint use(const char *, const char *);
        int main(int n, char **a) { if (n > 2) use(a[1], a[2]);
        return open(a[1], O_RDONLY | O_CLOEXEC) < 0; }";
    let user = work.compile("user.o", USER, &["-c", "-DUSE=use"]);
    let archive = work.archive();
    let reader = work.compile("reader", source, &[&user, &archive, "-lm", "-lpthread", "-ldl"]);
    let output = work.run(&["--require", "--", &reader, &work.path("a.db")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!text(&output.stderr).contains("[OF-533]"), "{output:?}");
}

#[test]
fn with_require_a_program_ends_before_its_own_sqlite_makes_a_database() {
    let Some(work) = Work::new() else { return };
    let server = work.server();
    let path = work.path("a.db");
    let output = work.run(&["--require", "--", &server, &path]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("[OF-533]") && said.contains("[OF-536]"), "{said}");
    assert!(!Path::new(&path).exists() && output.stdout.is_empty(), "{output:?}");
    let alone = Command::new(&server).arg(&path).output().unwrap();
    assert!(alone.status.success());
    let before = fs::read(&path).unwrap();
    // Also where a child opens it, and where nobody listens.
    let script = format!("'{server}' '{path}'; exit $?");
    let output = work
        .oneflush(&["--require", "--", "sh", "-c", &script])
        .env("ONEFLUSH_LOG", "off")
        .output()
        .unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), String::new()));
    assert_eq!(fs::read(&path).unwrap(), before);
    let Some(of_system) = work.of_system("-Wl,-z,now") else { return };
    let host = work.compile("host", HOST, &["-ldl"]);
    let output = work.run(&["--require", "--", &host, &of_system, "of_system", &path]);
    assert_eq!(output.status.code(), Some(0), "Oneflush is in it: {output:?}");
}

/// It is what such a program is told to do. A line that Oneflush is not in use would be a lie then.
#[test]
fn a_program_that_loads_the_extension_into_its_own_sqlite_is_told_nothing() {
    let Some(work) = Work::new() else { return };
    let source = r#"
int sqlite3_open(const char *, void **);
int sqlite3_enable_load_extension(void *, int);
int sqlite3_load_extension(void *, const char *, const char *, char **);
int use(const char *, const char *);
int main(int count, char **arguments) {
    void *db;
    return sqlite3_open(":memory:", &db) || sqlite3_enable_load_extension(db, 1)
        || sqlite3_load_extension(db, arguments[1], 0, 0) || use(arguments[2], "loaded");
}"#;
    let user = work.compile("user.o", USER, &["-c", "-DUSE=use"]);
    let archive = work.archive();
    let loader = work.compile("loader", source, &[&user, &archive, "-lm", "-lpthread", "-ldl"]);
    let extension = work.folder.join("liboneflush.so").display().to_string();
    let path = work.path("a.db");
    let arguments = ["--require", "--strategy", "stock", "--", &loader, &extension, &path];
    let output = work.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), "loaded: 1\nloaded: stock\n");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn with_require_a_program_that_cannot_have_oneflush_is_not_started() {
    let Some(work) = Work::new() else { return };
    let says = "#include <unistd.h>\nint main(void) { return write(1, \"x\", 1) != 1; }";
    let is_static = work.compile("static", says, &["-static"]);
    let script = work.path("script");
    fs::write(&script, format!("#!{is_static}\n")).unwrap();
    // In a section of a C program: what each program of Go has, and SQLite's text.
    let go = format!(
        "__attribute__((section(\".go.buildinfo\"), used)) static char a[] = \"x\";\n\
            const char *b = \"type text,name text,tbl_name text,rootpage int\";\n{says}"
    );
    let go = work.compile("go", &go, &[]);
    let mut refused = vec![(is_static, "statically"), (script.clone(), "statically"), (go, "Go")];
    let privileged = work.compile("privileged", says, &[]);
    for (file, mode) in [(&privileged, 0o4755), (&script, 0o755)] {
        if file == &privileged && std::os::unix::fs::chown(file, Some(1), None).is_err() {
            continue;
        }
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }
    if fs::metadata(&privileged).unwrap().permissions().mode() & 0o4000 != 0 {
        refused.push((privileged, "setuid"));
    }
    for (program, why) in refused {
        let output = work.run(&["--require", "--", &program]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), &*output.stdout), (Some(3), &b""[..]), "{said}");
        assert!(said.contains(why) && said.contains("[OF-535]"), "{said}");
        // Without the option it runs, and is told once.
        let output = work.run(&["--", &program]);
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"x"[..]), "{output:?}");
        let said = lines(&output);
        assert!(
            said.len() == 1 && said[0].contains(why) && said[0].contains("[OF-506]"),
            "{said:?}"
        );
    }
}

/// The help said that such a program ends. It ran on with its own SQLite, and nobody said so.
#[test]
fn a_program_with_sqlite_built_in_goes_on_without_the_engine_and_is_told_so() {
    let Some(work) = Work::new() else { return };
    let server = work.server();
    let output = work.run(&["--engine", "lsmvbt", "--", &server, &work.path("a.db")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains("[OF-533]"), "{output:?}");
    let arguments = ["--engine", "lsmvbt", "--require", "--", &server, &work.path("b.db")];
    assert_eq!(work.run(&arguments).status.code(), Some(3));
    let with_own = work.with_own("-Wl,-z,now");
    let host = work.compile("host", HOST, &["-ldl"]);
    let output =
        work.run(&["--engine", "lsmvbt", "--", &host, &with_own, "with_own", &work.path("c.db")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stderr).contains("[OF-512]"), "{output:?}");
}
