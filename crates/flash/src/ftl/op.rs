//! What the FTL did, in order: the device makes times of it.

use crate::geometry::{Logical, Page};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Host,
    Collection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The table was asked.
    Lookup {
        logical: Logical,
    },
    /// The table was changed.
    Update {
        logical: Logical,
    },
    Read {
        lane: u32,
        page: Page,
        reason: Reason,
    },
    /// A page with so many units of data or of trim records; the rest is padding.
    Program {
        lane: u32,
        reason: Reason,
        data_units: u32,
        trim_units: u32,
    },
    /// All lanes at once.
    Erase,
}
