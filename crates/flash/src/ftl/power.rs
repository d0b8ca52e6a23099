//! An array that loses its power.
//!
//! **What a loss of power does.** It comes at one operation of the array, which is not begun, or
//! torn, or done and not answered. Lanes work at the same time, so programs before it may not have
//! ended: any of those since the last erase, and since the host was last told that something is
//! durable, may be torn as well. An erase waits for all programs before it, and so does a flush.
//! After it nothing is done until power is back.

use crate::geometry::{Block, Geometry, Page, Physical};
use crate::nand::{Array, Cell, Nand, NandError, Oob, Payload};

/// How the operation at which power is lost ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    NotBegun,
    Torn,
    Done,
}

#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Operations that are done before it.
    pub after: u64,
    pub end: End,
    /// Which of the programs under way are lost: bit `i` for the `i`th before it.
    pub lost: u64,
}

#[derive(Debug)]
pub struct Powered {
    array: Array,
    cut: Option<Cut>,
    is_off: bool,
    under_way: Vec<Page>,
}

impl Powered {
    pub fn new(array: Array) -> Powered {
        Powered { array, cut: None, is_off: false, under_way: Vec::new() }
    }

    pub fn plan(&mut self, cut: Option<Cut>) {
        self.cut = cut;
    }

    /// The host was told that all is durable.
    pub fn settle(&mut self) {
        self.under_way.clear();
    }

    pub fn power_on(&mut self) {
        self.is_off = false;
        self.under_way.clear();
    }

    /// `Some`: power is lost at this operation.
    fn step(&mut self) -> Result<Option<End>, NandError> {
        if self.is_off {
            return Err(NandError::PowerOff);
        }
        match &mut self.cut {
            Some(Cut { after: 0, end, lost }) => {
                for (index, &page) in self.under_way.iter().rev().enumerate().take(64) {
                    if *lost >> index & 1 == 1 {
                        self.array.tear_programmed(page);
                    }
                }
                self.is_off = true;
                Ok(Some(*end))
            }
            Some(cut) => {
                cut.after -= 1;
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

impl Nand for Powered {
    fn geometry(&self) -> &Geometry {
        self.array.geometry()
    }

    fn read(&mut self, unit: Physical) -> Result<Payload, NandError> {
        if self.is_off { Err(NandError::PowerOff) } else { self.array.read(unit) }
    }

    fn oob(&self, unit: Physical) -> Result<Option<Oob>, NandError> {
        self.array.oob(unit)
    }

    fn program(&mut self, page: Page, cells: &[Cell]) -> Result<(), NandError> {
        match self.step()? {
            None => {
                self.array.program(page, cells)?;
                self.under_way.push(page);
                return Ok(());
            }
            Some(End::NotBegun) => {}
            Some(End::Torn) => self.array.tear_program(page)?,
            Some(End::Done) => self.array.program(page, cells)?,
        }
        Err(NandError::PowerOff)
    }

    fn erase(&mut self, block: Block) -> Result<(), NandError> {
        // All programs before it have ended.
        self.under_way.clear();
        match self.step()? {
            None => return self.array.erase(block),
            Some(End::NotBegun) => {}
            Some(End::Torn) => self.array.tear_erase(block)?,
            Some(End::Done) => self.array.erase(block)?,
        }
        Err(NandError::PowerOff)
    }

    fn programmed_pages(&self, block: Block) -> u32 {
        self.array.programmed_pages(block)
    }
    fn is_half_erased(&self, block: Block) -> bool {
        self.array.is_half_erased(block)
    }
    fn erases(&self, block: Block) -> u32 {
        self.array.erases(block)
    }
    fn forget_wear(&mut self) {
        self.array.forget_wear();
    }
}
