//! Places that do not keep what a database relies on, made with FUSE (`oneflush_testing::flawed`).
//!
//! Each strategy works there, or is refused with a reason that names the cause, or its commits
//! fail. No commit is acknowledged that no sync has followed, and nothing hangs.
//!
//! The type `fuse.oneflush` is believed, so that the tests see what is tried there. Any other type
//! of FUSE is judged by its name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use oneflush_testing::flawed::{Answer, Cache, Flawed, Flaws, Locks, Sync, why_not};
use oneflush_testing::{in_own_mounts, named};
use oneflush_vfs::{Tried, tried, verdicts};
use rusqlite::{Connection, ffi};

use crate::common::{commits, crash, files, integrity, open_stock, open_with, side, take_said};

const BELIEVED: &str = "oneflush";
const OTHER: &str = "other";
/// How many commits are made where commits can be made.
const COMMITS: i64 = 20;
const AT_MOST: Duration = Duration::from_secs(120);

/// What becomes of a database.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Works,
    /// It fails with this extended code, as with SQLite alone.
    Fails(i32),
    /// It fails with `SQLITE_CANTOPEN`, and SQLite's error log has these words.
    Refused(&'static [&'static str]),
}

use Outcome::{Fails, Refused, Works};

struct Row {
    name: &'static str,
    flaws: Flaws,
    /// `stock` and `plain` need no more than SQLite does.
    sqlite: Outcome,
    eager: Outcome,
    /// The first of [`tried`] that fails.
    fails: Option<&'static str>,
}

fn rows() -> Vec<Row> {
    let row = |name, flaws, sqlite, eager, fails| Row { name, flaws, sqlite, eager, fails };
    // Each strategy has the same error as SQLite alone.
    let error = |name, flaws, code, fails| row(name, flaws, Fails(code), Fails(code), Some(fails));
    let sync = |sync| Flaws { sync, ..Flaws::default() };
    let locks = |locks| Flaws { locks, ..Flaws::default() };
    let refused = |errno| locks(Locks::Flock(Answer::Refused(errno)));
    let record_refused = |errno| locks(Locks::Posix(Answer::Refused(errno)));
    let no_flock = Refused(&["-oneflush-shm: flock fails", "use a local disk, or strategy=plain"]);
    vec![
        row("none", Flaws::default(), Works, Works, None),
        // The kernel answers "done", so nobody can notice. Such places are judged by their type.
        row("sync ignored", sync(Sync::Ignored), Works, Works, None),
        error("sync fails", sync(Sync::Fails), ffi::SQLITE_IOERR_FSYNC, "sync of file"),
        row("flock refused", refused(libc::ENOLCK), Works, no_flock, Some("flock")),
        row("flock not implemented", refused(libc::ENOSYS), Works, no_flock, Some("flock")),
        row(
            "flock granted to two",
            locks(Locks::Flock(Answer::Granted)),
            Works,
            Refused(&[
                "-oneflush-shm: flock keeps nobody out",
                "use a local disk, or strategy=plain",
            ]),
            Some("flock"),
        ),
        // The log was locked by a descriptor for reading only, which on NFS was "disk I/O error"
        // without a reason.
        row(
            "exclusive flock for writers only",
            locks(Locks::Flock(Answer::WriterOnly)),
            Works,
            Works,
            None,
        ),
        // SQLite takes the first answer for a lock that somebody else has.
        error(
            "record locks refused",
            record_refused(libc::ENOLCK),
            ffi::SQLITE_BUSY,
            "record locks",
        ),
        error(
            "record locks not implemented",
            record_refused(libc::ENOSYS),
            ffi::SQLITE_IOERR_LOCK,
            "record locks",
        ),
        row(
            "record locks granted to two",
            locks(Locks::Posix(Answer::Granted)),
            Works,
            Refused(&["-oneflush-shm: record locks keep nobody out", "use a local disk"]),
            Some("record locks"),
        ),
        // The log was refused with "could not write to it: Invalid argument".
        row(
            "direct I/O refused",
            Flaws { refuses_direct: true, ..Flaws::default() },
            Works,
            Works,
            Some("direct I/O"),
        ),
        // `RWF_DSYNC` would be accepted, and reach nobody.
        row(
            "RWF_DSYNC ignored",
            Flaws { cache: Cache::No, ..Flaws::default() },
            Works,
            Works,
            None,
        ),
        row(
            "shared maps refused",
            Flaws { cache: Cache::NoMaps, ..Flaws::default() },
            Fails(ffi::SQLITE_IOERR_SHMMAP),
            Refused(&[
                "-oneflush-shm: mmap with MAP_SHARED fails",
                "use a local disk, or a rollback mode",
            ]),
            Some("shared mmap"),
        ),
    ]
}

