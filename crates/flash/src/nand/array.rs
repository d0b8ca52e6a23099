//! The array itself: it keeps N1 to N4, and tears what it is told to.

use super::{Cell, Nand, NandError, Oob, Payload, Store};
use crate::geometry::{Block, Geometry, Page, Physical};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Erased,
    Programmed,
    Torn,
}

#[derive(Clone, Copy, Debug, Default)]
struct BlockState {
    programmed_pages: u32,
    half_erased: bool,
    erases: u32,
}

#[derive(Debug)]
pub struct Array {
    geometry: Geometry,
    store: Store,
    pages: Vec<State>,
    /// Of each unit, with whether its bytes are zeros that were never stored.
    units: Vec<Option<(Oob, bool)>>,
    blocks: Vec<BlockState>,
}

impl Array {
    pub fn new(geometry: Geometry, store: Store) -> Result<Array, NandError> {
        if let Store::File(file) = &store {
            file.set_len(geometry.physical_bytes())?;
        }
        let pages = (geometry.blocks * geometry.block_pages()) as usize;
        Ok(Array {
            geometry,
            store,
            pages: vec![State::Erased; pages],
            units: vec![None; geometry.physical_units() as usize],
            blocks: vec![BlockState::default(); geometry.blocks as usize],
        })
    }

    /// As [`Nand::program`], but power is lost in the middle of it.
    pub fn tear_program(&mut self, page: Page) -> Result<(), NandError> {
        self.begin_program(page)?;
        self.pages[page.0 as usize] = State::Torn;
        Ok(())
    }

    /// A page whose program other lanes have overtaken: power is lost before it has ended.
    pub fn tear_programmed(&mut self, page: Page) {
        if let Some(state @ State::Programmed) = self.pages.get_mut(page.0 as usize) {
            *state = State::Torn;
        }
    }

    /// As [`Nand::erase`], but power is lost in the middle of it.
    pub fn tear_erase(&mut self, block: Block) -> Result<(), NandError> {
        self.wipe(block, State::Torn)?;
        let state = &mut self.blocks[block.0 as usize];
        state.programmed_pages = self.geometry.block_pages();
        state.half_erased = true;
        Ok(())
    }

    fn begin_program(&mut self, page: Page) -> Result<(), NandError> {
        let state = self.pages.get(page.0 as usize).ok_or(NandError::Outside { number: page.0 })?;
        let block = self.geometry.block_of_page(page);
        if *state != State::Erased {
            return Err(NandError::NotErased { page: page.0, block: block.0 });
        }
        let of_block = &mut self.blocks[block.0 as usize];
        let next = self.geometry.page(block, of_block.programmed_pages);
        if page != next {
            return Err(NandError::OutOfOrder { page: page.0, block: block.0, next: next.0 });
        }
        of_block.programmed_pages += 1;
        Ok(())
    }

    fn wipe(&mut self, block: Block, to: State) -> Result<(), NandError> {
        let state = self.blocks.get_mut(block.0 as usize);
        let state = state.ok_or(NandError::Outside { number: block.0 })?;
        state.erases += 1;
        state.programmed_pages = 0;
        state.half_erased = false;
        let first = self.geometry.page(block, 0);
        for page in first.0..first.0 + self.geometry.block_pages() {
            self.pages[page as usize] = to;
        }
        let first = self.geometry.first_unit(first);
        for unit in first.0..first.0 + self.geometry.block_units() {
            if let Some((_, false)) = self.units[unit as usize].take() {
                self.store.forget(Physical(unit));
            }
        }
        Ok(())
    }

    fn state_of(&self, unit: Physical) -> Result<State, NandError> {
        let page = self.geometry.page_of(unit);
        self.pages.get(page.0 as usize).copied().ok_or(NandError::Outside { number: unit.0 })
    }
}

