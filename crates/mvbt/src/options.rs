//! Options of a database. Those of the paper are switches, so that its figures can be repeated.

use std::time::Duration;

#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Of a new database. One that is there keeps its own.
    pub page_bytes: usize,
    /// Memory for pages that were read.
    pub cache_bytes: usize,
    /// A transaction that has changed so many bytes of pages writes some of them early.
    pub spill_bytes: usize,
    /// The database never has more pages.
    pub pages_max: u64,
    /// Lazy split (paper, section 4.2): the left half stays where it is. Off: both halves move, and
    /// the page is marked dead.
    pub lazy_split: bool,
    /// Buffer cells (paper, section 4.3): an insert leaves room for so many cells of its size.
    pub reserved_cells: usize,
    /// Lazy garbage collection (paper, section 5.1). Off: dead cells stay as long as a page has
    /// room.
    pub lazy_collection: bool,
    /// Metadata embedding (paper, section 5.2). Off: each commit also writes an anchor.
    pub metadata_embedding: bool,
    /// Redistribution among siblings, which the paper switches off (section 5.3).
    pub redistribution: bool,
    /// How long a reader may keep old versions, if the writer needs their room.
    pub reader_limit: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            page_bytes: 4096,
            cache_bytes: 8 << 20,
            spill_bytes: 32 << 20,
            pages_max: u64::from(u32::MAX),
            lazy_split: true,
            reserved_cells: 1,
            lazy_collection: true,
            metadata_embedding: true,
            redistribution: false,
            reader_limit: Duration::from_secs(600),
        }
    }
}
