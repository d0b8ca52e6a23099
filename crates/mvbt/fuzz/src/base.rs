//! Sound databases to begin with: trees of both kinds, long payloads, dead cells, free pages.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use oneflush_mvbt::{Database, Options, Result};

use crate::memory::Memory;

/// Anchors and commit blocks stand before it.
pub const PAGES_AT: usize = 40_960;
/// What was done last with a base.
const ENDS: [End; 4] = [End::Closed, End::Open, End::Old, End::Void];

#[derive(Clone, Copy, PartialEq)]
enum End {
    Closed,
    /// The process died.
    Open,
    /// The same, while a reader kept old cells in the pages.
    Old,
    /// The same, and a transaction that had written pages early was rolled back.
    Void,
}

pub struct Base {
    pub bytes: Vec<u8>,
    pub page_bytes: usize,
}

impl Base {
    /// Any number chooses one.
    pub fn choose(number: u8) -> &'static Base {
        static BASES: OnceLock<Vec<Base>> = OnceLock::new();
        let bases = BASES.get_or_init(|| {
            // Small files are tried the fastest.
            let small = ENDS.map(|end| (512, end)).into_iter().chain([(4096, End::Old)]);
            let all = small.chain([(65_536, End::Open)]);
            all.map(|(size, end)| Base::make(size, end).expect("a sound database")).collect()
        });
        &bases[usize::from(number) % bases.len()]
    }

    fn make(page_bytes: usize, end: End) -> Result<Base> {
        let memory = Arc::new(Memory::default());
        let mut options = Options::default();
        options.page_bytes = page_bytes;
        options.spill_bytes = 4 * page_bytes;
        let db = Database::create_on(memory.clone(), PathBuf::from("a.mvbt"), options)?;
        let mut txn = db.begin_write()?;
        let (rows, records) = (txn.create_tree(false)?, txn.create_tree(true)?);
        for key in 0..60 {
            txn.insert(rows, key, &[key as u8; 20])?;
            let record = [b'a', key as u8, 0, 0, 0, 0, 0, 0];
            txn.insert_record(records, &record, &|stored| stored.cmp(&record[..]))?;
        }
        txn.insert(rows, 70, &vec![7; 3 * page_bytes])?;
        let long = vec![b'x'; 2 * page_bytes];
        txn.insert_record(records, &long, &|stored| stored.cmp(&long[..]))?;
        txn.set_meta(0, 5)?;
        txn.commit()?;
        let reader = (end == End::Old).then(|| db.begin_read().unwrap());
        for round in 0..3 {
            let mut txn = db.begin_write()?;
            for key in 0..20 {
                txn.delete(rows, key * 3 + round)?;
                txn.insert(rows, key * 2, &[round as u8; 24])?;
            }
            txn.commit()?;
        }
        if end == End::Void {
            let mut txn = db.begin_write()?;
            for key in 0..60 {
                txn.insert(rows, key, &vec![9; page_bytes / 4])?;
            }
            txn.rollback()?;
        }
        drop(reader);
        match end {
            End::Closed => db.close()?,
            End::Open | End::Old | End::Void => drop(db),
        }
        let bytes = memory.0.lock().unwrap().clone();
        Ok(Base { bytes, page_bytes })
    }
}
