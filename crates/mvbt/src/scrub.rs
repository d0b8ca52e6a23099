//! Directories of transactions that never were, taken out of their pages. Then no interval has to
//! say that they are void.

use std::collections::BTreeMap;

use crate::anchor::Anchor;
use crate::mutant::{self, Mutant};
use crate::page::slot::{self, Slot};
use crate::store::Store;
use crate::{Error, PageNo, Result};

/// So many pages are written between looks at the next ones.
const BATCH_PAGES: usize = 256;

/// Reads the whole file. Only slots that do not count are changed, so this can be interrupted.
pub fn forget_void_directories(store: &Store, anchor: &Anchor) -> Result<()> {
    let voids = anchor.voids();
    let mut changed: BTreeMap<PageNo, Box<[u8]>> = BTreeMap::new();
    for no in (1..).map(PageNo) {
        let mut page = match store.read_raw(no) {
            Ok(page) => page,
            Err(Error::Damaged { .. }) => break,
            Err(error) => return Err(error),
        };
        let is_void = |slot: &Slot| slot.is_multi && voids.holds(slot.version);
        let found: Vec<usize> = (0..2)
            .filter(|&index| Slot::read(&page, index, store.uuid).as_ref().is_some_and(is_void))
            .collect();
        if !found.is_empty() {
            found.into_iter().for_each(|index| slot::clear(&mut page, index));
            changed.insert(no, page);
        }
        if changed.len() >= BATCH_PAGES {
            store.write_pages(&changed)?;
            changed.clear();
        }
    }
    store.write_pages(&changed)?;
    if mutant::is(Mutant::ScrubUnflushed) { Ok(()) } else { store.flush() }
}
