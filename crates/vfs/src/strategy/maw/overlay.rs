//! What a transaction has changed of the database file, before its commit (rule 4 of `maw`).
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. The file below is as it was before the transaction.
//! 2. A *unit* is as long as a page. A unit that is here is here whole, up to the overlay's size.
//! 3. Bytes from `kept` on are not read from the file below. A truncation took them away. What is
//!    not here from there on is zeros.

use std::collections::BTreeMap;

use crate::error::Code;
use crate::port::Below;
use crate::strategy::guard;

#[derive(Default)]
pub struct Overlay {
    unit_bytes: u64,
    /// By its number, from 0.
    units: BTreeMap<u64, Box<[u8]>>,
    /// The sizes of the file, before and now. `None`: the transaction has changed nothing.
    sizes: Option<Sizes>,
}

#[derive(Clone, Copy)]
struct Sizes {
    before: u64,
    now: u64,
    kept: u64,
}

/// A transaction's changes: they become durable all together or not at all.
pub struct Batch<'a> {
    pub unit_bytes: u64,
    /// By offset, in order. Each unit is whole.
    pub units: &'a BTreeMap<u64, Box<[u8]>>,
    pub size_bytes_before: u64,
    pub size_bytes: u64,
}

impl Batch<'_> {
    /// Each unit with its offset.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.units.iter().map(|(&number, unit)| (number * self.unit_bytes, &unit[..]))
    }

    /// How many pages the database has after the commit. SQLite cuts the file later to what page 1
    /// says ("In-header database size").
    pub fn database_pages(&self) -> u64 {
        let of_file = self.size_bytes.div_ceil(self.unit_bytes);
        let of_header = self.page(1).and_then(|page| page.get(28..32)?.try_into().ok());
        match of_header.map(u32::from_be_bytes) {
            Some(pages) if pages > 0 => of_file.min(pages.into()),
            _ => of_file,
        }
    }

    /// The part of a unit that lies before the end of the file.
    pub fn inside<'a>(&self, offset: u64, unit: &'a [u8]) -> &'a [u8] {
        let there = self.size_bytes.saturating_sub(offset).min(unit.len() as u64);
        &unit[..there as usize]
    }

    /// Where the last unit ends.
    pub fn end_bytes(&self) -> u64 {
        self.units.last_key_value().map_or(0, |(&number, _)| (number + 1) * self.unit_bytes)
    }

    /// A page's contents, if the batch has it. Pages are counted from 1.
    pub fn page(&self, page_no: u64) -> Option<&[u8]> {
        self.units.get(&page_no.checked_sub(1)?).map(|unit| &unit[..])
    }
}

impl Overlay {
    pub fn is_empty(&self) -> bool {
        self.sizes.is_none()
    }

    /// The length of its units. `None`: there is none yet.
    pub fn unit_bytes(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.unit_bytes)
    }

    /// Bytes of memory that the units take.
    pub fn bytes(&self) -> u64 {
        self.units.len() as u64 * self.unit_bytes
    }

    pub fn clear(&mut self) {
        *self = Overlay::default();
    }

    /// The size of the file as the transaction sees it. `None`: as it is below.
    pub fn size_bytes(&self) -> Option<u64> {
        self.sizes.map(|sizes| sizes.now)
    }

    /// What the file below lacks. `None`: nothing.
    pub fn batch(&mut self, below: &dyn Below) -> Result<Option<Batch<'_>>, Code> {
        let Some(sizes) = self.sizes else { return Ok(None) };
        // Invariant 3: the file below still has what a truncation took away.
        let behind_kept = sizes.kept..sizes.now.min(sizes.before);
        for number in behind_kept.start / self.unit_bytes..behind_kept.end.div_ceil(self.unit_bytes)
        {
            if !behind_kept.is_empty() && !self.units.contains_key(&number) {
                let mut unit = vec![0; self.unit_bytes as usize].into_boxed_slice();
                read_below(below, sizes.kept, &mut unit, number * self.unit_bytes)?;
                self.units.insert(number, unit);
            }
        }
        Ok(Some(Batch {
            unit_bytes: self.unit_bytes,
            units: &self.units,
            size_bytes_before: sizes.before,
            size_bytes: sizes.now,
        }))
    }

    /// True if reads of this range have to come here.
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        let Some(sizes) = self.sizes else { return false };
        let end = offset.saturating_add(len);
        end > sizes.kept.min(sizes.now)
            || self
                .units
                .range(offset / self.unit_bytes..end.div_ceil(self.unit_bytes))
                .next()
                .is_some()
    }

    /// Notes the first change. `unit_bytes` is the page size.
    fn begin(&mut self, below: &dyn Below, unit_bytes: u64) -> Result<&mut Sizes, Code> {
        if self.sizes.is_none() {
            let before = below.size_bytes()?;
            self.unit_bytes = unit_bytes;
            self.sizes = Some(Sizes { before, now: before, kept: before });
        }
        self.sizes.as_mut().ok_or(Code::IOERR_WRITE)
    }

    pub fn write(
        &mut self,
        below: &dyn Below,
        unit_bytes: u64,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Code> {
        self.begin(below, unit_bytes)?;
        let unit_bytes = self.unit_bytes;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (number, inside) = (at / unit_bytes, (at % unit_bytes) as usize);
            let part = (unit_bytes as usize - inside).min(data.len() - done);
            let unit = match self.units.entry(number) {
                std::collections::btree_map::Entry::Occupied(unit) => unit.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    let mut unit = vec![0; unit_bytes as usize].into_boxed_slice();
                    // Invariant 2: what is not written here comes from below.
                    if part < unit.len()
                        && let Some(sizes) = self.sizes
                    {
                        read_below(below, sizes.kept, &mut unit, number * unit_bytes)?;
                    }
                    place.insert(unit)
                }
            };
            unit[inside..inside + part].copy_from_slice(&data[done..done + part]);
            done += part;
        }
        if let Some(sizes) = &mut self.sizes {
            sizes.now = sizes.now.max(offset + data.len() as u64);
        }
        Ok(())
    }

    pub fn truncate(
        &mut self,
        below: &dyn Below,
        unit_bytes: u64,
        size_bytes: u64,
    ) -> Result<(), Code> {
        let sizes = self.begin(below, unit_bytes)?;
        sizes.now = size_bytes;
        // Invariant 3.
        sizes.kept = sizes.kept.min(size_bytes);
        let unit_bytes = self.unit_bytes;
        self.units.split_off(&size_bytes.div_ceil(unit_bytes));
        let inside = (size_bytes % unit_bytes) as usize;
        if inside > 0
            && let Some(unit) = self.units.get_mut(&(size_bytes / unit_bytes))
        {
            unit[inside..].fill(0);
        }
        Ok(())
    }

    /// Reads what the transaction sees.
    pub fn read(&self, below: &dyn Below, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let Some(sizes) = self.sizes else { return below.read(buffer, offset) };
        let there = sizes.now.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (there, behind) = buffer.split_at_mut(there);
        behind.fill(0);
        let mut done = 0;
        while done < there.len() {
            let at = offset + done as u64;
            let (number, inside) = (at / self.unit_bytes, (at % self.unit_bytes) as usize);
            let part = (self.unit_bytes as usize - inside).min(there.len() - done);
            let into = &mut there[done..done + part];
            match self.units.get(&number) {
                Some(unit) => into.copy_from_slice(&unit[inside..inside + part]),
                None => read_below(below, sizes.kept, into, at)?,
            }
            done += part;
        }
        if behind.is_empty() { Ok(()) } else { Err(Code::SHORT_READ) }
    }
}

