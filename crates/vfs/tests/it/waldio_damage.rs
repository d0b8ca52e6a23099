//! Damaged logs of `waldio`, with real SQLite on the files that a crash leaves.
//!
//! The log is SQLite's WAL, so the right answer is SQLite's own: a recovery finds the commits
//! before the first frame that is damaged. A damaged first block, and a log that is not this
//! database's, are refused, with a reason and with every file as it was. What `oneflush recover
//! --dry-run` says before agrees with the open.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::common::damaged::{
    BLOCK_BYTES, Chance, contents, in_threads, open_or_refused, scratch, set_format,
};
use crate::common::{self, commits, crash, files, open_stock, open_with, side, take_said};

const LAYOUTS: [&str; 4] = ["embed", "pad512", "pad4k", "pad8k"];
const SLOTS_MARK: &str = "-waldio";

/// True if this place takes direct I/O by sectors of 512 bytes.
fn takes_sectors() -> bool {
    let dir = scratch();
    let db = open_with(&dir.path().join("a.db"), "strategy=waldio&layout=pad512").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").is_ok()
}

/// The files that a crash has left, and what a recovery should find.
struct Fixture {
    name: String,
    _dir: TempDir,
    path: PathBuf,
    database: Vec<u8>,
    log: Vec<u8>,
    /// The commits in the database file.
    copied: i64,
    /// For each later commit the number of its last frame.
    ends: Vec<u32>,
    geometry: Geometry,
}

/// docs/log-format.md, "Slots".
struct Geometry {
    page_bytes: usize,
    slot_bytes: usize,
    first_slot: usize,
}

impl Geometry {
    fn new(layout: &'static str, page_bytes: usize) -> Geometry {
        let (unit, header) = match layout {
            "embed" => (4096, 0),
            "pad512" => (512, 24),
            "pad4k" => (4096, 24),
            _ => (8192, 24),
        };
        let slot_bytes = (page_bytes + header).next_multiple_of(unit);
        let behind_copy = 2 * 4096 + page_bytes.next_multiple_of(4096) + 4096;
        let first_slot =
            behind_copy.next_multiple_of(8192) + if layout == "pad4k" { 4096 } else { 0 };
        Geometry { page_bytes, slot_bytes, first_slot }
    }

    fn displaces(&self) -> bool {
        self.slot_bytes == self.page_bytes
    }

    fn slot(&self, frame: u32) -> usize {
        let (group, at) = ((frame as usize - 1) / 256, (frame as usize - 1) % 256);
        let lane = if self.displaces() { 256 * 4096 } else { 0 };
        self.first_slot + group * (256 * self.slot_bytes + lane) + at * self.slot_bytes
    }
}

fn frames(path: &Path) -> u32 {
    oneflush_vfs::inspect(path).unwrap().unwrap().frames.unwrap()
}

impl Fixture {
    /// `more`: what a commit does as well.
    fn new(layout: &'static str, page_bytes: usize, more: &str, restarts: bool) -> Fixture {
        let dir = scratch();
        let live = dir.path().join("live.db");
        if restarts || more != "SELECT 1" {
            // Without reserved bytes: the header of a frame displaces bytes of its page.
            let stock = open_stock(&live);
            stock.execute_batch(&format!("PRAGMA page_size={page_bytes}; VACUUM")).unwrap();
        }
        let db = open_with(&live, &format!("strategy=waldio&layout={layout}&checkpoints=sqlite"))
            .unwrap();
        db.execute_batch(&format!(
            "PRAGMA page_size={page_bytes}; PRAGMA journal_mode=wal; PRAGMA synchronous=full;
             PRAGMA wal_autocheckpoint=0; CREATE TABLE full(v)"
        ))
        .unwrap();
        commits::create(&db);
        let mut copied = 0;
        if restarts {
            for _ in 0..4 {
                commits::try_make_with(&db, more).unwrap();
            }
            db.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
            copied = 4;
        }
        let mut ends = Vec::new();
        for _ in 0..7 {
            commits::try_make_with(&db, more).unwrap();
            let now = crash(&live, &[SLOTS_MARK]);
            ends.push(frames(&now));
        }
        let path = crash(&live, &[SLOTS_MARK]);
        let name = format!("{layout}, {page_bytes}, {more:?}, restarts: {restarts}");
        let read = |suffix: &str| fs::read(side(&path, suffix)).unwrap();
        let fixture = Fixture {
            name,
            database: read(""),
            log: read(SLOTS_MARK),
            path: path.clone(),
            _dir: dir,
            copied,
            ends,
            geometry: Geometry::new(layout, page_bytes),
        };
        drop(db);
        assert_eq!(fixture.judge("nothing"), Some(fixture.whole()));
        fixture
    }

