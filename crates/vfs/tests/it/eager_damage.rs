//! Damaged logs, with real SQLite on the files that a crash of `eager` leaves.
//!
//! A fixture is a database whose commits are all acknowledged, as its files were at that moment.
//! Each case damages the files in one way and opens the database.
//!
//! Either the open is refused, with a reason and with every file as it was, or all acknowledged
//! commits are there. There is one exception (docs/log-format.md, "What cannot be told apart"). A
//! damaged *last* record looks like one that was torn while it was written. A torn record was never
//! acknowledged. So the commit of the last record, and no other, may be missing.
//!
//! What `oneflush recover --dry-run` says before agrees with the open.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::damaged::{
    BLOCK_BYTES, Chance, Fixture, RECORD_HEADER_BYTES, Record, Replacement, UNSOUND, contents,
    open, replacements,
};
use crate::common::{self, commits, open_with, side, take_said};

#[test]
fn a_fixture_that_is_not_damaged_opens_with_all_its_commits() {
    for fixture in Fixture::all() {
        assert_eq!(fixture.judge("nothing", false), Some(fixture.commits));
    }
}

#[test]
fn a_flipped_bit_in_a_record_is_refused_or_costs_only_an_unacknowledged_end() {
    std::thread::scope(|scope| {
        for (seed, fixture) in Fixture::all().into_iter().enumerate() {
            scope.spawn(move || flip_in_records(&fixture, Chance(seed as u64)));
        }
    });
}

fn flip_in_records(fixture: &Fixture, mut chance: Chance) {
    let records = fixture.records();
    let newest = records.last().unwrap();
    let (mut refused, mut shorter) = (0, 0);
    for (number, record) in records.iter().enumerate() {
        let payload = record.bytes.start + RECORD_HEADER_BYTES;
        // All bits where only the last record notices damage; one bit of each byte elsewhere.
        let all_bits = number + 2 == records.len();
        let bits = |at: usize, bit: u8| if all_bits { (at, 0..8) } else { (at, bit..bit + 1) };
        let mut cases: Vec<(usize, Range<u8>)> =
            (record.bytes.start..payload).map(|at| bits(at, at as u8 % 8)).collect();
        cases.extend(
            chance
                .sample(payload..record.bytes.end)
                .into_iter()
                .map(|at| (at, at as u8 % 8..at as u8 % 8 + 1)),
        );
        if record.epoch < newest.epoch {
            // Each of these opens, because the record is not needed any more.
            cases = cases.into_iter().step_by(12).collect();
        }
        for (at, bit) in cases.into_iter().flat_map(|(at, bits)| bits.map(move |bit| (at, bit))) {
            match fixture.flip("-oneflush", at, bit, record.lsn == newest.lsn) {
                None => refused += 1,
                Some(found) => shorter += i32::from(found < fixture.commits),
            }
        }
    }
    println!(
        "{}: {} records, {refused} refused, {shorter} without the last commit",
        fixture.name,
        records.len()
    );
    let is_first = records.iter().filter(|record| record.epoch == newest.epoch).count() == 1;
    assert!(refused > 0 || is_first, "{}", fixture.name);
}

#[test]
fn a_flipped_bit_in_the_first_block_is_refused_where_anything_is_there() {
    let fixture = Fixture::new("the first block", |db| commits::make(db, 3), false);
    let mut chance = Chance(7);
    for at in 0..512 {
        assert_eq!(fixture.flip("-oneflush", at, chance.bit(), false), None, "byte {at}");
    }
    // Nothing is read from the rest of it, so all its bytes are damaged at once.
    for bit in 0..8 {
        let rest: Vec<u8> =
            fixture.log[512..BLOCK_BYTES].iter().map(|byte| byte ^ 1 << bit).collect();
        let log = File::options().write(true).open(side(&fixture.path, "-oneflush")).unwrap();
        log.write_all_at(&rest, 512).unwrap();
        assert_eq!(fixture.judge(&format!("bit {bit} of the rest"), false), Some(3));
        fixture.restore();
    }
}

