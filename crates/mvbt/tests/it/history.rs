//! Versions that a file retains: found as they were, also after closes, crashes and prunes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use oneflush_mvbt::{Database, Error, Options, Read, Retain, TreeId, Version};

use crate::common::model::{Model, check, drawn_options, is_as, sound, transaction};
use crate::common::{Memory, clock};

/// Committed versions, oldest first, with what they hold.
type States = Vec<(Version, Model)>;

fn retain(db: &Database, retain: Retain) -> Version {
    let mut txn = db.begin_write().unwrap();
    txn.set_retain(retain).unwrap();
    txn.commit().unwrap()
}

/// One row in a transaction.
fn put(db: &Database, tree: TreeId, key: i64, payload: &[u8]) -> Version {
    let mut txn = db.begin_write().unwrap();
    txn.insert(tree, key, payload).unwrap();
    txn.commit().unwrap()
}

fn with_tree(options: Options) -> (Memory, Database, TreeId) {
    let memory = Memory::default();
    let db = memory.create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    (memory, db, tree)
}

fn options_of(page_bytes: usize) -> Options {
    let mut options = Options::default();
    options.page_bytes = page_bytes;
    options.clock = clock::now;
    options
}

/// The states that must be readable are so, and the others are an error. Looks at some of them.
fn compare(rng: &mut fastrand::Rng, db: &Database, states: &mut States, least: usize, about: &str) {
    let history = db.history().unwrap();
    // Versions between two commits show the older one.
    let kept = states.partition_point(|(version, _)| *version <= history.from) - 1;
    let count = states.len() - kept;
    assert!(count >= least.min(states.len()), "{about}: {count} of {least} are kept");
    if kept > 0 {
        let asked = states[rng.usize(..kept)].0;
        if asked < history.from {
            let gone = db.begin_read_at(asked).map(|reader| reader.version());
            let is_right = matches!(&gone, Err(Error::NotKept { asked: one, from, .. })
                if *one == asked && *from == history.from);
            assert!(is_right, "{about}: {asked}: {gone:?}");
        }
    }
    states.drain(..kept);
    for _ in 0..3 {
        let index = rng.usize(..states.len());
        let (version, model) = &states[index];
        let end = states.get(index + 1).map_or(history.to, |(next, _)| next.previous());
        for asked in [(*version).max(history.from), end] {
            let reader = db.begin_read_at(asked).unwrap_or_else(|e| panic!("{about}: {e}"));
            check(&reader, model, &format!("{about}: version {asked} of {:?}", history.from));
        }
    }
}

/// What was committed last, if it is not known yet.
fn note(db: &Database, states: &mut States, model: &Model) {
    let current = db.data_version();
    if current > states.last().unwrap().0 {
        states.push((current, model.clone()));
    }
}

fn drawn_retain(rng: &mut fastrand::Rng) -> (Retain, usize) {
    let count = rng.choice([1, 5, 30, 1000]).unwrap();
    match rng.bool() {
        true => (Retain::Versions(count as u64), count),
        // The clock goes on by a second with each.
        false => (Retain::Duration(Duration::from_secs(count as u64)), count),
    }
}

/// Pages that are lost, or will be as soon as the history does not reach them any more: a crash has
/// left them. A close takes time, so it may make the former of the latter.
fn of_nobody(db: &Database) -> usize {
    let report = db.check(Some(&|one: &[u8], other: &[u8]| one.cmp(other))).unwrap();
    assert!(report.faults.is_empty(), "{:#?}", report.faults);
    report.lost.len() + report.unlisted.len()
}