    fn all() -> Vec<Fixture> {
        let mut all = Vec::new();
        for layout in LAYOUTS.into_iter().filter(|&one| one != "pad512" || takes_sectors()) {
            all.push(Fixture::new(layout, 512, "SELECT 1", false));
            all.push(Fixture::new(layout, 4096, "SELECT 1", true));
        }
        all.push(Fixture::new("embed", 65_536, "SELECT 1", true));
        // Rows that leave no gap in their pages: the displaced bytes are in the lane.
        let full = "INSERT INTO full VALUES (randomblob(9000))";
        all.push(Fixture::new("embed", 4096, full, false));
        all.push(Fixture::new("embed", 4096, full, true));
        all
    }

    fn whole(&self) -> i64 {
        self.copied + self.ends.len() as i64
    }

    /// The commits that are there without this frame and those behind it.
    fn before(&self, frame: u32) -> i64 {
        if self.copied == 0 && frame <= self.ends[0] {
            // Without its first commit the table is not there.
            return 0;
        }
        self.copied + self.ends.iter().filter(|&&end| end < frame).count() as i64
    }

    fn restore(&self) {
        for suffix in files(&self.path) {
            let path = side(&self.path, &suffix);
            if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }.unwrap();
        }
        fs::write(&self.path, &self.database).unwrap();
        fs::write(side(&self.path, SLOTS_MARK), &self.log).unwrap();
    }

    /// Opens the database as it lies there, and puts all files back. None: it was refused.
    fn judge(&self, what: &str) -> Option<i64> {
        let what = format!("{}, {what}", self.name);
        let found = open_or_refused(&self.path, SLOTS_MARK, &what, open);
        self.restore();
        found.map(|found| found.unwrap_or_else(|error| panic!("{what}: {error}")))
    }

    fn with_flipped(&self, at: usize, bit: u8) -> Option<i64> {
        let log = File::options().write(true).open(side(&self.path, SLOTS_MARK)).unwrap();
        log.write_all_at(&[self.log[at] ^ 1 << bit], at as u64).unwrap();
        self.judge(&format!("bit {bit} of byte {at}"))
    }
}

/// How many commits are there, or what is wrong. The outer error is a refusal.
fn open(path: &Path) -> Result<Result<i64, String>, String> {
    let db =
        open_with(path, "strategy=waldio&checkpoints=sqlite").map_err(|error| error.to_string())?;
    db.busy_timeout(Duration::ZERO).unwrap();
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'total'", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    if tables == 0 {
        let sound = common::integrity(&db);
        return Ok(if sound == "ok" { Ok(0) } else { Err(sound) });
    }
    // The row of the counter is a commit of its own.
    match db.query_row("SELECT count(*) FROM total", [], |row| row.get::<_, i64>(0)) {
        Ok(0) => Ok(Ok(0)),
        _ => Ok(commits::check(&db)),
    }
}

#[test]
fn a_flipped_bit_in_a_frame_costs_the_commits_from_there_on_and_nothing_before() {
    in_threads(Fixture::all(), |fixture, mut chance| {
        let geometry = &fixture.geometry;
        let last = *fixture.ends.last().unwrap();
        let mut noticed = 0;
        for frame in 1..=last {
            let slot = geometry.slot(frame);
            let header = slot + geometry.slot_bytes - 24;
            // The frame's header, and some of the page.
            let mut places: Vec<usize> = (header..header + 24).collect();
            places.truncate(if frame % 3 == 0 { 24 } else { 3 });
            places.extend((0..4).map(|_| slot + chance.below(geometry.page_bytes)));
            for at in places {
                let found = fixture.with_flipped(at, chance.bit()).unwrap();
                // Bytes that nothing needs: padding, and zeros that a displaced header takes.
                let is_page = at < slot + geometry.page_bytes.min(geometry.slot_bytes - 24);
                let expected = fixture.before(frame);
                assert!(
                    found == expected || (!is_page && found == fixture.whole()),
                    "{}: frame {frame} of {last}, byte {at}: {found}, expected {expected}",
                    fixture.name
                );
                noticed += u32::from(found < fixture.whole());
            }
        }
        assert!(noticed > last, "{}: {noticed} of {last} frames", fixture.name);
    });
}

