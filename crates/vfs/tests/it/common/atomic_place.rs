//! What `maw` with a provider of the file system keeps on every such file system. The database file
//! is a plain one at all times.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oneflush_testing::{dies_with_test, named};
use rusqlite::{Connection, ErrorCode};

use super::{commits, count, files, insert, integrity, number, open_stock, open_with, stats};
use super::{side, take_said};

/// A file system with a provider.
pub trait Place {
    fn atomic(&self) -> &'static str;
    /// Where it is mounted.
    fn path(&self) -> PathBuf;
    /// From now on nothing reaches the device, and everything fails.
    fn lose_power(&self);
    /// Unmounts it and mounts it again.
    fn remount(&self);
    /// Bytes written to the device so far, and flushes of it.
    fn written(&self) -> (u64, u64);
}

const MODES: [&str; 3] = ["delete", "truncate", "persist"];
const PAGE_SIZES: [u64; 8] = [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

pub fn open_in(place: &dyn Place, path: &Path, mode: &str) -> Connection {
    open_atomic(place.atomic(), path, mode)
        .unwrap_or_else(|error| panic!("{error}: {}", take_said(path)))
}

fn open_atomic(atomic: &str, path: &Path, mode: &str) -> rusqlite::Result<Connection> {
    let db = open_with(path, &format!("strategy=maw&atomic={atomic}"))?;
    db.busy_timeout(Duration::from_secs(20))?;
    db.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full"))?;
    Ok(db)
}

fn create(place: &dyn Place, path: &Path, mode: &str) -> Connection {
    let db = open_in(place, path, mode);
    db.execute_batch("CREATE TABLE t(v)").unwrap();
    db
}

pub fn counted(db: &Connection, what: &str) -> u64 {
    stats(db)["maw"][what].as_u64().unwrap_or_else(|| panic!("{what}: {}", stats(db)))
}

fn assert_stock_reads(path: &Path, expected: i64) {
    let stock = open_stock(path);
    assert_eq!((count(&stock), integrity(&stock).as_str()), (expected, "ok"), "{path:?}");
}

pub fn all_page_sizes(place: &dyn Place) {
    for (at, page_size) in PAGE_SIZES.into_iter().enumerate() {
        let (mode, path) = (MODES[at % 3], place.path().join(format!("{page_size}.db")));
        let db = open_with(&path, &format!("strategy=maw&atomic={}", place.atomic())).unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size={page_size}; PRAGMA journal_mode={mode}; CREATE TABLE t(v)"
        ))
        .unwrap();
        assert_eq!(stats(&db)["maw"]["provider"], place.atomic());
        // The first transaction of a file has a journal, which PERSIST and TRUNCATE leave.
        let _ = std::fs::remove_file(side(&path, "-journal"));
        for rows in [1, 20, 60] {
            insert(&db, rows);
            assert_stock_reads(&path, count(&db));
        }
        let (atomic, ordinary) = (counted(&db, "atomic"), counted(&db, "ordinary"));
        assert_eq!((atomic, ordinary), (81, 1), "{page_size}");
        // Much growth at once, and a cut.
        db.execute_batch("CREATE TABLE much AS SELECT randomblob(300000)").unwrap();
        assert_stock_reads(&path, 81);
        db.execute_batch("DROP TABLE much; VACUUM").unwrap();
        assert_stock_reads(&path, 81);
        let pages = number(&db, "PRAGMA page_count") as u64;
        assert_eq!(std::fs::metadata(&path).unwrap().len(), pages * page_size);
        insert(&db, 5);
        assert_stock_reads(&path, 86);
        assert_eq!(files(&path), [""], "{page_size}");
        drop(db);
        assert_eq!(files(&path), [""], "{page_size}");
        assert_stock_reads(&path, 86);
    }
}