fn run(seed: u64, rounds: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let options = drawn_options(&mut rng);
    let (drawn, mut least) = drawn_retain(&mut rng);
    let mut memory = Memory::default();
    let mut db = memory.create(options.clone()).unwrap();
    let version = retain(&db, drawn);
    // A transaction that is rolled back after its first step has looked at the clock.
    let mut is_counted = matches!(drawn, Retain::Versions(_));
    let mut states: States = vec![(version, Model::default())];
    let mut model = Model::default();
    for round in 0..rounds {
        let about = format!("seed {seed}, round {round}, {drawn:?}, {options:?}");
        let crashes = rng.u8(..3) == 0;
        if crashes {
            memory.fail_after(rng.usize(1..80));
        }
        let mut after = None;
        let mut failed = false;
        for _ in 0..rng.usize(1..30) {
            let before = model.clone();
            let mut is_committing = false;
            match transaction(&mut rng, &db, &mut model, &mut is_committing, is_counted) {
                Ok(()) if is_committing => {
                    note(&db, &mut states, &model);
                }
                Ok(()) => {}
                Err(error) if !crashes => panic!("{about}: {error}"),
                Err(_) => {
                    after = is_committing.then(|| model.clone());
                    model = before;
                    failed = true;
                    break;
                }
            }
            if !crashes && rng.u8(..8) == 0 {
                compare(&mut rng, &db, &mut states, least, &about);
            }
        }
        if crashes {
            if !is_counted {
                // A second went to the transaction that failed.
                least = least.saturating_sub(1);
            }
            drop(db);
            let kept = rng.choice([0, 10, 50, 90, 100]).unwrap();
            memory = memory.crash(|| rng.u8(..100) < kept);
            db = memory.open(options.clone()).unwrap();
            if let Some(after) = after.filter(|_| failed)
                && after != model
                && is_as(&db.begin_read().unwrap(), &after)
            {
                // Each transaction has a mark, so the newest says which number it had.
                states.push((db.history().unwrap().marks.last().unwrap().version, after.clone()));
                model = after;
            }
        } else {
            match rng.u8(..8) {
                0 => {
                    let to = states[rng.usize(..states.len())].0;
                    db.prune(to).unwrap();
                    assert!(db.history().unwrap().from >= to, "{about}");
                    least = 1;
                }
                1 => {
                    let (next, count) = drawn_retain(&mut rng);
                    retain(&db, next);
                    least = least.min(count);
                    if is_counted && matches!(next, Retain::Duration(_)) {
                        // Some of these seconds went to transactions that never were.
                        (is_counted, least) = (false, 1);
                    }
                }
                2 => {
                    retain(&db, Retain::Off);
                    let version = retain(&db, drawn);
                    is_counted = matches!(drawn, Retain::Versions(_));
                    states = vec![(version, model.clone())];
                    least = 1;
                }
                3 => drop(db.reclaim().unwrap()),
                _ => {}
            }
            // These transactions are versions, too.
            note(&db, &mut states, &model);
            match rng.u8(..3) {
                0 => {
                    let before = of_nobody(&db);
                    db.close().unwrap();
                    db = memory.open(options.clone()).unwrap();
                    note(&db, &mut states, &model);
                    assert_eq!(of_nobody(&db), before, "{about}");
                }
                1 => {
                    drop(db);
                    db = memory.open(options.clone()).unwrap();
                }
                _ => {}
            }
        }
        check(&db.begin_read().unwrap(), &model, &about);
        compare(&mut rng, &db, &mut states, least, &about);
        sound(&db, &about);
        if rng.u8(..3) == 0 {
            db.reclaim().unwrap();
            assert_eq!(sound(&db, &about), 0, "{about}");
        }
    }
}

#[test]
fn retained_versions_hold_what_they_held_after_closes_crashes_and_prunes() {
    let seeds = std::env::var("ONEFLUSH_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(20) {
        run(seed, 30);
    }
}

/// Pages, commit blocks and flushes of single inserts, and the bytes of the file.
fn costs(options: Options, retained: Option<Retain>) -> ([u64; 3], usize) {
    let (memory, db, tree) = with_tree(options);
    if let Some(retained) = retained {
        retain(&db, retained);
    }
    put(&db, tree, -1, b"first");
    let counters = db.counters();
    let counts = || {
        [&counters.pages, &counters.blocks, &counters.flushes].map(|counter| counter.load(Relaxed))
    };
    let before = counts();
    for key in 0..20 {
        put(&db, tree, key, b"a row");
    }
    let after = counts();
    (std::array::from_fn(|index| after[index] - before[index]), memory.bytes().len())
}

#[test]
fn without_a_history_nothing_is_written_for_it_and_no_time_is_asked_for() {
    let mut options = Options::default();
    options.clock = || panic!("nobody needs the time");
    let off = costs(options.clone(), None);
    assert_eq!(off.0, [20, 0, 20]);
    assert_eq!(costs(options, Some(Retain::Off)), off);
    // With one, transactions of one page stay so within a second.
    let mut options = Options::default();
    options.clock = || clock::at(5_000_000);
    assert_eq!(costs(options.clone(), Some(Retain::Versions(10))), off);
    // A mark is a page and a commit block more, and no flush.
    options.clock = clock::now;
    assert_eq!(costs(options, Some(Retain::Versions(10))).0, [40, 20, 20]);
}