/// The blocks between the slots and the next ones have displaced bytes.
#[test]
fn a_flipped_bit_in_the_lane_costs_the_commits_from_there_on() {
    let full = "INSERT INTO full VALUES (randomblob(9000))";
    let fixture = Fixture::new("embed", 4096, full, true);
    let lane = fixture.geometry.slot(256) + 4096;
    let used: Vec<usize> = (lane..fixture.log.len()).filter(|&at| fixture.log[at] != 0).collect();
    assert!(used.len() > 100, "{}", used.len());
    for &at in used.iter().step_by(used.len() / 60) {
        let found = fixture.with_flipped(at, (at % 8) as u8).unwrap();
        assert!((4..fixture.whole()).contains(&found), "byte {at}: {found}");
    }
}

#[test]
fn a_flipped_bit_in_the_first_block_is_refused() {
    let fixture = Fixture::new("embed", 4096, "SELECT 1", true);
    let mut chance = Chance(7);
    for at in 0..512 {
        assert_eq!(fixture.with_flipped(at, chance.bit()), None, "byte {at}");
    }
    let log = File::options().write(true).open(side(&fixture.path, SLOTS_MARK)).unwrap();
    log.write_all_at(&[0xa5; BLOCK_BYTES - 512], 512).unwrap();
    assert_eq!(fixture.judge("all of the rest"), Some(fixture.whole()));
}

/// SQLite takes a WAL whose header is damaged for an empty one. So is it here: the header has a
/// checksum, and no second copy. `--dry-run` tells of the frames behind it.
#[test]
fn a_damaged_header_of_the_wal_is_to_waldio_what_it_is_to_sqlite() {
    let fixture = Fixture::new("embed", 4096, "SELECT 1", true);
    let dir = scratch();
    let live = dir.path().join("live.db");
    let stock = open_stock(&live);
    stock.execute_batch("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0").unwrap();
    commits::create(&stock);
    commits::make(&stock, 4);
    stock.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
    commits::make(&stock, 7);
    let sqlites = |at: usize, bit: u8| {
        let crashed = crash(&live, &["-wal"]);
        let wal = side(&crashed, "-wal");
        let mut bytes = fs::read(&wal).unwrap();
        bytes[at] ^= 1 << bit;
        fs::write(&wal, bytes).unwrap();
        commits::check(&open_stock(&crashed))
    };
    for at in 0..32 {
        let bit = (at % 8) as u8;
        // Bit 0 of the magic says in which order the words of checksums are.
        let log = File::options().write(true).open(side(&fixture.path, SLOTS_MARK)).unwrap();
        log.write_all_at(&[fixture.log[4096 + at] ^ 1 << bit], 4096 + at as u64).unwrap();
        let told = oneflush_vfs::inspect(&fixture.path).unwrap().unwrap();
        if !(16..24).contains(&at) {
            assert_eq!(told.frames_behind, Some(*fixture.ends.last().unwrap()), "byte {at}");
        }
        let found = fixture.judge(&format!("byte {at} of the WAL's header"));
        assert_eq!(found, Some(sqlites(at, bit).unwrap()), "byte {at}");
        assert_eq!(found, Some(fixture.copied), "byte {at}");
    }
}

#[test]
fn a_log_that_is_cut_off_has_the_commits_before_the_cut_or_is_refused() {
    in_threads(Fixture::all(), |fixture, _| {
        let geometry = &fixture.geometry;
        let last = *fixture.ends.last().unwrap();
        let end = geometry.slot(last) + geometry.slot_bytes;
        for block in 0..=end.div_ceil(BLOCK_BYTES) {
            let beside = (block % 16 == 3).then_some(block * BLOCK_BYTES + 1);
            for size in std::iter::once(block * BLOCK_BYTES).chain(beside) {
                if size > fixture.log.len() {
                    continue;
                }
                let log = File::options().write(true).open(side(&fixture.path, SLOTS_MARK));
                log.unwrap().set_len(size as u64).unwrap();
                let found = fixture.judge(&format!("cut to {size} bytes"));
                let whole =
                    (1..=last).take_while(|&n| geometry.slot(n) + geometry.slot_bytes <= size);
                let about = format!("{}, cut to {size}", fixture.name);
                if size < geometry.first_slot {
                    assert_eq!(found, None, "{about}");
                } else if !fixture.name.contains("randomblob") {
                    let expected = fixture.before(whole.count() as u32 + 1);
                    assert_eq!(found, Some(expected), "{about}");
                } else {
                    // Its lane is cut off too.
                    assert!(found.is_some_and(|found| found <= fixture.whole()), "{about}");
                }
            }
        }
    });
}