pub fn rollbacks_savepoints_and_spills(place: &dyn Place) {
    for mode in MODES {
        let path = place.path().join(format!("{mode}.db"));
        let db = create(place, &path, mode);
        insert(&db, 50);
        for cache in [5, 2000] {
            let before = std::fs::read(&path).unwrap();
            db.execute_batch(&format!("PRAGMA cache_size={cache}")).unwrap();
            db.execute_batch(
                "BEGIN; INSERT INTO t SELECT randomblob(3000) FROM t, t AS u; UPDATE t SET v=1",
            )
            .unwrap();
            assert!(std::fs::read(&path).unwrap() == before, "nothing is in place");
            db.execute_batch("ROLLBACK").unwrap();
            assert!(std::fs::read(&path).unwrap() == before, "{mode}, {cache}");
            db.execute_batch(
                "BEGIN; INSERT INTO t VALUES('gone'); SAVEPOINT s; UPDATE t SET v='wrong';
                 ROLLBACK TO s; DELETE FROM t WHERE v='gone'; COMMIT",
            )
            .unwrap();
            assert_stock_reads(&path, 50);
        }
        db.execute_batch(
            "PRAGMA cache_size=5; CREATE TABLE u(v); INSERT INTO u SELECT randomblob(2000) FROM t",
        )
        .unwrap();
        assert_eq!(number(&open_stock(&path), "SELECT count(*) FROM u"), 50);
        assert_stock_reads(&path, 50);
    }
}

pub fn stock_sqlite_in_between(place: &dyn Place) {
    let path = place.path().join("a.db");
    let (db, stock) = (create(place, &path, "persist"), open_stock(&path));
    for mapping in [&db, &stock] {
        mapping.execute_batch("PRAGMA mmap_size=100000000").unwrap();
    }
    for round in 1..=20 {
        insert(&db, 3);
        insert(&stock, 3);
        assert_eq!((count(&db), count(&stock)), (6 * round, 6 * round));
        if round % 7 == 0 {
            stock.execute_batch("CREATE TABLE u AS SELECT randomblob(50000)").unwrap();
            insert(&db, 1);
            db.execute_batch(
                "DROP TABLE u; VACUUM; DELETE FROM t WHERE rowid=(SELECT max(rowid) FROM t)",
            )
            .unwrap();
        }
        assert_eq!((integrity(&db), integrity(&stock)), ("ok".to_owned(), "ok".to_owned()));
    }
    // A connection with the log ends the plain file. The next commit here restores it.
    let logs = open_with(&path, "strategy=maw&atomic=log").unwrap();
    for round in 1..=5 {
        insert(&logs, 2);
        insert(&db, 2);
        assert_stock_reads(&path, 120 + 4 * round);
        assert_eq!(count(&logs), 120 + 4 * round);
    }
}

pub fn several_connections_and_databases(place: &dyn Place) {
    let (path, other) = (place.path().join("a.db"), place.path().join("b.db"));
    let (one, two) = (create(place, &path, "delete"), open_in(place, &path, "persist"));
    drop(create(place, &other, "delete"));
    for _ in 0..20 {
        insert(&one, 1);
        insert(&two, 1);
    }
    let parameters = format!("strategy=maw&atomic={}", place.atomic());
    one.execute_batch(&format!("ATTACH 'file:{}?{parameters}' AS b", other.display())).unwrap();
    one.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO b.t VALUES(2); COMMIT").unwrap();
    drop(two);
    insert(&one, 1);
    assert_stock_reads(&path, 42);
    assert_stock_reads(&other, 1);
}

/// There is no guard and no log, so nothing but the file itself tells what was acknowledged.
pub fn a_removed_file(place: &dyn Place) {
    for strategy in ["maw", "auto"] {
        let path = place.path().join(format!("{strategy}.db"));
        let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
        db.execute_batch("PRAGMA journal_mode=delete; PRAGMA synchronous=full").unwrap();
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        insert(&db, 3);
        take_said(&path);
        std::fs::remove_file(&path).unwrap();
        drop(db);
        let said = take_said(&path);
        assert!(said.contains("removed or replaced"), "{strategy}: {said}");
        assert_stock_reads(&place.path().join(format!("{strategy}.db-orphan-0")), 3);
    }
}

