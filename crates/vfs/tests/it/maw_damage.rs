//! Damaged logs of `maw`, with real SQLite on the files that a crash leaves.
//!
//! A fixture is a database whose commits are all acknowledged, twice. As a killed process leaves
//! it, every commit is in place. As a loss of power may leave it, none of the epoch is.
//!
//! Either the open is refused, with a reason and with every file as it was, or all acknowledged
//! commits are there. There is one exception (docs/log-format.md, "What cannot be told apart"). A
//! damaged *last* record looks like one that was torn while it was written. So its commit, and no
//! other, may be missing. What `oneflush recover --dry-run` says before agrees with the open.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::damaged::{
    BLOCK_BYTES, Chance, RECORD_HEADER_BYTES, Record, contents, in_threads, open_or_refused,
    records, replacements, scratch,
};
use crate::common::{commits, crash, files, open_stock, open_with, side, take_said};

const LOG: &str = "-maw";

struct Fixture {
    name: String,
    _dir: TempDir,
    path: PathBuf,
    database: Vec<u8>,
    log: Vec<u8>,
    commits: i64,
}

impl Fixture {
    fn new(page_bytes: u32, in_place: bool, history: impl FnOnce(&Connection)) -> Fixture {
        let dir = scratch();
        let live = dir.path().join("live.db");
        let db = open_with(&live, "strategy=maw&atomic=log").unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size={page_bytes}; PRAGMA journal_mode=delete; PRAGMA synchronous=full"
        ))
        .unwrap();
        commits::create(&db);
        let before = fs::read(&live).unwrap();
        history(&db);
        let commits = commits::check(&db).unwrap();
        let path = crash(&live, &[LOG]);
        drop(db);
        if !in_place {
            fs::write(&path, before).unwrap();
        }
        let read = |suffix: &str| fs::read(side(&path, suffix)).unwrap();
        let name = format!("pages of {page_bytes}, in place: {in_place}");
        let fixture =
            Fixture { name, database: read(""), log: read(LOG), path, _dir: dir, commits };
        assert_eq!(fixture.judge("nothing", false), Some(commits));
        fixture
    }

    fn all() -> Vec<Fixture> {
        let mut all = Vec::new();
        for in_place in [false, true] {
            for page_bytes in [512, 4096, 65_536] {
                all.push(Fixture::new(page_bytes, in_place, |db| commits::make(db, 9)));
            }
            // It grows and shrinks.
            all.push(Fixture::new(4096, in_place, |db| {
                db.execute_batch("CREATE TABLE large AS SELECT randomblob(40000)").unwrap();
                commits::make(db, 3);
                db.execute_batch("DROP TABLE large; VACUUM").unwrap();
                commits::make(db, 3);
            }));
        }
        all
    }

    fn restore(&self) {
        for suffix in files(&self.path) {
            let path = side(&self.path, &suffix);
            if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }.unwrap();
        }
        fs::write(&self.path, &self.database).unwrap();
        fs::write(side(&self.path, LOG), &self.log).unwrap();
    }

    /// Opens the database as it lies there, and puts all files back. None: it was refused.
    fn judge(&self, what: &str, last_may_go: bool) -> Option<i64> {
        let what = format!("{}, {what}", self.name);
        let found = open_or_refused(&self.path, LOG, &what, open);
        self.restore();
        let found = found?.unwrap_or_else(|error| panic!("{what}: {error}"));
        let enough = self.commits - i64::from(last_may_go);
        assert!((enough..=self.commits).contains(&found), "{what}: {found} of {}", self.commits);
        Some(found)
    }

    fn with_flipped(&self, at: usize, bit: u8, last_may_go: bool) -> Option<i64> {
        let log = File::options().write(true).open(side(&self.path, LOG)).unwrap();
        log.write_all_at(&[self.log[at] ^ 1 << bit], at as u64).unwrap();
        self.judge(&format!("bit {bit} of byte {at}"), last_may_go)
    }

    fn records(&self) -> Vec<Record> {
        records(&self.log, &self.name)
    }
}

/// How many commits are there, or what is wrong. The outer error is a refusal.
fn open(path: &Path) -> Result<Result<i64, String>, String> {
    open_as(path, "maw&atomic=log")
}

