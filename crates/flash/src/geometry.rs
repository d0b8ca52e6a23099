//! Sizes, and how they hang together.
//!
//! - A *unit* is what the table maps.
//! - A *page* is what a die programs at once; it has one or more units.
//! - A *lane* is a plane of a die. All lanes work at the same time.
//! - A *block* here is one erase block of each lane (a superblock). Its pages go round the lanes:
//!   page `p` is on lane `p % lanes`.
//!
//! ```text
//! block   lane 0  lane 1  lane 2  lane 3
//!           p0      p1      p2      p3
//!           p4      p5      p6      p7     …
//! ```
//!
//! The spare share counts what garbage collection can win. The open blocks, the reserve and what it
//! works ahead come on top. In a device of full size they are nothing beside it; in a small one
//! they would be all of it, and the write amplification another one.

use serde::Serialize;

/// Free blocks that are kept for garbage collection. It takes one while it copies, and a loss of
/// power may cost it pages, hence the second.
pub const RESERVE_BLOCKS: u32 = 2;

/// One for the host, one for garbage collection.
pub const OPEN_BLOCKS: u32 = 2;

/// By so much garbage collection works ahead, so that the host need not wait for a whole victim.
pub const AHEAD_BLOCKS: u32 = 1;

/// Blocks that garbage collection cannot win.
const EXTRA_BLOCKS: u32 = RESERVE_BLOCKS + OPEN_BLOCKS + AHEAD_BLOCKS;

/// A number of a mapping unit as the host counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Logical(pub u32);

/// A number of a mapping unit on the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Physical(pub u32);

/// A number of a page on the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u32);