pub fn full_file_system(place: &dyn Place) {
    for mode in MODES {
        let path = place.path().join(format!("{mode}.db"));
        let db = create(place, &path, mode);
        insert(&db, 20);
        let ballast = place.path().join("ballast");
        fill(&ballast);
        let mut acknowledged = 20;
        let refused = loop {
            match db.execute("INSERT INTO t VALUES(randomblob(100000))", []) {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
            assert!(acknowledged < 5000, "the file system is not full");
        };
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
        assert_eq!((count(&db), integrity(&db).as_str()), (acknowledged, "ok"), "{mode}");
        assert_stock_reads(&path, acknowledged);
        std::fs::remove_file(&ballast).unwrap();
        insert(&db, 5);
        assert_stock_reads(&path, acknowledged + 5);
        assert_eq!(take_said(&path), "");
        drop(db);
        std::fs::remove_file(&path).unwrap();
    }
}

/// Takes all room of the file system.
fn fill(ballast: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(ballast).unwrap();
    for bytes in [1 << 20, 4096] {
        while file.write_all(&vec![7; bytes]).is_ok() {}
    }
    // Room that was reserved for blocks to come is settled.
    let _ = file.sync_all();
    while file.write_all(&[7; 4096]).is_ok() {}
}

/// Variables for the children of a test: the database, and the provider.
const CHILD_OF: &str = "ONEFLUSH_TEST_CHILD_OF";
const ATOMIC: &str = "ONEFLUSH_TEST_ATOMIC";

/// A child of a test: reads by SQLite alone until it has seen 300 commits.
#[test]
fn reads_in_a_child() {
    let Some(path) = std::env::var_os(CHILD_OF) else { return };
    let stock = open_stock(Path::new(&path));
    stock.busy_timeout(Duration::from_secs(60)).unwrap();
    let (mut last, until) = (0, Instant::now() + Duration::from_secs(200));
    while Instant::now() < until {
        let now = commits::check(&stock).unwrap();
        assert!(now >= last, "{now} after {last}");
        last = now;
        if last == 300 {
            println!("saw all");
            return;
        }
    }
    panic!("saw {last}");
}

/// A child of a test: commits, and says so, until it is killed or a commit fails.
#[test]
fn commits_in_a_child() {
    let Some(path) = std::env::var_os(CHILD_OF) else { return };
    let atomic = std::env::var(ATOMIC).unwrap();
    let db = open_atomic(&atomic, Path::new(&path), "delete").unwrap();
    eprintln!("ready");
    while commits::try_make(&db).is_ok() {
        eprintln!("commit");
    }
    eprintln!("failed");
}

/// This test program again, which runs one test only.
fn child(test: &str, place: &dyn Place, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(CHILD_OF, path).env(ATOMIC, place.atomic());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    dies_with_test(&mut command).spawn().unwrap()
}

pub fn readers_see_whole_commits(place: &dyn Place) {
    let path = place.path().join("a.db");
    let db = open_in(place, &path, "persist");
    commits::create(&db);
    let readers = [0, 1].map(|_| child(named!(reads_in_a_child), place, &path));
    for _ in 0..300 {
        commits::make(&db, 1);
    }
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("saw all"), "{said}{errors}");
    }
    assert!(counted(&db, "atomic") >= 300);
}

/// Waits until a child begins to commit, and then for so long.
fn let_it_commit(child: &mut Child, time: Duration) {
    let said = child.stderr.as_mut().unwrap();
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"ready\n") {
        said.read_exact(&mut byte).unwrap_or_else(|_| panic!("{}", line.escape_ascii()));
        line.push(byte[0]);
    }
    std::thread::sleep(time);
}

/// How many commits a child has acknowledged in all its life.
fn acknowledged(child: Child) -> i64 {
    let said = child.wait_with_output().unwrap().stderr;
    String::from_utf8_lossy(&said).matches("commit\n").count() as i64
}

/// Another process has the file open for writing when a process dies in the middle of a commit.
pub fn the_death_of_a_process(place: &dyn Place) {
    let path = place.path().join("a.db");
    let db = open_in(place, &path, "delete");
    commits::create(&db);
    let mut there = 0;
    for round in 0..20 {
        let mut running = child(named!(commits_in_a_child), place, &path);
        let_it_commit(&mut running, Duration::from_millis(100 + 37 * round));
        running.kill().unwrap();
        let acknowledged = acknowledged(running);
        let now = commits::check(&db).unwrap();
        assert!((there + acknowledged..=there + acknowledged + 1).contains(&now));
        assert_eq!(commits::check(&open_stock(&path)), Ok(now));
        there = now;
    }
    assert!(there > 20);
}