fn open_as(path: &Path, strategy: &str) -> Result<Result<i64, String>, String> {
    let db = open_with(path, &format!("strategy={strategy}")).map_err(|error| error.to_string())?;
    db.busy_timeout(Duration::ZERO).unwrap();
    match db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)) {
        Err(error) => Err(error.to_string()),
        Ok(_) => Ok(commits::check(&db)),
    }
}

#[test]
fn a_flipped_bit_in_a_record_is_refused_or_costs_only_an_unacknowledged_end() {
    in_threads(Fixture::all(), |fixture, mut chance| {
        let records = fixture.records();
        let newest = records.last().unwrap();
        let mut refused = 0;
        for record in &records {
            let payload = record.bytes.start + RECORD_HEADER_BYTES;
            let mut places: Vec<usize> = (record.bytes.start..payload).step_by(3).collect();
            places.extend(chance.sample(payload..record.bytes.end).into_iter().take(12));
            for at in places {
                let found = fixture.with_flipped(at, chance.bit(), record.lsn == newest.lsn);
                refused += u32::from(found.is_none());
            }
        }
        assert!(refused > 100, "{}: {refused}", fixture.name);
    });
}

#[test]
fn zeros_or_noise_in_place_of_a_record_but_the_last_are_refused() {
    in_threads(Fixture::all(), |fixture, mut chance| {
        let records = fixture.records();
        let newest = records.last().unwrap();
        for record in &records {
            let is_last = record.lsn == newest.lsn;
            let blocks = record.bytes.start..record.bytes.end.next_multiple_of(BLOCK_BYTES);
            for noise in [false, true] {
                let byte = |_| if noise { chance.below(256) as u8 } else { 0 };
                let bytes: Vec<u8> = blocks.clone().map(byte).collect();
                let log = File::options().write(true).open(side(&fixture.path, LOG)).unwrap();
                log.write_all_at(&bytes, blocks.start as u64).unwrap();
                let what = format!("record {}, noise: {noise}", record.lsn);
                let found = fixture.judge(&what, is_last);
                assert!(is_last || record.epoch < newest.epoch || found.is_none(), "{what}");
            }
        }
    });
}

#[test]
fn a_flipped_bit_in_the_first_block_is_refused() {
    let fixture = Fixture::new(4096, false, |db| commits::make(db, 3));
    let mut chance = Chance(7);
    for at in 0..512 {
        assert_eq!(fixture.with_flipped(at, chance.bit(), false), None, "byte {at}");
    }
    let log = File::options().write(true).open(side(&fixture.path, LOG)).unwrap();
    log.write_all_at(&[0xa5; BLOCK_BYTES - 512], 512).unwrap();
    assert_eq!(fixture.judge("all of the rest", false), Some(3));
}

#[test]
fn a_log_that_is_cut_off_is_refused() {
    for fixture in Fixture::all() {
        let whole = fixture.log.len();
        for block in (0..whole / BLOCK_BYTES).step_by(3) {
            for size in [block * BLOCK_BYTES, block * BLOCK_BYTES + 1] {
                let log = File::options().write(true).open(side(&fixture.path, LOG)).unwrap();
                log.set_len(size as u64).unwrap();
                let found = fixture.judge(&format!("cut to {size} bytes"), false);
                assert_eq!(found, None, "{}: {size} of {whole} bytes", fixture.name);
            }
        }
    }
}

/// Where the guard is, and beside it. What is not refused has all commits, and what is refused can
/// be mended: the log stays.
#[test]
fn a_flipped_bit_in_the_database_header_loses_nothing() {
    let mut chance = Chance(11);
    for in_place in [false, true] {
        let fixture = Fixture::new(4096, in_place, |db| commits::make(db, 5));
        for at in (0..24).chain(68..100) {
            let what = format!("{}, byte {at} of the database", fixture.name);
            let mut damaged = fixture.database.clone();
            damaged[at] ^= 1 << chance.bit();
            fs::write(&fixture.path, &damaged).unwrap();
            match open(&fixture.path) {
                Ok(found) => assert_eq!(found, Ok(5), "{what}"),
                Err(_) => {
                    assert!(side(&fixture.path, LOG).exists(), "{what}");
                    let mut bytes = fs::read(&fixture.path).unwrap();
                    if bytes[at] == damaged[at] {
                        bytes[at] = fixture.database[at];
                        fs::write(&fixture.path, bytes).unwrap();
                    }
                    assert_eq!(open(&fixture.path), Ok(Ok(5)), "{what}, mended");
                }
            }
            fixture.restore();
        }
    }
}