#[test]
fn a_flipped_bit_in_the_database_header_loses_nothing() {
    let mut lost = Vec::new();
    for fixture in Fixture::all() {
        for at in 0..100 {
            // Where the guard is: all bits that turn it into another meaningful value, and one
            // more.
            let is_guard = (18..=19).contains(&at) || (72..92).contains(&at);
            let bits: &[u8] = if is_guard { &[0, 1, 7] } else { &[1] };
            for &bit in bits {
                lost.extend(fixture.flip_in_database(at, bit));
            }
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

impl Fixture {
    /// The answer is what went wrong. Damage outside of the log may be refused by SQLite too, and
    /// the dry run, which reads only the log, need not notice it.
    fn flip_in_database(&self, at: usize, bit: u8) -> Option<String> {
        let mut damaged = self.database.clone();
        damaged[at] ^= 1 << bit;
        fs::write(&self.path, &damaged).unwrap();
        let opened = open(&self.path);
        let mut wrong = None;
        if let Ok(found) = opened {
            // SQLite has no checksum over its header, so only SQLite itself could notice a wrong
            // size of the reserved space.
            let is_other_damage =
                found == UNSOUND && !(18..=19).contains(&at) && !(72..92).contains(&at);
            wrong = (found != self.commits && !is_other_damage)
                .then(|| format!("opens with {found} of {} commits", self.commits));
        } else {
            // What was acknowledged is still in the log or in the database file, for somebody who
            // repairs the byte.
            let file = File::options().read(true).write(true).open(&self.path).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at as u64).unwrap();
            if byte[0] == damaged[at] {
                file.write_all_at(&[self.database[at]], at as u64).unwrap();
            }
            let mended = open(&self.path);
            if mended != Ok(self.commits) {
                wrong = Some(format!("is refused ({opened:?}), and mended it has {mended:?}"));
            }
        }
        self.restore();
        wrong.map(|wrong| format!("{}, bit {bit} of byte {at} of the database: {wrong}", self.name))
    }
}

#[test]
fn a_log_that_is_cut_off_at_any_block_or_beside_one_is_refused() {
    for (number, fixture) in Fixture::all().into_iter().enumerate() {
        let log = side(&fixture.path, "-oneflush");
        let whole = fixture.log.len();
        // Every block of one of the fixtures.
        let blocks = (0..whole / BLOCK_BYTES).filter(|block| number == 2 || block % 16 == number);
        for block in blocks {
            for size in
                [block * BLOCK_BYTES, block * BLOCK_BYTES + 1, (block + 1) * BLOCK_BYTES - 1]
            {
                let file = File::options().write(true).open(&log).unwrap();
                file.set_len(size as u64).unwrap();
                let opened = fixture.judge(&format!("cut to {size} bytes"), false);
                assert_eq!(opened, None, "{}: {size} of {whole} bytes", fixture.name);
                file.write_all_at(&fixture.log[size..], size as u64).unwrap();
            }
        }
        let mut longer = fixture.log.clone();
        longer.push(0x55);
        fs::write(&log, longer).unwrap();
        assert_eq!(fixture.judge("one byte more", false), Some(fixture.commits));
        fixture.restore();
    }
}

#[test]
fn zeros_or_noise_in_place_of_a_record_but_the_last_are_reported_as_corruption() {
    for (seed, fixture) in Fixture::all().into_iter().enumerate() {
        let mut chance = Chance(seed as u64);
        let records = fixture.records();
        for (number, record) in records.iter().enumerate() {
            for with_noise in [false, true] {
                let is_newest = number + 1 == records.len();
                let blocks = record.bytes.start..record.bytes.end.next_multiple_of(BLOCK_BYTES);
                let filled: Vec<u8> = blocks
                    .clone()
                    .map(|_| if with_noise { chance.below(256) as u8 } else { 0 })
                    .collect();
                let log =
                    File::options().write(true).open(side(&fixture.path, "-oneflush")).unwrap();
                log.write_all_at(&filled, blocks.start as u64).unwrap();
                fixture.judge(
                    &format!("record {} replaced, with noise: {with_noise}", record.lsn),
                    is_newest,
                );
                fixture.restore();
            }
        }
    }
}

/// The damage is not only refused. It is called damage, with its place.
#[test]
fn a_valid_record_behind_a_broken_one_is_corruption_and_is_named() {
    let fixture = Fixture::new("commits", |db| commits::make(db, 9), false);
    let records = fixture.records();
    let newest = records.last().unwrap();
    let in_epoch: Vec<&Record> = records
        .iter()
        .filter(|record| record.epoch == newest.epoch && record.lsn < newest.lsn)
        .collect();
    assert!(in_epoch.len() >= 8);
    for record in in_epoch {
        let log = File::options().write(true).open(side(&fixture.path, "-oneflush")).unwrap();
        let at = record.bytes.start + RECORD_HEADER_BYTES;
        log.write_all_at(&[!fixture.log[at]], at as u64).unwrap();
        take_said(&fixture.path);
        let db = open_with(&fixture.path, "strategy=eager").unwrap();
        let error =
            db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap_err();
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::DatabaseCorrupt),
            "{error}"
        );
        drop(db);
        let said = take_said(&fixture.path);
        assert!(said.contains("the log is damaged in record"), "record {}: {said}", record.lsn);
        log.write_all_at(&fixture.log[at..=at], at as u64).unwrap();
    }
    assert_eq!(open(&fixture.path), Ok(9));
}