/// True: the test goes on here, in a process with its own mounts.
fn goes_on(test: &str) -> bool {
    if let Some(why) = why_not() {
        oneflush_testing::skip(why);
        return false;
    }
    in_own_mounts(test, AT_MOST)
}

/// None: this kernel cannot do it.
fn mount(subtype: &str, flaws: Flaws) -> Option<(Flawed, PathBuf)> {
    match Flawed::mount(subtype, flaws) {
        Ok(place) => {
            let path = place.path().join("a.db");
            Some((place, path))
        }
        Err(error) => {
            assert_eq!(flaws.cache, Cache::No, "{error}");
            oneflush_testing::skip(format_args!("{flaws:?}: {error}"));
            None
        }
    }
}

fn open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    let db = open_with(path, parameters)?;
    db.busy_timeout(Duration::from_millis(50))?;
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(()))?;
    db.execute_batch("PRAGMA synchronous=full")?;
    Ok(db)
}

/// A database without a commit of ours.
fn create(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    let db = open(path, parameters)?;
    db.execute_batch(
        "BEGIN; CREATE TABLE t(n INTEGER PRIMARY KEY, v); CREATE INDEX i ON t(v); CREATE TABLE \
            total(n); INSERT INTO total VALUES (0); COMMIT",
    )?;
    Ok(db)
}

/// What a commit is in.
fn durable(parameters: &str) -> &'static str {
    match parameters {
        _ if parameters.contains("eager") => "-oneflush",
        _ if parameters.contains("waldio") => "-waldio",
        _ => "-wal",
    }
}

fn assert_outcome(what: &str, place: &Flawed, path: &Path, parameters: &str, expected: Outcome) {
    let lower = place.lower().join("a.db");
    let created = create(path, parameters);
    match (expected, created) {
        (Works, Ok(db)) => {
            assert_works(what, place, path, parameters, db);
            assert_eq!(commits::check(&open_stock(&lower)), Ok(COMMITS + 1), "{what}");
        }
        (Fails(code), Err(error)) => {
            assert_eq!(
                error.sqlite_error().map(|error| error.extended_code),
                Some(code),
                "{what}: {error}"
            );
            assert_eq!(integrity(&open_stock(&lower)), "ok", "{what}");
        }
        (Refused(words), Err(error)) => {
            let code = error.sqlite_error().map(|error| error.extended_code);
            let said = take_said(path);
            assert_eq!(code, Some(ffi::SQLITE_CANTOPEN), "{what}: {error}, {said}");
            assert!(words.iter().all(|word| said.contains(word)), "{what}: {said}");
            // The database is as if `eager` had never been asked for.
            let stock = open_stock(&lower);
            commits::create(&stock);
            commits::make(&stock, 2);
            assert_eq!(commits::check(&stock), Ok(2), "{what}");
        }
        (expected, created) => panic!("{what}: {created:?}, not {expected:?}; {}", take_said(path)),
    }
}

fn assert_works(what: &str, place: &Flawed, path: &Path, parameters: &str, db: Connection) {
    let file = side(Path::new("a.db"), durable(parameters));
    let other = open(path, parameters).unwrap();
    for number in 1..=COMMITS {
        commits::try_make(if number % 3 == 0 { &other } else { &db })
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let unsynced = place.unsynced();
        let is_kept = what.contains("sync ignored") || !unsynced.contains(&file);
        assert!(is_kept, "{what}: commit {number} was acknowledged without a sync: {unsynced:?}");
    }
    let crashed = crash(path, &[durable(parameters)]);
    let after = open(&crashed, parameters)
        .unwrap_or_else(|error| panic!("{what}: {error}, {}", take_said(&crashed)));
    assert_eq!(commits::check(&after), Ok(COMMITS), "{what}");
    drop((after, other, db));
    let again = open(path, parameters).unwrap();
    commits::make(&again, 1);
    assert_eq!(commits::check(&again), Ok(COMMITS + 1), "{what}");
}