#[test]
fn each_time_shows_what_was_committed_by_then() {
    let (_, db, tree) = with_tree(options_of(4096));
    clock::set(10_000, 0);
    retain(&db, Retain::Duration(Duration::from_secs(3600)));
    let mut commits = vec![(10_000, db.data_version())];
    let mut rng = fastrand::Rng::with_seed(3);
    let mut now = 10_000;
    for key in 0..200 {
        now += rng.choice([1, 20, 400, 1000, 2500]).unwrap();
        clock::set(now, 0);
        commits.push((now, put(&db, tree, key, b"row")));
    }
    let at = |ms: u64| db.begin_read_at_time(clock::at(ms)).map(|reader| reader.version());
    for ms in (10_000..now + 3000).step_by(97) {
        let newest = |ms: u64| commits[commits.partition_point(|&(time, _)| time <= ms) - 1].1;
        let found = at(ms).unwrap();
        assert!(found <= newest(ms), "{ms}: {found} was committed later");
        assert!(found >= newest(ms.saturating_sub(1000).max(10_000)), "{ms}: {found} is too old");
    }
    assert_eq!(at(u64::MAX / 2).unwrap(), db.data_version());
    assert!(matches!(at(9_999), Err(Error::TimeNotKept { asked_ms: 9_999, from_ms: 10_000 })));
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
    assert!(matches!(db.begin_read_at_time(before_1970), Err(Error::TimeNotKept { .. })));
    let history = db.history().unwrap();
    assert_eq!((history.from, history.to), (commits[0].1, db.data_version()));
    assert!(history.marks.windows(2).all(|pair| pair[0].time_ms + 1000 <= pair[1].time_ms));
}

#[test]
fn a_clock_that_is_set_back_makes_no_time_go_back() {
    let (memory, db, tree) = with_tree(options_of(512));
    clock::set(50_000, 0);
    retain(&db, Retain::Duration(Duration::from_secs(10)));
    clock::set(60_000, 0);
    let late = put(&db, tree, 1, b"late");
    clock::set(20_000, 1000);
    for key in 2..30 {
        put(&db, tree, key, b"the clock was set back");
    }
    drop(db);
    let db = memory.open(options_of(512)).unwrap();
    // The first of an opening has a mark whatever the time is.
    put(&db, tree, 30, b"in the next opening");
    let history = db.history().unwrap();
    assert!(history.marks.windows(2).all(|pair| pair[0].time_ms <= pair[1].time_ms));
    assert_eq!(history.marks.iter().map(|mark| mark.time_ms).max(), Some(60_000));
    assert_eq!(db.begin_read_at(late).unwrap().get(tree, 2).unwrap(), None);
    clock::set(70_001, 1000);
    put(&db, tree, 31, b"as late as before");
    assert!(db.history().unwrap().from >= late);
}

#[test]
fn versions_that_are_not_kept_or_never_were_are_an_error() {
    let (_, db, tree) = with_tree(options_of(512));
    let first = put(&db, tree, 1, b"one");
    let current = db.data_version();
    assert!(db.begin_read_at(current).is_ok());
    for asked in [Version(0), first.previous(), current.next(), Version::MAX] {
        let refused = db.begin_read_at(asked).map(|reader| reader.version());
        assert!(matches!(refused, Err(Error::NotKept { .. })), "{asked}: {refused:?}");
    }
    assert!(matches!(db.begin_read_at_time(SystemTime::now()), Err(Error::NoHistory)));
    assert!(matches!(db.prune(current), Err(Error::NoHistory)));
    assert_eq!(db.history().unwrap().marks, []);
    let mut txn = db.begin_write().unwrap();
    assert!(matches!(txn.set_retain(Retain::Versions(0)), Err(Error::Misuse { .. })));
    txn.set_retain(Retain::Versions(3)).unwrap();
    let begun = txn.commit().unwrap();
    assert!(matches!(db.begin_read_at(current), Err(Error::NotKept { .. })));
    for key in 2..10 {
        put(&db, tree, key, b"more");
    }
    let history = db.history().unwrap();
    assert_eq!((history.retain, history.to), (Retain::Versions(3), db.data_version()));
    assert_eq!(history.from.0, history.to.0 - 2);
    assert!(history.from > begun && db.begin_read_at(begun).is_err());
    // An older reader keeps its version, and for itself alone.
    let oldest = db.begin_read_at(history.from).unwrap();
    put(&db, tree, 10, b"more");
    assert!(db.begin_read_at(oldest.version()).is_err());
    assert_eq!(oldest.get(tree, 9).unwrap(), None);
}