impl Nand for Array {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&mut self, unit: Physical) -> Result<Payload, NandError> {
        match (self.state_of(unit)?, self.units[unit.0 as usize]) {
            (State::Torn, _) => Err(NandError::Torn { unit: unit.0 }),
            (State::Erased, _) | (State::Programmed, None) => {
                Err(NandError::Erased { unit: unit.0 })
            }
            (State::Programmed, Some((_, true))) => Ok(None),
            (State::Programmed, Some((_, false))) => {
                let mut bytes = vec![0; self.geometry.shape.unit_bytes as usize];
                self.store.read(unit, &mut bytes)?;
                Ok(Some(bytes.into()))
            }
        }
    }

    fn oob(&self, unit: Physical) -> Result<Option<Oob>, NandError> {
        match self.state_of(unit)? {
            State::Torn => Err(NandError::Torn { unit: unit.0 }),
            State::Erased => Ok(None),
            State::Programmed => Ok(self.units[unit.0 as usize].map(|(oob, _)| oob)),
        }
    }

    fn program(&mut self, page: Page, cells: &[Cell]) -> Result<(), NandError> {
        let expected = self.geometry.page_units();
        if cells.len() != expected as usize {
            return Err(NandError::Cells { expected, given: cells.len() });
        }
        self.begin_program(page)?;
        self.pages[page.0 as usize] = State::Programmed;
        let first = self.geometry.first_unit(page);
        for (index, cell) in cells.iter().enumerate() {
            let unit = Physical(first.0 + index as u32);
            if let Some(bytes) = &cell.payload {
                self.store.write(unit, bytes)?;
            }
            self.units[unit.0 as usize] = Some((cell.oob, cell.payload.is_none()));
        }
        Ok(())
    }

    fn erase(&mut self, block: Block) -> Result<(), NandError> {
        self.wipe(block, State::Erased)
    }

    fn programmed_pages(&self, block: Block) -> u32 {
        self.blocks[block.0 as usize].programmed_pages
    }
    fn is_half_erased(&self, block: Block) -> bool {
        self.blocks[block.0 as usize].half_erased
    }
    fn erases(&self, block: Block) -> u32 {
        self.blocks[block.0 as usize].erases
    }
    fn forget_wear(&mut self) {
        for block in &mut self.blocks {
            block.erases = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Logical, Shape};
    use crate::nand::Kind;

    fn array() -> Array {
        let shape = Shape {
            unit_bytes: 512,
            page_bytes: 1024,
            block_pages: 2,
            dies: 1,
            planes: 1,
            spare_share: 0.5,
        };
        let geometry = Geometry::new(shape, 4096).expect("a valid shape");
        Array::new(geometry, Store::memory()).expect("memory")
    }

    fn cells(byte: u8) -> Vec<Cell> {
        let oob = Oob { kind: Kind::Data, logical: Logical(1), sequence: 1 };
        let padding = Oob { kind: Kind::Padding, ..oob };
        vec![
            Cell { oob, payload: Some(vec![byte; 512].into()) },
            Cell { oob: padding, payload: None },
        ]
    }

    #[test]
    fn n1_a_page_is_programmed_once_after_an_erase() {
        let mut array = array();
        array.program(Page(0), &cells(1)).expect("erased");
        let again = array.program(Page(0), &cells(2));
        assert!(matches!(again, Err(NandError::NotErased { page: 0, block: 0 })));
        array.erase(Block(0)).expect("erase");
        array.program(Page(0), &cells(3)).expect("erased again");
        assert_eq!(array.read(Physical(0)).expect("programmed"), Some(vec![3; 512].into()));
        assert_eq!(array.read(Physical(1)).expect("programmed"), None);
    }

    #[test]
    fn n2_pages_are_programmed_in_order() {
        let mut array = array();
        let result = array.program(Page(1), &cells(1));
        assert!(matches!(result, Err(NandError::OutOfOrder { page: 1, block: 0, next: 0 })));
        assert!(matches!(array.read(Physical(2)), Err(NandError::Erased { unit: 2 })));
    }

    #[test]
    fn n3_what_lost_its_power_is_unreadable() {
        let mut array = array();
        array.program(Page(0), &cells(1)).expect("erased");
        array.tear_program(Page(1)).expect("erased");
        assert!(matches!(array.oob(Physical(2)), Err(NandError::Torn { unit: 2 })));
        array.tear_erase(Block(0)).expect("erase");
        assert!(matches!(array.read(Physical(0)), Err(NandError::Torn { unit: 0 })));
        assert!(array.is_half_erased(Block(0)));
        assert!(array.program(Page(0), &cells(1)).is_err());
        array.erase(Block(0)).expect("erase");
        array.program(Page(0), &cells(1)).expect("erased");
    }

    #[test]
    fn n4_a_block_goes_on_after_a_torn_page() {
        let mut array = array();
        array.tear_program(Page(0)).expect("erased");
        assert!(matches!(array.program(Page(0), &cells(1)), Err(NandError::NotErased { .. })));
        array.program(Page(1), &cells(1)).expect("the page after it");
    }

    #[test]
    fn a_file_and_memory_keep_the_same_bytes() {
        let memory = array();
        let file = tempfile::tempfile().expect("a file");
        let mut on_file = Array::new(memory.geometry, Store::File(file)).expect("an image");
        on_file.program(Page(0), &cells(7)).expect("erased");
        assert_eq!(on_file.read(Physical(0)).expect("programmed"), Some(vec![7; 512].into()));
    }
}
