//! Databases as a crash of `eager` leaves them, for tests that damage their files. A case puts the
//! files back, damages them, opens the database and judges the result.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oneflush_blocklog::group::page_crc;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{commits, crash, files, open_with, side, take_said};

pub const BLOCK_BYTES: usize = 4096;
/// docs/log-format.md, "Record".
pub const RECORD_HEADER_BYTES: usize = 52;
/// docs/log-format.md, "First block".
const VERSION_AT: usize = 264;
const CHECKSUM_AT: usize = 508;
/// How many bytes of a longer payload are tried. Of a shorter one, all are.
const SAMPLE: usize = 40;

/// A place for thousands of small databases, which need no device.
pub fn scratch() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.unwrap()
}

/// Has a log's first block, which is sound otherwise, name another format.
pub fn set_format(log: &mut [u8], version: u32) {
    log[VERSION_AT..VERSION_AT + 4].copy_from_slice(&version.to_le_bytes());
    let checksum = page_crc(&log[..CHECKSUM_AT]);
    log[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// The files that a crash has left.
pub struct Fixture {
    pub name: &'static str,
    _dir: TempDir,
    pub path: PathBuf,
    pub database: Vec<u8>,
    pub log: Vec<u8>,
    /// Only if the log relies on the image.
    pub image: Option<Vec<u8>>,
    pub commits: i64,
}

pub struct Record {
    pub bytes: Range<usize>,
    pub epoch: u64,
    pub lsn: u64,
}

impl Fixture {
    pub fn new(name: &'static str, history: impl FnOnce(&Connection), with_image: bool) -> Fixture {
        let dir = scratch();
        let live = dir.path().join("live.db");
        let db = open_with(&live, "strategy=eager&checkpoints=sqlite&log_size=1048576").unwrap();
        db.execute_batch(
            "PRAGMA journal_mode=wal; PRAGMA synchronous=full; PRAGMA wal_autocheckpoint=0",
        )
        .unwrap();
        commits::create(&db);
        history(&db);
        let commits = commits::check(&db).unwrap();
        let side_files: &[&str] =
            if with_image { &["-oneflush", "-oneflush-wal"] } else { &["-oneflush"] };
        let path = crash(&live, side_files);
        drop(db);
        let read = |suffix: &str| fs::read(side(&path, suffix)).unwrap();
        let image = with_image.then(|| read("-oneflush-wal"));
        Fixture {
            name,
            _dir: dir,
            database: read(""),
            log: read("-oneflush"),
            path,
            image,
            commits,
        }
    }

    /// All fixtures. The last record of each has another kind or epoch.
    pub fn all() -> Vec<Fixture> {
        let checkpoint = |db: &Connection, mode: &str| {
            db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        };
        vec![
            Fixture::new("the first epoch", |db| commits::make(db, 9), false),
            Fixture::new(
                "pages in the database file, the last record logged them whole before",
                |db| {
                    commits::make(db, 6);
                    checkpoint(db, "PASSIVE");
                },
                false,
            ),
            Fixture::new(
                "commits behind a checkpoint",
                |db| {
                    commits::make(db, 5);
                    checkpoint(db, "PASSIVE");
                    commits::make(db, 4);
                },
                false,
            ),
            Fixture::new(
                "an epoch that has only begun",
                |db| {
                    commits::make(db, 5);
                    checkpoint(db, "RESTART");
                    commits::make(db, 1);
                },
                false,
            ),
            Fixture::new(
                "three epochs, so that an old one lies behind the newest",
                |db| {
                    for count in [9, 5, 3] {
                        commits::make(db, count);
                        checkpoint(db, "TRUNCATE");
                    }
                    commits::make(db, 3);
                },
                false,
            ),
            Fixture::new(
                "an epoch that stands on the image",
                |db| {
                    commits::make(db, 2);
                    db.execute_batch("CREATE TABLE large AS SELECT zeroblob(4500000)").unwrap();
                    commits::make(db, 3);
                },
                true,
            ),
        ]
    }

    /// Puts all files back as they were.
    pub fn restore(&self) {
        for suffix in files(&self.path) {
            fs::remove_file(side(&self.path, &suffix)).unwrap();
        }
        fs::write(&self.path, &self.database).unwrap();
        fs::write(side(&self.path, "-oneflush"), &self.log).unwrap();
        if let Some(image) = &self.image {
            fs::write(side(&self.path, "-oneflush-wal"), image).unwrap();
        }
    }

    pub fn records(&self) -> Vec<Record> {
        records(&self.log, self.name)
    }

    /// Damages a file at some places, opens, and judges. Afterwards the files are as before.
    pub fn flip(&self, suffix: &str, at: usize, bit: u8, last_may_go: bool) -> Option<i64> {
        let path = side(&self.path, suffix);
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at as u64).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << bit], at as u64).unwrap();
        let opened =
            self.judge(&format!("bit {bit} of byte {at} of the file {suffix:?}"), last_may_go);
        match opened {
            None => file.write_all_at(&byte, at as u64).unwrap(),
            Some(_) => self.restore(),
        }
        opened
    }

    /// Opens the database. None: it was refused.
    pub fn judge(&self, what: &str, last_may_go: bool) -> Option<i64> {
        let what = format!("{}, {what}", self.name);
        let found = open_or_refused(&self.path, "-oneflush", &what, open)?;
        let enough = self.commits - i64::from(last_may_go);
        assert!(
            (enough..=self.commits).contains(&found),
            "{what}: {found} of {} commits",
            self.commits
        );
        Some(found)
    }
}