#[test]
fn what_is_tried_decides_where_the_type_is_believed() {
    if !goes_on(named!(what_is_tried_decides_where_the_type_is_believed)) {
        return;
    }
    for Row { name, flaws, sqlite, eager, .. } in rows() {
        for (strategy, expected) in
            [("stock", sqlite), ("plain", sqlite), ("eager", eager), ("waldio", eager)]
        {
            let Some((place, path)) = mount(BELIEVED, flaws) else { continue };
            assert_outcome(
                &format!("{name}, {strategy}"),
                &place,
                &path,
                &format!("strategy={strategy}"),
                expected,
            );
        }
    }
}

#[test]
fn a_type_not_believed_is_refused_by_eager_and_named_once_by_plain_that_does_as_sqlite_alone() {
    if !goes_on(named!(
        a_type_not_believed_is_refused_by_eager_and_named_once_by_plain_that_does_as_sqlite_alone
    )) {
        return;
    }
    for Row { name, flaws, sqlite, .. } in rows() {
        let Some((place, path)) = mount(OTHER, flaws) else { continue };
        assert!(open(&path, "strategy=eager").is_err(), "{name}");
        let said = take_said(&path);
        for wanted in [
            "eager is refused on fuse.other",
            "use a local disk",
            "strategy=plain",
            "unsafe_ground=allow",
        ] {
            assert!(said.contains(wanted), "{name}: {said}");
        }
        assert_eq!(
            files(&place.lower().join("a.db")),
            [""; 0],
            "{name}: refused before anything was made"
        );
        if name == "record locks granted to two" {
            let db = open_with(&path, "strategy=plain").unwrap();
            let mode: String =
                db.query_row("PRAGMA journal_mode=wal", [], |row| row.get(0)).unwrap();
            assert_eq!(mode, "delete");
            assert!(take_said(&path).contains("WAL mode is refused"));
            let lower = place.lower().join("a.db");
            assert_eq!(files(&lower), [""], "what was tried is gone");
            open_stock(&lower).query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
            let refused = commits::try_make(&open_with(&path, "strategy=plain").unwrap());
            let code = refused.unwrap_err().sqlite_error().map(|error| error.extended_code);
            assert_eq!(code, Some(ffi::SQLITE_CANTOPEN), "it is in WAL mode already");
            continue;
        }
        assert_outcome(&format!("{name}, plain"), &place, &path, "strategy=plain", sqlite);
        let said = take_said(&path);
        assert_eq!(
            said.matches("on fuse.other plain does as SQLite alone").count(),
            1,
            "{name}: {said}"
        );
        assert!(said.contains("use a local disk"), "{name}: {said}");
        let left = files(&place.lower().join("a.db"));
        assert!(!matches!(sqlite, Works) || left == [""], "{name}: no WAL is kept, but {left:?}");
    }
}

#[test]
fn unsafe_ground_overrides_the_type_and_not_what_is_tried() {
    if !goes_on(named!(unsafe_ground_overrides_the_type_and_not_what_is_tried)) {
        return;
    }
    for Row { name, flaws, sqlite, eager, .. } in rows() {
        for (strategy, expected) in [("plain", sqlite), ("eager", eager), ("waldio", eager)] {
            let Some((place, path)) = mount(OTHER, flaws) else { continue };
            let parameters = format!("strategy={strategy}&unsafe_ground=allow");
            drop(open_with(&path, &parameters));
            let said = take_said(&path);
            assert!(said.contains("on fuse.other"), "{name}, {strategy}: {said}");
            assert_outcome(
                &format!("{name}, {strategy}, allowed"),
                &place,
                &path,
                &parameters,
                expected,
            );
        }
    }
}

