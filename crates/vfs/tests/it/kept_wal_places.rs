//! The WAL that `plain` keeps blocks nothing that happens to a database between a close and an
//! open.
//!
//! The case: root ran the migration with `plain`, then `chown app app.db`, then the service
//! started. The service got "attempt to write a readonly database", because the kept WAL still
//! belonged to root. SQLite alone leaves no WAL at a clean close, so the same works there.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use oneflush_testing::{named, skip};
use rusqlite::{Connection, ffi};
use tempfile::TempDir;

use crate::common::{self, commits, files, open_stock, open_with, side};

const KEPT: &str = "-oneflush-kept";
const SERVICE: (u32, u32) = (1001, 1002);

fn open(path: &Path) -> Connection {
    open_with(path, "strategy=plain").unwrap()
}

/// A database with 3 commits, closed by `plain`, in a directory that others may enter.
fn closed() -> (TempDir, PathBuf) {
    common::setup();
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let folder = dir.path().join("data");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("a.db");
    let db = open(&path);
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    commits::create(&db);
    commits::make(&db, 3);
    drop(db);
    assert_eq!(files(&path), ["", KEPT]);
    (dir, path)
}

/// One commit more with `plain`, then what SQLite alone sees.
#[track_caller]
fn assert_goes_on(path: &Path, commits: usize, about: &str) {
    let db = open(path);
    commits::make(&db, 1);
    assert_eq!(commits::check(&db), Ok(commits as i64), "{about}");
    drop(db);
    assert_eq!(commits::check(&open_stock(path)), Ok(commits as i64), "{about}");
}

#[test]
fn whatever_has_the_kept_name_is_in_nobodys_way_and_is_not_followed() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 9] = [
        ("another mode of the database", |path| {
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap()
        }),
        ("another mode of the kept file", |path| {
            fs::set_permissions(side(path, KEPT), Permissions::from_mode(0o666)).unwrap();
        }),
        ("a second name", |path| fs::hard_link(side(path, KEPT), side(path, "-second")).unwrap()),
        ("a symbolic link", |path| {
            fs::rename(side(path, KEPT), side(path, "-elsewhere")).unwrap();
            symlink(side(path, "-elsewhere"), side(path, KEPT)).unwrap();
        }),
        ("a link that leads nowhere", |path| {
            fs::remove_file(side(path, KEPT)).unwrap();
            symlink("/nonexistent/nowhere", side(path, KEPT)).unwrap();
        }),
        ("a directory", |path| {
            fs::remove_file(side(path, KEPT)).unwrap();
            fs::create_dir(side(path, KEPT)).unwrap();
        }),
        ("nothing", |path| fs::remove_file(side(path, KEPT)).unwrap()),
        ("an empty file", |path| fs::write(side(path, KEPT), "").unwrap()),
        ("a pipe", |path| {
            fs::remove_file(side(path, KEPT)).unwrap();
            rustix::fs::mkfifoat(
                rustix::fs::CWD,
                side(path, KEPT),
                rustix::fs::Mode::from_raw_mode(0o644),
            )
            .unwrap();
        }),
    ];
    for (about, change) in changes {
        let (_dir, path) = closed();
        let before = fs::read(side(&path, KEPT)).unwrap();
        change(&path);
        assert_goes_on(&path, 4, about);
        for other in ["-second", "-elsewhere"].map(|suffix| side(&path, suffix)) {
            assert!(
                !other.exists() || fs::read(&other).unwrap() == before,
                "{about}: {} was written to",
                other.display()
            );
        }
        assert_goes_on(&path, 5, about);
    }
}

/// A stock SQLite wrote meanwhile. If a crash takes the mark away, old frames must not overwrite
/// its pages: `crash --seed 71` found them there.
#[test]
fn a_kept_wal_that_the_database_has_outgrown_is_removed_and_never_gets_its_name_back() {
    let (_dir, path) = closed();
    commits::make(&open_stock(&path), 1);
    assert_eq!(files(&path), ["", KEPT]);
    let old = fs::read(side(&path, KEPT)).unwrap();
    let db = open(&path);
    assert_eq!(commits::check(&db), Ok(4));
    assert!(!files(&path).contains(&KEPT.to_owned()));
    assert_ne!(fs::read(side(&path, "-wal")).unwrap().get(..32), old.get(..32));
    drop(db);
    assert_goes_on(&path, 5, "afterwards");
}