#[test]
fn pages_that_a_history_needs_are_kept_by_a_close_and_used_again_later() {
    let mut options = options_of(512);
    options.pages_max = 6000;
    let (memory, mut db, tree) = with_tree(options.clone());
    retain(&db, Retain::Versions(40));
    let mut rng = fastrand::Rng::with_seed(9);
    let mut rows = std::collections::BTreeMap::new();
    let mut states = Vec::new();
    // Many times the pages that the file may have.
    for round in 0..40 {
        for _ in 0..30 {
            let mut txn = db.begin_write().unwrap();
            for _ in 0..4 {
                let (key, payload) = (rng.i64(0..200), vec![rng.u8(..); rng.usize(..1500)]);
                txn.insert(tree, key, &payload).unwrap();
                rows.insert(key, payload);
            }
            states.push((txn.commit().unwrap(), rows.clone()));
        }
        let (version, then) = &states[states.len() - 1 - rng.usize(..30)];
        assert_eq!(sound(&db, "before the close"), 0, "round {round}");
        db.close().unwrap();
        db = memory.open(options.clone()).unwrap();
        assert_eq!(sound(&db, "after the close"), 0, "round {round}");
        let reader = db.begin_read_at(*version).unwrap();
        for key in 0..200 {
            assert!(reader.get(tree, key).unwrap().as_ref() == then.get(&key), "{round} {key}");
        }
    }
    retain(&db, Retain::Off);
    put(&db, tree, 1, b"one");
    put(&db, tree, 2, b"two");
    assert_eq!(db.check(None).unwrap().history_pages, 0);
}

#[test]
fn a_stale_reader_cannot_keep_garbage_for_ever() {
    let mut options = options_of(512);
    options.reader_limit_pages = 50;
    let (_, db, tree) = with_tree(options);
    let stale = db.begin_read().unwrap();
    let mut rounds = 0;
    let refused = loop {
        let begun = db.begin_write();
        let mut txn = match begun {
            Ok(txn) => txn,
            Err(error) => break error,
        };
        txn.insert(tree, 1, &[7; 2000]).unwrap();
        txn.commit().unwrap();
        rounds += 1;
        assert!(rounds < 100);
    };
    assert!(refused.is_busy(), "{refused}");
    let text = refused.to_string();
    let version = format!("version {} ", stale.version());
    assert!(text.contains(&version) && text.contains("reader_limit_pages (50)"), "{text}");
    assert!(rounds > 5, "{rounds}");
    drop(stale);
    put(&db, tree, 1, b"the reader has ended");
    // What a history keeps is no reader's.
    retain(&db, Retain::Versions(1000));
    let reader = db.begin_read().unwrap();
    for _ in 0..100 {
        put(&db, tree, 1, &[7; 2000]);
    }
    assert_eq!(reader.get(tree, 1).unwrap().as_deref(), Some(&b"the reader has ended"[..]));
}

#[test]
fn a_long_history_makes_no_tree_higher_and_higher() {
    let (_, db, tree) = with_tree(options_of(512));
    retain(&db, Retain::Versions(1 << 40));
    let mut versions = Vec::new();
    for round in 0..6000_u32 {
        let mut txn = db.begin_write().unwrap();
        // The catalog changes each time, and a table is emptied and filled again.
        txn.set_meta(1, round).unwrap();
        let key = i64::from(round);
        match round % 2 {
            0 => drop(txn.insert(tree, key, &[7; 100]).unwrap()),
            _ => assert!(txn.delete(tree, key - 1).unwrap()),
        }
        versions.push(txn.commit().unwrap());
    }
    for round in (0..6000).step_by(397) {
        let reader = db.begin_read_at(versions[round]).unwrap();
        assert_eq!(reader.meta().unwrap()[1], round as u32);
        let expected = (round % 2 == 0).then(|| vec![7; 100]);
        assert_eq!(reader.get(tree, round as i64).unwrap(), expected, "{round}");
    }
    sound(&db, "after all");
}