/// What of a device does not depend on how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shape {
    pub unit_bytes: u32,
    pub page_bytes: u32,
    /// Pages of an erase block of one lane.
    pub block_pages: u32,
    pub dies: u32,
    pub planes: u32,
    /// What there is beyond the logical size, as a share of it.
    pub spare_share: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum GeometryError {
    #[error(
        "page_bytes {page_bytes} is no multiple of unit_bytes {unit_bytes}: \
         a page holds whole mapping units"
    )]
    Page { page_bytes: u32, unit_bytes: u32 },
    #[error("{name} is {value}: at least {least} is needed")]
    TooSmall { name: &'static str, value: u64, least: u64 },
    #[error("spare_share {0} is not above 0 and at most 4: garbage collection needs room")]
    Spare(f64),
    #[error("{logical_bytes} bytes are no multiple of the mapping unit of {unit_bytes} bytes")]
    Uneven { logical_bytes: u64, unit_bytes: u32 },
    #[error("{logical_bytes} bytes are too many: at most 2³⁰ mapping units, with the spare ones")]
    TooLarge { logical_bytes: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Geometry {
    pub shape: Shape,
    pub logical_units: u32,
    pub blocks: u32,
}

impl Geometry {
    pub fn new(shape: Shape, logical_bytes: u64) -> Result<Geometry, GeometryError> {
        let Shape { unit_bytes, page_bytes, .. } = shape;
        let least = |name, value: u64, least| {
            if value < least { Err(GeometryError::TooSmall { name, value, least }) } else { Ok(()) }
        };
        least("unit_bytes", u64::from(unit_bytes), 512)?;
        least("page_bytes", u64::from(page_bytes), u64::from(unit_bytes))?;
        if !page_bytes.is_multiple_of(unit_bytes) {
            return Err(GeometryError::Page { page_bytes, unit_bytes });
        }
        least("block_pages", u64::from(shape.block_pages), 2)?;
        least("dies", u64::from(shape.dies), 1)?;
        least("planes", u64::from(shape.planes), 1)?;
        if !(shape.spare_share > 0.0 && shape.spare_share <= 4.0) {
            return Err(GeometryError::Spare(shape.spare_share));
        }
        if !logical_bytes.is_multiple_of(u64::from(unit_bytes)) {
            return Err(GeometryError::Uneven { logical_bytes, unit_bytes });
        }
        let logical_units = logical_bytes / u64::from(unit_bytes);
        least("logical_bytes", logical_bytes, u64::from(unit_bytes))?;
        let too_large = GeometryError::TooLarge { logical_bytes };
        if logical_units > 1 << 29 {
            return Err(too_large);
        }
        let mut geometry = Geometry { shape, logical_units: logical_units as u32, blocks: 0 };
        let block_units = u64::from(geometry.block_units());
        let wanted = (logical_units as f64 * (1.0 + shape.spare_share)).ceil() as u64;
        // With one spare block at least there is always one that is worth to be cleaned.
        let data_blocks = wanted.div_ceil(block_units).max(logical_units.div_ceil(block_units) + 1);
        let blocks = data_blocks + u64::from(EXTRA_BLOCKS);
        if blocks * block_units > 1 << 30 {
            return Err(too_large);
        }
        geometry.blocks = blocks as u32;
        Ok(geometry)
    }

    pub fn lanes(&self) -> u32 {
        self.shape.dies * self.shape.planes
    }
    pub fn page_units(&self) -> u32 {
        self.shape.page_bytes / self.shape.unit_bytes
    }
    /// Pages of a block, over all lanes.
    pub fn block_pages(&self) -> u32 {
        self.shape.block_pages * self.lanes()
    }
    pub fn block_units(&self) -> u32 {
        self.block_pages() * self.page_units()
    }
    pub fn physical_units(&self) -> u32 {
        self.blocks * self.block_units()
    }
    pub fn logical_bytes(&self) -> u64 {
        u64::from(self.logical_units) * u64::from(self.shape.unit_bytes)
    }
    pub fn physical_bytes(&self) -> u64 {
        u64::from(self.physical_units()) * u64::from(self.shape.unit_bytes)
    }
    /// Physical to logical, without the open blocks and the reserve: α in the formulas.
    pub fn alpha(&self) -> f64 {
        let data_blocks = self.blocks - EXTRA_BLOCKS;
        f64::from(data_blocks * self.block_units()) / f64::from(self.logical_units)
    }

    pub fn page_of(&self, unit: Physical) -> Page {
        Page(unit.0 / self.page_units())
    }
    pub fn block_of(&self, unit: Physical) -> Block {
        Block(unit.0 / self.block_units())
    }
    pub fn block_of_page(&self, page: Page) -> Block {
        Block(page.0 / self.block_pages())
    }
    pub fn page(&self, block: Block, index: u32) -> Page {
        Page(block.0 * self.block_pages() + index)
    }
    pub fn first_unit(&self, page: Page) -> Physical {
        Physical(page.0 * self.page_units())
    }
    pub fn lane_of(&self, page: Page) -> u32 {
        (page.0 % self.block_pages()) % self.lanes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            unit_bytes: 4096,
            page_bytes: 8192,
            block_pages: 4,
            dies: 2,
            planes: 1,
            spare_share: 0.25,
        }
    }

    #[test]
    fn spare_blocks_are_those_that_garbage_collection_can_win() {
        let geometry = Geometry::new(shape(), 64 * 16 * 4096).expect("a valid shape");
        assert_eq!(geometry.block_units(), 16);
        assert_eq!(geometry.blocks, 80 + EXTRA_BLOCKS);
        assert!((geometry.alpha() - 1.25).abs() < 1e-9);
    }

    #[test]
    fn pages_go_round_the_lanes() {
        let geometry = Geometry::new(shape(), 16 * 4096).expect("a valid shape");
        let lanes: Vec<u32> = (8..16).map(|page| geometry.lane_of(Page(page))).collect();
        assert_eq!(lanes, [0, 1, 0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused_by_name() {
        let refused = |change: fn(&mut Shape), word: &str| {
            let mut shape = shape();
            change(&mut shape);
            let error = Geometry::new(shape, 16 * 4096).expect_err(word).to_string();
            assert!(error.contains(word), "{error}");
        };
        refused(|shape| shape.page_bytes = 6000, "page_bytes");
        refused(|shape| shape.dies = 0, "dies");
        refused(|shape| shape.spare_share = 0.0, "spare_share");
        let error = Geometry::new(shape(), 5000).expect_err("no multiple").to_string();
        assert!(error.contains("mapping unit"), "{error}");
    }
}
