//! One page from the host: room first, then the program, then the table.
//!
//! | step | a loss of power here leaves |
//! |---|---|
//! | garbage collection, if room is short | each unit as it was |
//! | program of the page | the old units, or the new ones |
//! | table, in memory | the new units |

use super::{Entry, Ftl, FtlError, Item, Op, Reason, Stream, trim};
use crate::geometry::{Logical, Page, Physical};
use crate::nand::{Cell, Kind, Nand, Oob};

impl<N: Nand> Ftl<N> {
    /// Programs up to a page. When it returns, the items survive a loss of power.
    pub fn write_page(&mut self, items: Vec<Item>) -> Result<(), FtlError> {
        self.make_room()?;
        let page = self.next_page(Stream::Host)?;
        let mut cells = Vec::with_capacity(items.len());
        let mut changes = Vec::with_capacity(items.len());
        for item in items {
            let sequence = self.next_sequence();
            let (kind, logical, payload, change) = match item {
                Item::Data(logical, payload) => (Kind::Data, logical, payload, None),
                Item::Trim(ranges) => {
                    let bytes = trim::encode(&ranges, self.geometry.shape.unit_bytes);
                    (Kind::Trim, Logical(0), Some(bytes), Some(ranges))
                }
            };
            cells.push(Cell { oob: Oob { kind, logical, sequence }, payload });
            changes.push(change);
        }
        self.program(page, cells, Reason::Host)?;
        let first = self.geometry.first_unit(page);
        for (index, change) in changes.into_iter().enumerate() {
            let unit = Physical(first.0 + index as u32);
            match change {
                Some(ranges) => self.trimmed(unit, &ranges),
                None => self.written(unit)?,
            }
        }
        self.pay_page()
    }

    /// Pads the page and programs it. The table is the caller's.
    pub(super) fn program(
        &mut self,
        page: Page,
        mut cells: Vec<Cell>,
        reason: Reason,
    ) -> Result<(), FtlError> {
        let count = |wanted| cells.iter().filter(|cell| cell.oob.kind == wanted).count() as u32;
        let (data_units, trim_units) = (count(Kind::Data), count(Kind::Trim));
        let padding = Oob { kind: Kind::Padding, logical: Logical(0), sequence: 0 };
        cells.resize(self.geometry.page_units() as usize, Cell { oob: padding, payload: None });
        self.nand.program(page, &cells)?;
        let lane = self.geometry.lane_of(page);
        self.ops.push(Op::Program { lane, reason, data_units, trim_units });
        Ok(())
    }

    fn written(&mut self, unit: Physical) -> Result<(), FtlError> {
        let Some(oob) = self.nand.oob(unit)? else { return Ok(()) };
        self.keep(oob.logical);
        self.supersede(oob.logical, Entry::At(unit));
        self.hold(unit);
        self.ops.push(Op::Update { logical: oob.logical });
        Ok(())
    }

    pub(super) fn hold(&mut self, unit: Physical) {
        let block = self.geometry.block_of(unit);
        self.usage[block.0 as usize].valid_units += 1;
    }
}
