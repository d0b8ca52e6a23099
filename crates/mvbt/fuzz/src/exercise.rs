//! What is done with a file. Whatever it says, there is an answer or an error.

use std::path::PathBuf;
use std::sync::Arc;

use oneflush_mvbt::{
    Database, Options, PageNo, PageRef, Probe, Read, Result, TreeId, Version, WriteTransaction,
};

use crate::memory::Memory;
use crate::program::{File, Input};

/// So many payloads are read of each tree.
const PAYLOADS_MAX: u64 = 64;
const TREES_MAX: usize = 8;

pub fn open(memory: &Arc<Memory>, options: Options) -> Result<Database> {
    Database::open_on(memory.clone(), PathBuf::from("a.mvbt"), options)
}

/// Each page that the program has changed, as several versions see it.
pub fn look_at_pages(file: File) {
    let page_bytes = file.page_bytes;
    let memory = Arc::new(Memory::default());
    *memory.0.lock().unwrap() = file.bytes;
    let Ok(db) = open(&memory, Options::default()) else { return };
    let Ok(reader) = db.begin_read() else { return };
    for no in file.changed.into_iter().map(PageNo) {
        let source = reader.source();
        if let Ok((payload, _)) = source.overflow(no) {
            assert!(payload.len() < page_bytes);
        }
        let Ok(page) = source.page(no) else { continue };
        look_at(&page, page_bytes);
        if let PageRef::At(image, version) = page {
            look_at(&PageRef::Newest(image.clone()), page_bytes);
            for older in 1..version.0.min(12) {
                look_at(&PageRef::At(image.clone(), Version(older)), page_bytes);
            }
        }
    }
}

fn look_at(page: &PageRef<'_>, page_bytes: usize) {
    let Ok(view) = page.view() else { return };
    let mut bytes = 0;
    for index in 0..view.len() {
        let cell = view.cell(index);
        bytes += cell.bytes.len();
        assert!(cell.content.local.len() as u64 <= cell.content.length);
        if !view.shape.is_record {
            assert_eq!(view.integer_key(index), cell.key);
        }
    }
    assert!(bytes <= page_bytes);
}

/// Opens it, looks at it, reads and changes it, and does so again.
pub fn use_it(file: File, input: &mut Input<'_>) {
    let memory = Arc::new(Memory::default());
    *memory.0.lock().unwrap() = file.bytes;
    for _ in 0..2 {
        let mut options = Options::default();
        let what = input.byte();
        options.lazy_split = what & 1 == 0;
        options.metadata_embedding = what & 2 == 0;
        if what & 4 != 0 {
            options.spill_bytes = 3 * file.page_bytes;
        }
        options.cache_bytes = 64 * file.page_bytes;
        options.pages_max = 4096;
        let Ok(db) = open(&memory, options) else { return };
        let _ = db.check(Some(&|one, other| one.cmp(other)));
        let Ok(old) = db.begin_read() else { return };
        let _ = read_all(&old, db.page_bytes());
        for _ in 0..input.byte() % 4 {
            let _ = write(&db, input);
        }
        let _ = read_all(&old, db.page_bytes());
        drop(old);
        if let Ok(reader) = db.begin_read() {
            let _ = read_all(&reader, db.page_bytes());
        }
        let _ = db.reclaim();
        if what & 8 != 0 {
            let _ = db.close();
        }
    }
}

fn read_all(reader: &dyn Read, page_bytes: usize) -> Result<()> {
    let _ = reader.meta();
    for id in reader.trees()?.into_iter().take(TREES_MAX) {
        let _ = read_tree(reader, id, page_bytes, true);
        let _ = read_tree(reader, id, page_bytes, false);
    }
    Ok(())
}

fn read_tree(reader: &dyn Read, id: TreeId, page_bytes: usize, forward: bool) -> Result<()> {
    let source = reader.source();
    let mut cursor = reader.cursor(id)?;
    if forward {
        cursor.first(source)?
    } else {
        cursor.last(source)?
    }
    let mut cells = 0;
    while cursor.is_on_cell() {
        // The file has at most 4,096 pages, and a cell of a leaf at least 8 bytes.
        assert!(cells < 4096 * page_bytes as u64 / 8, "a scan without end");
        if cells < PAYLOADS_MAX {
            let _ = cursor.payload(source);
            let _ = cursor.payload_part(source, 3, &mut [0; 9]);
        }
        cells += 1;
        cursor.integer_key(source)?;
        if forward { cursor.next(source)? } else { cursor.previous(source)? }
    }
    Ok(())
}

fn write(db: &Database, input: &mut Input<'_>) -> Result<()> {
    let mut txn = db.begin_write()?;
    let trees = txn.trees()?;
    for _ in 0..input.byte() % 32 {
        let (what, key, length) = (input.byte(), i64::from(input.byte()), input.byte());
        let id = trees.get(usize::from(what >> 4)).copied().unwrap_or(TreeId(2));
        let long = if length > 250 { 5 * db.page_bytes() } else { usize::from(length) };
        let payload = vec![key as u8; long];
        let _ = match what & 15 {
            0..4 => txn.insert(id, key, &payload).map(drop),
            4..6 => txn.delete(id, key).map(drop),
            6..8 => txn.insert_record(id, &payload, &|stored| stored.cmp(&payload)).map(drop),
            8 => txn.delete_record(id, &|stored| stored.cmp(&payload)).map(drop),
            9 => {
                txn.savepoint();
                Ok(())
            }
            10 => txn.roll_back_to(usize::from(length % 4)),
            11 => {
                txn.release(usize::from(length % 4));
                Ok(())
            }
            12 if length > 128 => txn.clear_tree(id).map(drop),
            13 if length > 128 => txn.drop_tree(id),
            14 => txn.create_tree(length & 1 != 0).map(drop),
            _ => first_and_last(&mut txn, id),
        };
    }
    if input.byte() & 3 == 0 { txn.rollback() } else { txn.commit().map(drop) }
}

/// What a cursor in a transaction that writes finds at both ends, and one of them taken out.
fn first_and_last(txn: &mut WriteTransaction, id: TreeId) -> Result<()> {
    let mut cursor = txn.cursor(id)?;
    cursor.last(txn.source())?;
    cursor.previous(txn.source())?;
    cursor.seek(txn.source(), Probe::First)?;
    match cursor.integer_key(txn.source())? {
        Some(key) => txn.delete(id, key).map(drop),
        None => Ok(()),
    }
}
