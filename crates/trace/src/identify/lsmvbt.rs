//! What a commit of LS-MVBT writes, and how its end is known (`docs/mvbt-format.md`).
//!
//! | the file system saw, between two flushes | it is |
//! |---|---|
//! | a commit block, with or without pages | the end of a transaction (I10) |
//! | one page alone | a whole transaction (I9) |
//! | more, without a commit block | a part: the file has grown, or pages went first (I11, I11a) |
//! | an anchor alone | no transaction: the file was opened or closed, or versions ran out |
//!
//! Where the file's head is on the device, the recorder says. Without it each flush ends a
//! transaction, and each anchor counts as one.

use super::group::Group;
use super::ranges::Range;
use crate::model::{LSMVBT_ANCHORS_BYTES, LSMVBT_HEAD_BYTES, SECTOR_BYTES};

/// Where a file has what.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Sectors of anchors and of commit blocks. Empty: nobody knows where they are.
    anchors: Vec<Range>,
    ring: Vec<Range>,
    page_bytes: u64,
}

impl Layout {
    pub(super) fn new(page_bytes: u32) -> Layout {
        Layout { anchors: Vec::new(), ring: Vec::new(), page_bytes: page_bytes.into() }
    }

    /// A piece of the file's head, at this offset of the file.
    pub(super) fn add(&mut self, offset: u64, sector: u64, bytes: u64) {
        let end = (offset + bytes).min(LSMVBT_HEAD_BYTES);
        let at = |byte: u64| sector.saturating_add((byte - offset) / SECTOR_BYTES);
        let ring = LSMVBT_ANCHORS_BYTES.clamp(offset, end.max(offset));
        if offset < ring {
            self.anchors.push((at(offset), at(ring)));
        }
        if ring < end {
            self.ring.push((at(ring), at(end)));
        }
    }

    /// A flush behind this group ends its transaction.
    pub(super) fn is_whole(&self, group: &Group) -> bool {
        self.ring.is_empty()
            || group.touches(&self.ring)
            || group.bytes <= self.page_bytes
            || self.is_anchor(group)
    }

    /// The group has nothing but anchors.
    pub(super) fn is_anchor(&self, group: &Group) -> bool {
        group.lies_in(&self.anchors)
    }
}
