//! Options of a database. Those of the paper are switches, so that its figures can be repeated.

use std::time::SystemTime;

/// How a database is made, opened and written. [`Default`] has what most need.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Of a new database. One that is there keeps its own.
    pub page_bytes: usize,
    /// Memory for pages that were read.
    pub cache_bytes: usize,
    /// A transaction that has changed so many bytes of pages writes some of them early.
    pub spill_bytes: usize,
    /// The database gets no more pages. Inserts leave 16 of its free pages to deletes, or an eighth
    /// of this if that is less: a delete may need a page for what readers still see. It is so on a
    /// full disk too. A transaction that deletes much may use them up, and is told that it is full.
    pub pages_max: u64,
    /// Nothing is written to the file, also where it has to be recovered: what recovery chooses
    /// stays in memory. No process may write the file meanwhile.
    pub read_only: bool,
    /// Lazy split (paper, section 4.2): the left half stays where it is. Off: both halves move, and
    /// the page is marked dead.
    pub lazy_split: bool,
    /// Buffer cells (paper, section 4.3): an insert leaves room for so many cells of its size.
    pub reserved_cells: usize,
    /// Metadata embedding (paper, section 5.2). Off: each commit also writes an anchor.
    pub metadata_embedding: bool,
    /// Sibling redistribution (paper, section 5.3): a leaf that has no room gives cells to a leaf
    /// beside it before it is split.
    pub redistribution: bool,
    /// Lazy garbage collection (paper, section 5.1): dead cells go when their page is written
    /// anyway. Off: each transaction also writes the pages that those before have left with some.
    pub lazy_collection: bool,
    /// No transaction begins while readers alone hold so many freed pages or more: `StaleReader`.
    pub reader_limit_pages: u64,
    /// Where a history has its times from.
    pub clock: fn() -> SystemTime,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            page_bytes: 4096,
            cache_bytes: 8 << 20,
            spill_bytes: 32 << 20,
            pages_max: u64::from(u32::MAX),
            read_only: false,
            lazy_split: true,
            reserved_cells: 1,
            metadata_embedding: true,
            redistribution: false,
            lazy_collection: true,
            reader_limit_pages: 1 << 18,
            clock: SystemTime::now,
        }
    }
}
