//! Pages with any byte changed, and checksums that are right again.

use oneflush_mvbt::{Database, Options, Probe, Read, Result, TreeId};

use crate::common::Memory;
use crate::common::forge::PAGES_AT;

const PAGE_BYTES: usize = 512;

fn number(page: &[u8], at: usize, bytes: usize) -> usize {
    (0..bytes).rev().fold(0, |sum, index| sum << 8 | page[at + index] as usize)
}

fn varint(page: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = *page.get(*at)?;
        *at += 1;
        value |= (byte as usize & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn cell(page: &[u8], at: usize, is_record: bool, is_inner: bool) -> Option<&[u8]> {
    let mut to = at + if is_inner { 12 } else { 6 };
    let length = if is_record || !is_inner { varint(page, &mut to)? } else { 0 };
    if !is_record {
        varint(page, &mut to)?;
    }
    let room = page.len() - 80;
    let local = if length <= room / 2 - 37 { length } else { room / 8 };
    page.get(at..to + local + if local < length { 6 } else { 0 })
}

/// Makes the checksum of a slot right. None: the page is none, or lists what cannot be.
fn seal(page: &mut [u8], uuid: &[u8], slot: usize) -> Option<()> {
    let (at, live, dead) =
        (number(page, slot + 16, 2), number(page, slot + 18, 2), number(page, slot + 20, 2));
    let rows = page.get(at..at + 2 * live + 10 * dead)?;
    let mut sum = crc32c::crc32c(uuid);
    sum = crc32c::crc32c_append(sum, &page[..16]);
    sum = crc32c::crc32c_append(sum, &page[slot..slot + 28]);
    sum = crc32c::crc32c_append(sum, rows);
    let places = (0..live).map(|n| at + 2 * n).chain((0..dead).map(|n| at + 2 * live + 10 * n));
    for place in places {
        let (is_record, is_inner) = (page[slot + 6] & 4 != 0, page[slot + 7] > 0);
        let cell = cell(page, number(page, place, 2), is_record, is_inner)?;
        sum = crc32c::crc32c_append(sum, cell);
    }
    page[slot + 28..slot + 32].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

fn seal_overflow(page: &mut [u8], uuid: &[u8]) -> Option<()> {
    let length = number(page, 12, 4);
    let mut sum = crc32c::crc32c(uuid);
    sum = crc32c::crc32c_append(sum, &page[..32]);
    sum = crc32c::crc32c_append(sum, page.get(36..36 + length)?);
    page[32..36].copy_from_slice(&sum.to_le_bytes());
    Some(())
}

/// A file with several trees, rows of all lengths, and dead cells.
fn file(rng: &mut fastrand::Rng) -> (Vec<u8>, Vec<TreeId>, Vec<TreeId>) {
    let mut options = Options::default();
    options.page_bytes = PAGE_BYTES;
    let memory = Memory::default();
    let db = memory.create(options).unwrap();
    let (mut integers, mut records) = (Vec::new(), Vec::new());
    let mut readers = Vec::new();
    for round in 0..12 {
        let mut txn = db.begin_write().unwrap();
        if round < 2 {
            integers.push(txn.create_tree(false).unwrap());
            records.push(txn.create_tree(true).unwrap());
        }
        operations(rng, &mut txn, &integers, &records).unwrap();
        txn.commit().unwrap();
        readers.push(db.begin_read().unwrap());
    }
    drop(readers);
    if rng.bool() {
        db.close().unwrap();
    }
    (memory.bytes(), integers, records)
}

fn operations(
    rng: &mut fastrand::Rng,
    txn: &mut oneflush_mvbt::WriteTransaction,
    integers: &[TreeId],
    records: &[TreeId],
) -> Result<()> {
    for _ in 0..20 {
        let length = if rng.u8(..8) == 0 { rng.usize(..2000) } else { rng.usize(..60) };
        let key = rng.u8(..200);
        let mut record = vec![key];
        record.resize(1 + length, 7);
        let (tree, records) =
            (rng.choice(integers.iter()).unwrap(), rng.choice(records.iter()).unwrap());
        let compare = |stored: &[u8]| stored.cmp(&record[..]);
        match rng.u8(..8) {
            0 | 1 => drop(txn.delete(*tree, i64::from(key))?),
            2 => drop(txn.delete_record(*records, &compare)?),
            3 | 4 => drop(txn.insert_record(*records, &record, &compare)?),
            _ => drop(txn.insert(*tree, i64::from(key), &record)?),
        }
    }
    Ok(())
}

/// All that can be asked for. Answers are as they are.
fn ask(rng: &mut fastrand::Rng, db: &Database, integers: &[TreeId], records: &[TreeId]) {
    let old = db.begin_read().unwrap();
    let _ = db.check(Some(&|one, other| one.cmp(other)));
    let walk = |read: &dyn Read, tree: TreeId| -> Result<()> {
        let source = read.source();
        let mut cursor = read.cursor(tree)?;
        cursor.seek(source, Probe::First)?;
        for _ in 0..300 {
            let _ = cursor.payload(source);
            let _ = cursor.integer_key(source);
            cursor.next(source)?;
        }
        cursor.last(source)?;
        for _ in 0..300 {
            let _ = cursor.payload(source);
            cursor.previous(source)?;
        }
        Ok(())
    };
    for round in 0..5 {
        let reader = db.begin_read().unwrap();
        let trees: Vec<TreeId> = integers.iter().chain(records).copied().collect();
        for tree in &trees {
            let _ = walk(&reader, *tree);
            let _ = walk(&old, *tree);
        }
        let _ = reader.trees();
        let Ok(mut txn) = db.begin_write() else { return };
        let savepoint = txn.savepoint();
        let _ = operations(rng, &mut txn, integers, records);
        if rng.bool() {
            let _ = txn.roll_back_to(savepoint);
        }
        let _ = txn.create_tree(rng.bool());
        if round == 3 {
            let tree = rng.choice(&trees).unwrap();
            let _ = if rng.bool() { txn.drop_tree(*tree) } else { txn.clear_tree(*tree).map(drop) };
        }
        let _ = txn.commit();
    }
    let _ = db.reclaim();
}

#[test]
fn a_changed_byte_under_a_right_checksum_is_no_panic() {
    let seeds = std::env::var("ONEFLUSH_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(3) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (bytes, integers, records) = file(&mut rng);
        let uuid = bytes[24..40].to_vec();
        for change in 0..40 {
            let mut bytes = bytes.clone();
            for _ in 0..rng.usize(1..4) {
                let count = (bytes.len() - PAGES_AT) / PAGE_BYTES;
                let at = PAGES_AT + PAGE_BYTES * rng.usize(..count.min(60));
                let page = &mut bytes[at..at + PAGE_BYTES];
                let slot = 16 + 32 * rng.usize(..2);
                let (from, live) = (number(page, slot + 16, 2), number(page, slot + 18, 2));
                let dead = number(page, slot + 20, 2);
                // In the slot, the directory, a cell that it lists, or anywhere.
                let changed = match rng.u8(..4) {
                    0 => slot + rng.usize(..24),
                    1 if live + dead > 0 => from + rng.usize(..2 * live + 10 * dead),
                    2 if live > 0 => {
                        let place = from + 2 * rng.usize(..live);
                        if place + 2 > PAGE_BYTES {
                            continue;
                        }
                        number(page, place, 2) + rng.usize(..20)
                    }
                    _ => 8 + rng.usize(..PAGE_BYTES - 8),
                };
                if changed >= PAGE_BYTES {
                    continue;
                }
                let small = page[changed].wrapping_add(rng.u8(..3)).wrapping_sub(1);
                page[changed] = if rng.bool() { small } else { rng.u8(..) };
                if number(page, 12, 4) > 0 {
                    let _ = seal_overflow(page, &uuid);
                } else {
                    let _ = [16, 48].map(|slot| seal(page, &uuid, slot));
                }
            }
            let db = Memory::of(bytes).open(Options::default());
            let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if let Ok(db) = &db {
                    ask(&mut rng, db, &integers, &records);
                }
            }));
            assert!(asked.is_ok(), "seed {seed}, change {change}");
        }
    }
}