/// A device is lost and comes back. What was acknowledged before is there, and our strategies
/// acknowledge nothing after it.
#[test]
fn after_a_sync_that_fails_nothing_is_acknowledged_until_all_is_closed() {
    if !goes_on(named!(after_a_sync_that_fails_nothing_is_acknowledged_until_all_is_closed)) {
        return;
    }
    for (subtype, parameters) in [
        (BELIEVED, "strategy=stock"),
        (BELIEVED, "strategy=plain"),
        (BELIEVED, "strategy=eager"),
        (BELIEVED, "strategy=waldio"),
        (OTHER, "strategy=plain"),
        (OTHER, "strategy=plain&unsafe_ground=allow"),
        (OTHER, "strategy=eager&unsafe_ground=allow"),
        (OTHER, "strategy=waldio&unsafe_ground=allow"),
    ] {
        let what = format!("{subtype}, {parameters}");
        let Some((place, path)) = mount(subtype, Flaws::default()) else { continue };
        let db = create(&path, parameters).unwrap();
        commits::make(&db, 10);
        let _ = take_said(&path);
        place.set_sync(Sync::Fails);
        let failed = commits::try_make(&db).unwrap_err();
        assert_eq!(
            failed.sqlite_error().map(|error| error.extended_code),
            Some(ffi::SQLITE_IOERR_FSYNC),
            "{what}"
        );
        place.set_sync(Sync::Kept);
        if !parameters.contains("stock") {
            for _ in 0..3 {
                assert!(
                    commits::try_make(&db).is_err(),
                    "{what}: acknowledged after a sync that has failed"
                );
            }
            assert_said_once(&what, &path, durable(parameters));
        }
        drop(db);
        let again = open(&path, parameters)
            .unwrap_or_else(|error| panic!("{what}: {error}, {}", take_said(&path)));
        let found = commits::check(&again).unwrap();
        // The commit that failed may be there, as with SQLite alone.
        assert!((10..=11).contains(&found), "{what}: {found}");
        commits::make(&again, 5);
        drop(again);
        assert_eq!(
            commits::check(&open_stock(&place.lower().join("a.db"))),
            Ok(found + 5),
            "{what}"
        );
    }
}

/// The story: the program heard of a failed log only by an error of its commit. No line said which
/// file had failed, and that nothing more would be acknowledged.
fn assert_said_once(what: &str, path: &Path, suffix: &str) {
    let said = take_said(path);
    let file = format!("oneflush: {}{suffix}: ", path.display());
    let of_file: Vec<&str> = said.lines().filter(|line| line.starts_with(&file)).collect();
    let [line] = of_file[..] else { panic!("{what}: {said}") };
    let why = &line[file.len()..];
    assert!(
        why.starts_with("the log could not") || why.starts_with("a sync failed"),
        "{what}: {why}"
    );
}

#[test]
fn with_maw_a_log_that_fails_is_said_once_and_nothing_more_is_acknowledged() {
    if !goes_on(named!(with_maw_a_log_that_fails_is_said_once_and_nothing_more_is_acknowledged)) {
        return;
    }
    let Some((place, path)) = mount(BELIEVED, Flaws::default()) else { return };
    let db = open_with(&path, "strategy=maw").unwrap();
    db.execute_batch("PRAGMA journal_mode=delete; PRAGMA synchronous=full").unwrap();
    commits::create(&db);
    commits::make(&db, 3);
    let _ = take_said(&path);
    place.set_sync(Sync::Fails);
    assert!(commits::try_make(&db).is_err());
    place.set_sync(Sync::Kept);
    for _ in 0..3 {
        assert!(commits::try_make(&db).is_err(), "acknowledged after a sync that has failed");
    }
    assert_said_once("maw", &path, "-maw");
    drop(db);
    let found = commits::check(&open_with(&path, "strategy=maw").unwrap()).unwrap();
    assert!((3..=4).contains(&found), "{found}");
}