/// Reads from the file below, where only the bytes before `kept` count.
fn read_below(below: &dyn Below, kept: u64, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
    let there = kept.saturating_sub(offset).min(buffer.len() as u64) as usize;
    let (there, behind) = buffer.split_at_mut(there);
    behind.fill(0);
    if there.is_empty() {
        return Ok(());
    }
    match guard::read(below, there, offset) {
        // The file has become shorter since. The rest of the buffer is zeros.
        Err(Code::SHORT_READ) => Ok(()),
        read => read,
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_wal::Wal;

    const UNIT: u64 = 512;

    fn file(bytes: &[u8]) -> Wal {
        let file = Wal::default();
        file.write(bytes, 0).unwrap();
        file
    }

    fn all(overlay: &Overlay, below: &dyn Below) -> Vec<u8> {
        let size_bytes = overlay.size_bytes().unwrap_or(below.size_bytes().unwrap());
        let mut bytes = vec![7; size_bytes as usize];
        overlay.read(below, &mut bytes, 0).unwrap();
        bytes
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write { offset: usize, data: Vec<u8> },
        Truncate(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let data = proptest::collection::vec(any::<u8>(), 1..1200);
        let write = (0_usize..6000, data).prop_map(|(offset, data)| Step::Write { offset, data });
        let step = prop_oneof![3 => write, 1 => (0_usize..6000).prop_map(Step::Truncate)];
        proptest::collection::vec(step, 0..12)
    }

    proptest! {
        /// The overlay is to the transaction what the file would be, and the file stays as it was.
        #[test]
        fn a_transaction_sees_a_file_with_its_changes(
            before in proptest::collection::vec(any::<u8>(), 0..4000),
            steps in steps(),
        ) {
            let below = file(&before);
            let (mut overlay, mut model) = (Overlay::default(), before.clone());
            for step in steps {
                match step {
                    Step::Write { offset, data } => {
                        overlay.write(&below, UNIT, &data, offset as u64).unwrap();
                        model.resize(model.len().max(offset + data.len()), 0);
                        model[offset..offset + data.len()].copy_from_slice(&data);
                    }
                    Step::Truncate(size) => {
                        overlay.truncate(&below, UNIT, size as u64).unwrap();
                        model.resize(size, 0);
                    }
                }
                prop_assert_eq!(&all(&overlay, &below), &model);
            }
            let mut now = vec![0; before.len()];
            below.read(&mut now, 0).unwrap();
            prop_assert_eq!(&now, &before);
            // What is not covered may be read from the file below.
            for offset in (0..model.len() as u64).step_by(100) {
                let len = 100.min(model.len() as u64 - offset);
                if !overlay.covers(offset, len) {
                    let range = offset as usize..(offset + len) as usize;
                    prop_assert_eq!(&before[range.clone()], &model[range]);
                }
            }
            // The batch makes the file below what the transaction sees.
            if let Some(batch) = overlay.batch(&below).unwrap() {
                prop_assert_eq!(batch.size_bytes_before, before.len() as u64);
                for (offset, unit) in batch.writes() {
                    let len = (batch.size_bytes - offset).min(unit.len() as u64) as usize;
                    below.write(&unit[..len], offset).unwrap();
                }
                below.truncate(batch.size_bytes).unwrap();
                let mut now = vec![0; model.len()];
                below.read(&mut now, 0).unwrap();
                prop_assert_eq!(now, model);
            }
        }
    }

    #[test]
    fn a_read_behind_the_end_is_short() {
        let below = file(&[1; 1024]);
        let mut overlay = Overlay::default();
        overlay.truncate(&below, UNIT, 600).unwrap();
        let mut buffer = [9; 512];
        assert_eq!(overlay.read(&below, &mut buffer, 512), Err(Code::SHORT_READ));
        assert_eq!((&buffer[..88], &buffer[88..]), (&[1; 88][..], &[0; 424][..]));
    }
}