#[test]
fn another_log_in_its_place_is_refused_by_every_strategy_with_a_way_out() {
    let fixture = Fixture::new(4096, false, |db| commits::make(db, 5));
    let other = Fixture::new(4096, false, |db| commits::make(db, 4));
    let pages_of_512 = Fixture::new(512, false, |db| commits::make(db, 4));
    let mut cases = replacements(&fixture.log, &fixture.database, other.log);
    cases.push(("of another page size", Some(pages_of_512.log), &["another"]));
    for (what, bytes, words) in cases {
        let replace = || {
            fixture.restore();
            match &bytes {
                Some(bytes) => fs::write(side(&fixture.path, LOG), bytes).unwrap(),
                None => fs::remove_file(side(&fixture.path, LOG)).unwrap(),
            }
        };
        replace();
        let inspected = oneflush_vfs::inspect(&fixture.path).unwrap_err().to_string();
        assert!(inspected.contains(words[0]), "{what}: {inspected}");
        assert_eq!(fixture.judge_as_it_lies(what, &bytes), None, "{what}");
        for strategy in ["maw", "maw&mode=ro", "plain", "auto", "eager", "waldio"] {
            replace();
            let before = (contents(&fixture.path, LOG), files(&fixture.path));
            take_said(&fixture.path);
            let read = open_as(&fixture.path, strategy);
            let said = take_said(&fixture.path);
            assert!(read.is_err(), "{what}, {strategy}: {read:?}");
            if !strategy.contains("ro") {
                for word in words {
                    assert!(said.contains(word), "{what}, {strategy}: {word:?}: {said}, {read:?}");
                }
            }
            let way_out =
                ["Put it back", "Restore", "restore", "Put the", "Use ", "Mount the directory"];
            assert!(way_out.iter().any(|word| said.contains(word)), "{what}, {strategy}: {said}");
            let after = (contents(&fixture.path, LOG), files(&fixture.path));
            assert!(after == before, "{what}, {strategy}: {:?}", after.1);
        }
    }
    fixture.restore();
    assert_eq!(open(&fixture.path), Ok(Ok(5)));
}

impl Fixture {
    fn judge_as_it_lies(&self, what: &str, log: &Option<Vec<u8>>) -> Option<i64> {
        self.restore();
        match log {
            Some(bytes) => fs::write(side(&self.path, LOG), bytes).unwrap(),
            None => fs::remove_file(side(&self.path, LOG)).unwrap(),
        }
        self.judge(what, false)
    }
}

#[test]
fn what_is_no_file_in_the_place_of_the_log_is_refused_and_not_followed() {
    let fixture = Fixture::new(4096, false, |db| commits::make(db, 5));
    let log = side(&fixture.path, LOG);
    let refused = |what: &str| {
        take_said(&fixture.path);
        let read = open(&fixture.path);
        let said = take_said(&fixture.path);
        assert!(read.is_err() && !said.is_empty(), "{what}: {read:?}, {said}");
        assert!(oneflush_vfs::inspect(&fixture.path).is_err(), "{what}");
        assert!(fs::read(&fixture.path).unwrap() == fixture.database, "{what}");
    };
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    refused("a directory");
    fs::remove_dir(&log).unwrap();
    std::os::unix::fs::symlink("nowhere", &log).unwrap();
    refused("a link to nowhere");
    fs::remove_file(&log).unwrap();
    let elsewhere = side(&fixture.path, "elsewhere");
    fs::write(&elsewhere, &fixture.log).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
    refused("a link to the log");
    assert!(fs::read(&elsewhere).unwrap() == fixture.log);
}