/// The records of a log in the order of their LSNs.
pub fn records(log: &[u8], name: &str) -> Vec<Record> {
    let number = |at: usize, len: usize| {
        let bytes = log[at..at + len].iter().rev();
        bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let starts =
        (BLOCK_BYTES..log.len()).step_by(BLOCK_BYTES).filter(|&at| log[at..at + 4] == *b"1FLR");
    let mut records: Vec<Record> = starts
        .map(|at| Record {
            bytes: at..at + RECORD_HEADER_BYTES + number(at + 32, 4) as usize,
            epoch: number(at + 8, 8),
            lsn: number(at + 16, 8),
        })
        .collect();
    records.sort_by_key(|record| record.lsn);
    assert!(records.len() > 4, "{name}");
    records
}

/// The case, its bytes, and words that must be in the refusal.
pub type Replacement = (&'static str, Option<Vec<u8>>, &'static [&'static str]);

/// What may lie in the place of a log: `other` is that of another database.
pub fn replacements(log: &[u8], database: &[u8], other: Vec<u8>) -> Vec<Replacement> {
    let of_format = |version: u32| {
        let mut log = log.to_vec();
        set_format(&mut log, version);
        Some(log)
    };
    let mut chance = Chance(1);
    let noise = (0..log.len()).map(|_| chance.below(256) as u8).collect();
    let mut damaged = log.to_vec();
    let records = records(log, "the log that was there");
    damaged[records[records.len() - 2].bytes.start] ^= 1;
    let mut first_block = log.to_vec();
    first_block[300] ^= 1;
    vec![
        ("missing", None, &["missing", "Put it back"]),
        ("of another database", Some(other), &["another"]),
        ("of a newer format", of_format(9), &["format 9", "newer Oneflush"]),
        ("of a directory", of_format(4), &["of a directory", "recover --fs"]),
        ("all zeros", Some(vec![0; log.len()]), &["empty"]),
        ("empty", Some(Vec::new()), &["empty"]),
        ("noise", Some(noise), &["not a log"]),
        ("a database", Some(database.to_vec()), &["not a log"]),
        ("damaged in its first block", Some(first_block), &["first block", "Restore"]),
        ("damaged in a record", Some(damaged), &["damaged in record"]),
    ]
}

/// One thread a fixture, each with chances of its own.
pub fn in_threads<F: Send>(fixtures: Vec<F>, test: impl Fn(&F, Chance) + Sync) {
    std::thread::scope(|scope| {
        for (seed, fixture) in fixtures.into_iter().enumerate() {
            let test = &test;
            scope.spawn(move || test(&fixture, Chance(seed as u64)));
        }
    });
}

/// A database file and its log.
pub fn contents(path: &Path, log: &str) -> [Option<Vec<u8>>; 2] {
    ["", log].map(|suffix| fs::read(side(path, suffix)).ok())
}

/// Opens a database as it lies there. A dry run before that changes nothing and agrees. None: it
/// was refused, with a reason and with all files as they were.
pub fn open_or_refused<T>(
    path: &Path,
    log: &str,
    what: &str,
    open: impl FnOnce(&Path) -> Result<T, String>,
) -> Option<T> {
    let before = contents(path, log);
    let inspected = oneflush_vfs::inspect(path);
    assert!(contents(path, log) == before, "{what}: looking at it has changed it");
    take_said(path);
    let opened = open(path);
    let said = take_said(path);
    assert_eq!(
        inspected.is_ok(),
        opened.is_ok(),
        "{what}: dry run {inspected:?}, open {:?}, {said}",
        opened.as_ref().err()
    );
    opened
        .inspect_err(|error| {
            assert!(contents(path, log) == before, "{what}: refused, but the files have changed");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(said.contains(name), "{what}: no reason in SQLite's error log, but {error}");
            let inspected = inspected.unwrap_err().to_string();
            assert!(inspected.contains(name), "{what}: {inspected}");
        })
        .ok()
}

/// The answer for an unsound database, in place of a number of commits.
pub const UNSOUND: i64 = -1;

/// How many commits are there. A refusal is an error.
pub fn open(path: &Path) -> Result<i64, String> {
    let db =
        open_with(path, "strategy=eager&checkpoints=sqlite").map_err(|error| error.to_string())?;
    db.busy_timeout(Duration::ZERO).unwrap();
    match db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)) {
        Err(error) => Err(error.to_string()),
        // From here on nothing is refused any more. Either the database is sound, or the result is
        // wrong.
        Ok(_) => Ok(commits::check(&db).unwrap_or(UNSOUND)),
    }
}

/// SplitMix64, so that the cases are the same each time.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % end as u64) as usize
    }

    pub fn bit(&mut self) -> u8 {
        self.below(8) as u8
    }

    /// All numbers of a short range, some of a long one.
    pub fn sample(&mut self, range: Range<usize>) -> Vec<usize> {
        if range.len() <= SAMPLE {
            return range.collect();
        }
        (0..SAMPLE).map(|_| range.start + self.below(range.len())).collect()
    }
}