#[test]
fn a_database_that_was_moved_or_copied_with_or_without_its_neighbours_works() {
    let (dir, path) = closed();
    let copied = dir.path().join("copied");
    assert!(
        Command::new("cp")
            .arg("-a")
            .args([path.parent().unwrap(), &copied])
            .status()
            .unwrap()
            .success()
    );
    assert_goes_on(&copied.join("a.db"), 4, "cp -a");
    let alone = dir.path().join("alone.db");
    fs::copy(&path, &alone).unwrap();
    assert_goes_on(&alone, 4, "cp");
    let moved = dir.path().join("moved.db");
    fs::rename(&path, &moved).unwrap();
    assert_goes_on(&moved, 4, "mv");
    // A new database in the place of the old one, beside the files of the old one.
    let db = open(&path);
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    commits::create(&db);
    drop(db);
    assert_goes_on(&path, 1, "another in its place");
}

#[test]
fn a_program_that_wants_its_wal_to_stay_and_one_that_wants_none_kept_get_that() {
    let (_dir, path) = closed();
    let db = open_with(&path, "strategy=plain&keep_wal=off").unwrap();
    commits::make(&db, 1);
    fs::remove_file(side(&path, KEPT)).unwrap();
    drop(db);
    assert_eq!(files(&path), [""]);

    let db = open(&path);
    let mut stays = 1;
    // SAFETY: an open connection, and the `int*` that this operation wants.
    let code = unsafe {
        ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_PERSIST_WAL,
            std::ptr::from_mut::<i32>(&mut stays).cast(),
        )
    };
    assert_eq!(code, ffi::SQLITE_OK);
    commits::make(&db, 1);
    drop(db);
    assert_eq!(files(&path), ["", "-shm", "-wal"]);
    assert_goes_on(&path, 6, "a WAL that stayed");
}

#[test]
fn eager_takes_a_database_over_and_leaves_nothing_of_plain() {
    let (_dir, path) = closed();
    let db = open_with(&path, "strategy=eager").unwrap();
    commits::make(&db, 1);
    assert!(!files(&path).contains(&KEPT.to_owned()));
    drop(db);
    assert_eq!(files(&path), [""]);
    assert_goes_on(&path, 5, "plain again");
}

/// Several processes open, commit and close again and again. Closes that keep the WAL meet opens
/// that take it back.
#[test]
fn processes_that_open_and_close_at_the_same_time_lose_no_commit() {
    const PROCESSES: usize = 4;
    const TIMES: usize = 12;
    let (_dir, path) = closed();
    let process = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", named!(is_another_process), "--nocapture"])
            .env("ONEFLUSH_TEST_REOPENS", &path);
        oneflush_testing::dies_with_test(&mut command).spawn().unwrap()
    };
    let processes: Vec<_> = (0..PROCESSES).map(|_| process()).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    assert_eq!(commits::check(&open_stock(&path)), Ok((3 + PROCESSES * TIMES) as i64));
    assert_goes_on(&path, 4 + PROCESSES * TIMES, "afterwards");
}

#[test]
fn is_another_process() {
    let Some(path) = std::env::var_os("ONEFLUSH_TEST_REOPENS") else { return };
    for _ in 0..12 {
        let db = open(Path::new(&path));
        db.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
        commits::make(&db, 1);
    }
}

#[test]
fn root_migrates_gives_the_database_away_and_the_service_starts() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can act for two users");
    }
    let (dir, path) = closed();
    let program = dir.path().join("program");
    oneflush_testing::copy_program(&program);
    chown(path.parent().unwrap(), Some(SERVICE.0), Some(SERVICE.1)).unwrap();
    chown(&path, Some(SERVICE.0), Some(SERVICE.1)).unwrap();
    let mut service = Command::new(program);
    service
        .args(["--exact", named!(is_the_service), "--nocapture"])
        .env("ONEFLUSH_TEST_SERVICE", &path);
    let output = service.current_dir("/").uid(SERVICE.0).gid(SERVICE.1).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("commits: 4"), "{said}");
    // The service has kept this WAL itself, so it is of use again.
    assert_eq!(files(&path), ["", KEPT]);
    assert_goes_on(&path, 5, "root again");
}

#[test]
fn is_the_service() {
    let Some(path) = std::env::var_os("ONEFLUSH_TEST_SERVICE") else { return };
    let db = open(Path::new(&path));
    commits::make(&db, 1);
    println!("commits: {}", commits::check(&db).unwrap());
}