/// The case, its bytes, and words that must be in the refusal.
type Replacement = (&'static str, Option<Vec<u8>>, &'static [&'static str]);

fn replacements(fixture: &Fixture) -> Vec<Replacement> {
    let other = Fixture::new("embed", 4096, "SELECT 1", false);
    let mut newer = fixture.log.clone();
    set_format(&mut newer, 9);
    let mut damaged = fixture.log.clone();
    damaged[300] ^= 1;
    vec![
        ("missing", None, &["missing", "Put it back"]),
        ("of another database", Some(other.log), &["another database"]),
        ("empty", Some(Vec::new()), &["log"]),
        ("cut to its first block", Some(fixture.log[..4096].to_vec()), &["cut off", "Restore"]),
        ("zeros", Some(vec![0; 1 << 17]), &["log", "Restore"]),
        ("no log", Some(vec![0x5a; 1 << 17]), &["not a log", "Restore"]),
        ("of a newer format", Some(newer), &["format 9"]),
        ("damaged in its first block", Some(damaged), &["first block", "Restore"]),
    ]
}

#[test]
fn another_log_in_its_place_is_refused_by_every_strategy_with_a_way_out() {
    let fixture = Fixture::new("embed", 4096, "SELECT 1", true);
    for (what, bytes, words) in replacements(&fixture) {
        for strategy in ["waldio", "plain", "eager"] {
            for parameters in ["", "&mode=ro"] {
                put(&fixture, bytes.as_deref());
                let before = contents(&fixture.path, SLOTS_MARK);
                let there = files(&fixture.path);
                take_said(&fixture.path);
                let read = open_with(&fixture.path, &format!("strategy={strategy}{parameters}"))
                    .and_then(|db| {
                        db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
                    });
                let said = take_said(&fixture.path);
                let about = format!("{what}, {strategy}{parameters}: {read:?}, {said}");
                assert!(read.is_err(), "{about}");
                assert!(
                    contents(&fixture.path, SLOTS_MARK) == before,
                    "the files have changed: {about}"
                );
                assert_eq!(files(&fixture.path), there, "{about}");
                if parameters.is_empty() {
                    assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {about}");
                }
            }
        }
        put(&fixture, bytes.as_deref());
        assert_eq!(fixture.judge(what), None, "{what}");
    }
}

fn put(fixture: &Fixture, log: Option<&[u8]>) {
    fixture.restore();
    let path = side(&fixture.path, SLOTS_MARK);
    match log {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::remove_file(path).unwrap(),
    }
}

#[test]
fn a_directory_or_a_link_in_the_logs_place_is_refused_and_nothing_is_written() {
    let fixture = Fixture::new("embed", 4096, "SELECT 1", true);
    let log = side(&fixture.path, SLOTS_MARK);
    let refused = |what: &str| {
        let read = open(&fixture.path);
        let said = take_said(&fixture.path);
        assert!(read.is_err() && said.contains(SLOTS_MARK), "{what}: {read:?}, {said}");
        assert!(oneflush_vfs::inspect(&fixture.path).is_err(), "{what}");
        assert!(fs::read(&fixture.path).unwrap() == fixture.database, "{what}");
    };
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    refused("a directory");
    fs::remove_dir(&log).unwrap();
    std::os::unix::fs::symlink("nowhere", &log).unwrap();
    let read = open(&fixture.path);
    let said = take_said(&fixture.path);
    assert!(read.is_err() && said.contains("missing"), "{read:?}, {said}");
    fs::remove_file(&log).unwrap();
    // Who may write to the folder could make Oneflush write to, and hand over, any other file.
    let elsewhere = side(&fixture.path, "elsewhere");
    fs::write(&elsewhere, &fixture.log).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
    refused("a link to the log");
    assert!(fs::read(&elsewhere).unwrap() == fixture.log);
}

/// Both names lie there: one is this database's, and the other comes from somewhere else.
#[test]
fn of_two_logs_the_one_that_the_guard_names_counts_with_every_strategy() {
    let fixture = Fixture::new("embed", 4096, "SELECT 1", true);
    let other = scratch();
    let live = other.path().join("eager.db");
    let db = open_with(&live, "strategy=eager").unwrap();
    db.execute_batch("PRAGMA journal_mode=wal").unwrap();
    commits::create(&db);
    commits::make(&db, 3);
    let eagers = fs::read(side(&live, "-oneflush")).unwrap();
    let crashed = crash(&live, &["-oneflush"]);
    for strategy in ["waldio", "eager", "plain", "waldio&mode=ro", "eager&mode=ro"] {
        fixture.restore();
        fs::write(side(&fixture.path, "-oneflush"), &eagers).unwrap();
        let db = open_with(&fixture.path, &format!("strategy={strategy}")).unwrap();
        assert_eq!(commits::check(&db), Ok(fixture.whole()), "{strategy}: a log of eager beside");
        drop(db);
        assert_eq!(commits::check(&open_stock(&fixture.path)), Ok(fixture.whole()), "{strategy}");
        fixture.restore();

        let path = crash(&crashed, &["-oneflush"]);
        fs::write(side(&path, SLOTS_MARK), &fixture.log).unwrap();
        let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
        assert_eq!(commits::check(&db), Ok(3), "{strategy}: a log of waldio beside");
        drop(db);
        assert_eq!(commits::check(&open_stock(&path)), Ok(3), "{strategy}");
    }
}

/// A crash garbles page 1 while it is written: by a checkpoint, or with the guard. The log has it
/// then. At any other time nothing writes it. Then it was damaged in another way, and the log may
/// have an old one. That one was once put there: "no such table", and nothing was said.
#[test]
fn a_garbled_first_page_comes_back_from_the_log_or_is_refused_and_never_an_old_one() {
    for (layout, page_bytes) in [("embed", 4096), ("pad4k", 512), ("embed", 65_536)] {
        for restarts in [false, true] {
            let fixture = Fixture::new(layout, page_bytes, "SELECT 1", restarts);
            for garbled in [[0_u8; 512], [0x5a; 512]] {
                for strategy in ["waldio", "plain", "eager"] {
                    fixture.restore();
                    let mut bytes = fixture.database.clone();
                    bytes[..512].copy_from_slice(&garbled);
                    fs::write(&fixture.path, &bytes).unwrap();
                    let found = open_with(&fixture.path, &format!("strategy={strategy}"))
                        .map_err(|error| error.to_string())
                        .and_then(|db| commits::check(&db));
                    let said = take_said(&fixture.path);
                    let about = format!("{}, {strategy}: {found:?}, {said}", fixture.name);
                    if restarts {
                        assert!(found.is_err() && said.contains("Restore"), "{about}");
                        assert!(fs::read(&fixture.path).unwrap() == bytes, "{about}");
                        assert_eq!(
                            contents(&fixture.path, SLOTS_MARK)[1].as_ref(),
                            Some(&fixture.log),
                            "{about}"
                        );
                    } else {
                        assert_eq!(found, Ok(fixture.whole()), "{about}");
                    }
                }
            }
        }
    }
}

/// The layout that the device cannot do was "database disk image is malformed".
#[test]
fn a_layout_that_the_place_cannot_do_is_refused_by_name() {
    let dir = scratch();
    let path = dir.path().join("a.db");
    let db = open_with(&path, "strategy=waldio&layout=pad512").unwrap();
    let made = db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)");
    let said = take_said(&path);
    match made {
        Ok(()) => assert_eq!(said, ""),
        Err(error) => {
            assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::CannotOpen));
            assert!(said.contains("layout=embed"), "{said}");
            assert_eq!(files(&path), [""]);
            drop(db);
            let db = open_with(&path, "strategy=waldio").unwrap();
            db.execute_batch("PRAGMA journal_mode=wal; CREATE TABLE t(v)").unwrap();
        }
    }
}