#[test]
fn an_image_that_the_log_stands_on_is_checked() {
    let fixture = Fixture::all().pop().unwrap();
    let image = fixture.image.clone().unwrap();
    let mut chance = Chance(3);
    let mut refused = 0;
    for _ in 0..60 {
        let at = chance.below(4_000_000);
        let mut damaged = image.clone();
        damaged[at] ^= 1 << chance.bit();
        fs::write(side(&fixture.path, "-oneflush-wal"), damaged).unwrap();
        match open(&fixture.path) {
            Ok(found) => assert_eq!(found, fixture.commits, "byte {at}"),
            Err(_) => refused += 1,
        }
        fixture.restore();
    }
    assert!(refused > 50, "{refused}: nearly every byte of it is under a checksum");
}

/// The log is whole in all of these cases, and cannot be used.
#[test]
fn a_dry_run_agrees_where_the_image_or_a_page_that_the_log_changes_is_damaged() {
    let mut differ = Vec::new();
    let mut compare = |fixture: &Fixture, what: &str| {
        let inspected = oneflush_vfs::inspect(&fixture.path);
        let opened = open_quietly(&fixture.path);
        // Damage that SQLite finds, and not the reader of the log, does not count here.
        if inspected.is_ok() && opened.is_err() && !take_said(&fixture.path).is_empty() {
            differ
                .push(format!("{}, {what}: dry run {inspected:?}, open {opened:?}", fixture.name));
        }
        fixture.restore();
    };
    let on_image = Fixture::all().pop().unwrap();
    let mut image = on_image.image.clone().unwrap();
    image[1000] ^= 1;
    fs::write(side(&on_image.path, "-oneflush-wal"), image).unwrap();
    compare(&on_image, "the image is damaged");
    fs::remove_file(side(&on_image.path, "-oneflush-wal")).unwrap();
    compare(&on_image, "the image is missing");
    let fixture = delta_against_the_database();
    for page in 1..fixture.database.len() / 4096 {
        let mut damaged = fixture.database.clone();
        damaged[page * 4096 + 4000] ^= 1;
        fs::write(&fixture.path, damaged).unwrap();
        compare(&fixture, &format!("page {} of the database", page + 1));
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

/// Full pages that a row is added to.
fn delta_against_the_database() -> Fixture {
    let history = |db: &rusqlite::Connection| {
        commits::make(db, 200);
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        commits::make(db, 3);
    };
    Fixture::new("changes of pages of the database file", history, false)
}

/// [`open`], where the content may be wrong.
fn open_quietly(path: &Path) -> Result<i64, String> {
    take_said(path);
    let db =
        open_with(path, "strategy=eager&checkpoints=sqlite").map_err(|error| error.to_string())?;
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| error.to_string())
}

/// The commit of the last record is in the database file already, with a page that no other record
/// has. If the record is damaged, half of its commit must not appear: that page without the others,
/// which come from earlier records.
#[test]
fn a_damaged_last_record_never_leaves_half_of_its_commit() {
    let history = |db: &rusqlite::Connection| {
        db.execute_batch("CREATE TABLE rare(n); INSERT INTO rare VALUES (0)").unwrap();
        commits::make(db, 1);
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        commits::make(db, 5);
        commits::try_make_with(db, "UPDATE rare SET n = (SELECT n FROM total)").unwrap();
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    };
    let fixture = Fixture::new("a commit that alone changed a page", history, false);
    let newest = fixture.records().pop().unwrap();
    let log = File::options().write(true).open(side(&fixture.path, "-oneflush")).unwrap();
    let at = newest.bytes.start + RECORD_HEADER_BYTES;
    log.write_all_at(&[!fixture.log[at]], at as u64).unwrap();
    let Ok(db) = open_with(&fixture.path, "strategy=eager") else { return };
    let found = db.query_row("SELECT rare.n, total.n FROM rare, total", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    assert!(
        !matches!(found, Ok::<(i64, i64), _>((rare, total)) if rare > total),
        "{found:?}: of the last commit one page is there, and others not"
    );
}

#[test]
fn a_refusal_leaves_no_new_file() {
    let fixture = Fixture::new("the right one", |db| commits::make(db, 5), false);
    for (what, bytes, _) in others_logs(&fixture) {
        replace_log(&fixture, bytes.as_deref());
        let before = common::files(&fixture.path);
        refusal(&fixture, "eager");
        assert_eq!(common::files(&fixture.path), before, "{what}");
    }
}

fn others_logs(fixture: &Fixture) -> Vec<Replacement> {
    let other = Fixture::new("another", |db| commits::make(db, 4), false);
    replacements(&fixture.log, &fixture.database, other.log)
}

#[test]
fn another_log_in_its_place_is_refused_by_eager_and_plain_and_named() {
    let fixture = Fixture::new("the right one", |db| commits::make(db, 5), false);
    for (what, bytes, words) in others_logs(&fixture) {
        replace_log(&fixture, bytes.as_deref());
        assert_eq!(fixture.judge(what, false), None, "{what}");
        for strategy in ["eager", "plain"] {
            let said = refusal(&fixture, strategy);
            for word in words {
                assert!(said.contains(word), "{what}, {strategy}: {word:?} is not in: {said}");
            }
        }
        let inspected = oneflush_vfs::inspect(&fixture.path).unwrap_err().to_string();
        assert!(words[..1].iter().all(|word| inspected.contains(word)), "{what}: {inspected}");
    }
    fixture.restore();
    assert_eq!(open(&fixture.path), Ok(5));
}

/// A refusal that says only what is wrong leaves the user with a database that does not open.
#[test]
fn every_refusal_of_a_log_says_how_to_go_on() {
    let fixture = Fixture::new("the right one", |db| commits::make(db, 5), false);
    let mut silent = Vec::new();
    for (what, bytes, _) in others_logs(&fixture) {
        replace_log(&fixture, bytes.as_deref());
        let said = refusal(&fixture, "eager");
        if !["Put it back", "Restore", "restore", "Put the", "Use ", "Mount the directory"]
            .iter()
            .any(|word| said.contains(word))
        {
            silent.push(format!("{what}: {said}"));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

fn replace_log(fixture: &Fixture, bytes: Option<&[u8]>) {
    fixture.restore();
    let log = side(&fixture.path, "-oneflush");
    match bytes {
        Some(bytes) => fs::write(log, bytes).unwrap(),
        None => fs::remove_file(log).unwrap(),
    }
}

/// SQLite's error log when the open, or the first read, is refused. The files stay as they are.
fn refusal(fixture: &Fixture, strategy: &str) -> String {
    let before = contents(&fixture.path, "-oneflush");
    take_said(&fixture.path);
    let read = open_with(&fixture.path, &format!("strategy={strategy}"))
        .and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
    assert!(read.is_err(), "{read:?}");
    assert!(contents(&fixture.path, "-oneflush") == before, "the files have changed");
    take_said(&fixture.path)
}