/// A log of `eager` lies beside it too, from somewhere else. The guard names the right one.
#[test]
fn of_two_logs_the_one_that_the_guard_names_counts_with_every_strategy() {
    let fixture = Fixture::new(4096, false, |db| commits::make(db, 5));
    let other = scratch();
    let live = other.path().join("eager.db");
    let db = open_with(&live, "strategy=eager").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal").unwrap();
    commits::create(&db);
    commits::make(&db, 3);
    let eagers = fs::read(side(&live, "-oneflush")).unwrap();
    let crashed = crash(&live, &["-oneflush"]);
    for strategy in ["maw", "eager", "plain", "waldio"] {
        fixture.restore();
        fs::write(side(&fixture.path, "-oneflush"), &eagers).unwrap();
        let found = open_as(&fixture.path, strategy);
        let said = take_said(&fixture.path);
        assert_eq!(found, Ok(Ok(5)), "{strategy}: a log of eager beside: {said}");
        fixture.restore();

        let path = crash(&crashed, &["-oneflush"]);
        fs::write(side(&path, LOG), &fixture.log).unwrap();
        let found = open_as(&path, strategy);
        assert_eq!(found, Ok(Ok(3)), "{strategy}: a log of maw beside: {}", take_said(&path));
    }
}

/// A plain database that a backup has put in the place of another: the log is not its own.
#[test]
fn a_log_beside_a_database_without_guard_is_kept_and_not_applied() {
    let fixture = Fixture::new(4096, false, |db| commits::make(db, 5));
    for strategy in ["maw&atomic=log", "plain", "stock"] {
        fixture.restore();
        fs::remove_file(&fixture.path).unwrap();
        let stock = open_stock(&fixture.path);
        commits::create(&stock);
        commits::make(&stock, 2);
        drop(stock);
        let found = open_as(&fixture.path, strategy);
        assert_eq!(found, Ok(Ok(2)), "{strategy}");
        let db = open_with(&fixture.path, &format!("strategy={strategy}")).unwrap();
        commits::make(&db, 2);
        drop(db);
        assert_eq!(commits::check(&open_stock(&fixture.path)), Ok(4), "{strategy}");
        let logs = files(&fixture.path).into_iter().filter(|name| name.starts_with(LOG));
        let kept = logs.map(|name| fs::read(side(&fixture.path, &name)).unwrap());
        assert!(kept.into_iter().any(|log| log == fixture.log), "{strategy}: the log is gone");
    }
    fixture.restore();
}

/// Nothing but the log has page 1 then.
#[test]
fn a_garbled_first_page_comes_back_from_the_log() {
    for page_bytes in [512, 4096, 65_536] {
        for in_place in [false, true] {
            let fixture = Fixture::new(page_bytes, in_place, |db| commits::make(db, 5));
            for garbled in [[0_u8; 512], [0x5a; 512]] {
                for strategy in ["maw", "plain", "eager"] {
                    fixture.restore();
                    let mut bytes = fixture.database.clone();
                    bytes[..512].copy_from_slice(&garbled);
                    fs::write(&fixture.path, &bytes).unwrap();
                    let found = open_as(&fixture.path, strategy);
                    let about = take_said(&fixture.path);
                    assert_eq!(found, Ok(Ok(5)), "{}, {strategy}: {about}", fixture.name);
                }
            }
        }
    }
}

/// The commit of the last record is in place already, with a page that no other record has. If the
/// record is damaged, half of its commit must not appear: that page without the others, which come
/// from earlier records.
#[test]
fn a_damaged_last_record_never_leaves_half_of_its_commit() {
    let dir = scratch();
    let live = dir.path().join("live.db");
    let stock = open_stock(&live);
    commits::create(&stock);
    stock.execute_batch("CREATE TABLE rare(n); INSERT INTO rare VALUES (0)").unwrap();
    drop(stock);
    let db = open_with(&live, "strategy=maw&atomic=log").unwrap();
    commits::make(&db, 5);
    commits::try_make_with(&db, "UPDATE rare SET n = (SELECT n FROM total)").unwrap();
    let path = crash(&live, &[LOG]);
    let mut log = fs::read(side(&path, LOG)).unwrap();
    let at =
        (BLOCK_BYTES..log.len()).step_by(BLOCK_BYTES).filter(|&at| log[at..at + 4] == *b"1FLR");
    let newest = at.max_by_key(|&at| u64::from_le_bytes(log[at + 16..at + 24].try_into().unwrap()));
    log[newest.unwrap() + RECORD_HEADER_BYTES] ^= 0xff;
    fs::write(side(&path, LOG), log).unwrap();
    let Ok(db) = open_with(&path, "strategy=maw&atomic=log") else { return };
    let found = db.query_row("SELECT rare.n, total.n FROM rare, total", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    assert!(
        !matches!(found, Ok::<(i64, i64), _>((rare, total)) if rare > total),
        "{found:?}: of the last commit one page is there, and others not"
    );
}