/// The power is lost while a process commits. What it has acknowledged is there afterwards.
pub fn the_loss_of_power(place: &dyn Place) {
    let path = place.path().join("a.db");
    commits::create(&open_in(place, &path, "delete"));
    let mut there = 0;
    for round in 0..12 {
        // Journals whose deletion need not be durable, after a commit and after a rollback.
        let stock = open_stock(&path);
        stock.execute_batch(&format!("PRAGMA journal_mode={}", MODES[round % 3])).unwrap();
        commits::make(&stock, 1);
        there += 1;
        let much = "PRAGMA cache_size=2; BEGIN; UPDATE t SET v=randomblob(900); \
            INSERT INTO t SELECT n + 100000, randomblob(900) FROM t; ROLLBACK";
        stock.execute_batch(much).unwrap();
        drop(stock);
        let mut running = child(named!(commits_in_a_child), place, &path);
        let_it_commit(&mut running, Duration::from_millis(100 + 53 * round as u64));
        place.lose_power();
        // Its next commit fails, and it ends.
        let acknowledged = acknowledged(running);
        place.remount();
        let now = commits::check(&open_stock(&path)).unwrap();
        assert!(
            (there + acknowledged..=there + acknowledged + 1).contains(&now),
            "{now} of {there} and {acknowledged}"
        );
        there = now;
    }
    assert!(there > 24);
}

/// Bytes and flushes of a commit against SQLite's own modes, and the extents of the file.
pub fn bytes_and_flushes(place: &dyn Place) {
    const COMMITS: i64 = 200;
    let mut flushes_of = Vec::new();
    for (name, mode) in [("maw", "delete"), ("stock", "delete"), ("stock", "persist")] {
        let path = place.path().join(format!("{name}-{mode}.db"));
        let db = match name {
            "maw" => open_in(place, &path, mode),
            _ => open_stock(&path),
        };
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=full;
             CREATE TABLE t(id INTEGER PRIMARY KEY, v);
             WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 4000)
             INSERT INTO t(v) SELECT randomblob(200) FROM n"
        ))
        .unwrap();
        let (bytes, flushes) = place.written();
        let began = Instant::now();
        for at in 0..COMMITS {
            let row = at * 7919 % 4000 + 1;
            db.execute("UPDATE t SET v=randomblob(200) WHERE id=?1", [row]).unwrap();
        }
        let took = began.elapsed();
        let (bytes, flushes) = (place.written().0 - bytes, place.written().1 - flushes);
        println!(
            "{name} {mode}: {} bytes, {:.2} flushes, {} us a commit; {}",
            bytes / COMMITS as u64,
            flushes as f64 / COMMITS as f64,
            took.as_micros() / COMMITS as u128,
            extents(&path)
        );
        flushes_of.push(flushes);
        assert_eq!(integrity(&db), "ok");
    }
    assert!(flushes_of[1..].iter().all(|flushes| flushes_of[0] < *flushes), "{flushes_of:?}");
}

fn extents(path: &Path) -> String {
    let output = Command::new("filefrag").arg(path).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.ok().and_then(|said| Some(said.rsplit_once(": ")?.1.to_owned())).unwrap_or_default()
}

/// What an open says that asks for a provider which is not there.
pub fn refused(path: &Path, atomic: &str) -> String {
    let opened = open_with(path, &format!("strategy=maw&atomic={atomic}"))
        .and_then(|db| db.execute_batch("CREATE TABLE t(v)"));
    assert_eq!(opened.unwrap_err().sqlite_error_code(), Some(ErrorCode::CannotOpen));
    let said = take_said(path);
    assert!(said.lines().count() == 1 && said.ends_with("[OF-415]"), "{said}");
    said
}

/// What `/sys` says of a block device: bytes written, and flushes.
pub fn written_to(device: &str) -> (u64, u64) {
    let stat = std::fs::read_to_string(format!("/sys/class/block/{device}/stat")).unwrap();
    let number = |at: usize| stat.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap();
    // Documentation/block/stat.rst
    (number(6) * 512, number(15))
}