/// As 9p without a cache: no file can be shared memory, so SQLite has a WAL index only in its own
/// memory.
#[test]
fn without_shared_memory_a_rollback_mode_or_an_exclusive_connection_works() {
    if !goes_on(named!(without_shared_memory_a_rollback_mode_or_an_exclusive_connection_works)) {
        return;
    }
    let flaws = Flaws { cache: Cache::NoMaps, ..Flaws::default() };
    for subtype in [BELIEVED, OTHER] {
        for parameters in [
            "strategy=stock",
            "strategy=plain",
            "strategy=eager&unsafe_ground=allow",
            "strategy=waldio&unsafe_ground=allow",
        ] {
            let what = format!("{subtype}, {parameters}");
            let Some((place, path)) = mount(subtype, flaws) else { continue };
            let db = open_with(&path, parameters).unwrap();
            commits::create(&db);
            commits::make(&db, 5);
            drop(db);
            // The board of a log is shared memory.
            let is_refused = parameters.contains("unsafe_ground");
            let db = open_with(&path, parameters).unwrap();
            let mode =
                db.query_row("PRAGMA locking_mode=exclusive", [], |row| row.get::<_, String>(0));
            assert_eq!(mode.as_deref(), Ok("exclusive"));
            let wal = db.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full");
            let made = wal.and_then(|()| commits::try_make(&db));
            assert_eq!(made.is_err(), is_refused, "{what}: {made:?}, {}", take_said(&path));
            drop(db);
            let expected = if is_refused { 5 } else { 6 };
            assert_eq!(
                commits::check(&open_stock(&place.lower().join("a.db"))),
                Ok(expected),
                "{what}"
            );
        }
    }
}

#[test]
fn a_probe_names_what_fails_and_eagers_verdict_is_what_an_open_does() {
    if !goes_on(named!(a_probe_names_what_fails_and_eagers_verdict_is_what_an_open_does)) {
        return;
    }
    for Row { name, flaws, eager, fails, .. } in rows() {
        let Some((place, _)) = mount(BELIEVED, flaws) else { continue };
        let folder = place.path().join("scratch");
        std::fs::create_dir(&folder).unwrap();
        let found: Vec<Tried> = tried(&folder).unwrap();
        let first = found.iter().find(|tried| tried.fails.is_some()).map(|tried| tried.what);
        assert_eq!(first, fails, "{name}: {found:?}");
        let verdicts = verdicts(place.path(), &found);
        let of_eager = verdicts.iter().find(|verdict| verdict.strategy == "eager").unwrap();
        assert_eq!(of_eager.refuses, !matches!(eager, Works), "{name}: {of_eager:?}");
    }
}

#[test]
fn where_several_hosts_may_mount_it_there_is_no_wal_mode_but_by_unsafe_ground() {
    if !goes_on(named!(where_several_hosts_may_mount_it_there_is_no_wal_mode_but_by_unsafe_ground))
    {
        return;
    }
    let mode = |db: &Connection| -> String {
        db.query_row("PRAGMA journal_mode=wal", [], |row| row.get(0)).unwrap()
    };
    for parameters in ["strategy=plain", "strategy=stock&seatbelt=on"] {
        let Some((_place, path)) = mount("sshfs", Flaws::default()) else { return };
        let db = open_with(&path, parameters).unwrap();
        let said = take_said(&path);
        assert!(said.contains("WAL mode is refused on fuse.sshfs"), "{parameters}: {said}");
        assert!(said.contains("journal_mode=DELETE"), "{parameters}: {said}");
        assert_eq!(mode(&db), "delete", "{parameters}");
        commits::create(&db);
        commits::make(&db, 3);
        assert_eq!(commits::check(&db), Ok(3), "{parameters}");
        drop(db);
        let allowed = open_with(&path, &format!("{parameters}&unsafe_ground=allow")).unwrap();
        assert_eq!(mode(&allowed), "wal", "{parameters}");
        commits::make(&allowed, 1);
        drop(allowed);
        let refused = commits::try_make(&open_with(&path, parameters).unwrap()).unwrap_err();
        let code = refused.sqlite_error().map(|error| error.extended_code);
        assert_eq!(code, Some(ffi::SQLITE_CANTOPEN), "{parameters}: it is in WAL mode already");
        let off = open_with(&path, "strategy=plain&seatbelt=off").unwrap();
        assert_eq!(commits::check(&off), Ok(4), "{parameters}");
    }
}
