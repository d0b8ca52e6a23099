//! What the FTL did gets its times.
//!
//! - A read for the host begins when the table is known.
//! - A copy begins when its units are read; an erase when all programs before it are done (F3).
//! - A map page that is missing delays a read. For a write, only the lane is busy with it.

use super::Device;
use crate::ftl::{Op, Reason};
use crate::geometry::Logical;
use crate::nand::Nand;

/// When the operations are done.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub reads_ns: u64,
    /// Of each page of the host: when, and how many units of data.
    pub programs: Vec<(u64, usize)>,
}

impl<N: Nand> Device<N> {
    /// Gives all that the FTL did since the last call its time, none before `ready_ns`.
    pub(super) fn run(&mut self, ready_ns: u64) -> Done {
        let mut done = Done { reads_ns: ready_ns, programs: Vec::new() };
        let mut map_ns = ready_ns;
        let mut copies_read_ns = ready_ns;
        let mut copies_ns = ready_ns;
        for op in self.ftl.take_ops() {
            match op {
                Op::Lookup { logical } => {
                    map_ns = map_ns.max(self.access_map(logical, false, ready_ns));
                    done.reads_ns = done.reads_ns.max(map_ns);
                }
                Op::Update { logical } => {
                    self.access_map(logical, true, ready_ns);
                }
                Op::Read { lane, reason: Reason::Host, .. } => {
                    self.counters.pages.read_host += 1;
                    done.reads_ns = done.reads_ns.max(self.clock.read(lane, map_ns));
                }
                Op::Read { lane, reason: Reason::Collection, .. } => {
                    self.counters.pages.read_collection += 1;
                    copies_read_ns = copies_read_ns.max(self.clock.read(lane, ready_ns));
                }
                Op::Program { lane, reason, data_units, trim_units } => {
                    self.count_program(reason, data_units, trim_units);
                    if reason == Reason::Host {
                        let end_ns = self.clock.program(lane, ready_ns);
                        done.programs.push((end_ns, data_units as usize));
                    } else {
                        copies_ns = copies_ns.max(self.clock.program(lane, copies_read_ns));
                    }
                }
                Op::Erase => {
                    self.counters.erases += 1;
                    self.clock.erase(copies_ns);
                }
            }
        }
        done
    }

    fn count_program(&mut self, reason: Reason, data_units: u32, trim_units: u32) {
        let unit_bytes = u64::from(self.geometry().shape.unit_bytes);
        let padding_units = self.geometry().page_units() - data_units - trim_units;
        let pages = &mut self.counters.pages;
        let programmed = &mut self.counters.programmed;
        programmed.padding_bytes += u64::from(padding_units) * unit_bytes;
        match reason {
            Reason::Host => {
                pages.programmed_host += 1;
                programmed.host_bytes += u64::from(data_units) * unit_bytes;
                programmed.trim_bytes += u64::from(trim_units) * unit_bytes;
            }
            Reason::Collection => {
                pages.programmed_collection += 1;
                programmed.collection_bytes += u64::from(data_units + trim_units) * unit_bytes;
            }
        }
    }

    /// When the entry is known.
    fn access_map(&mut self, logical: Logical, changes: bool, ready_ns: u64) -> u64 {
        let access = self.map.access(logical, changes);
        let Some(map_page) = access.missed else { return ready_ns };
        let lanes = self.geometry().lanes();
        if access.evicted {
            self.counters.pages.programmed_map += 1;
            self.counters.programmed.map_bytes += u64::from(self.geometry().shape.page_bytes);
            let block_pages = u64::from(self.geometry().block_pages());
            let lane = (self.map_programs % u64::from(lanes)) as u32;
            self.clock.program(lane, ready_ns);
            self.map_programs += 1;
            if self.map_programs.is_multiple_of(block_pages) {
                self.counters.map_erases += 1;
                self.clock.erase(ready_ns);
            }
        }
        self.counters.pages.read_map += 1;
        self.clock.read(map_page % lanes, ready_ns)
    }
}
