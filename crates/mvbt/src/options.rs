//! Options of a database. Those of the paper are switches, so that its figures can be repeated.

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
        }
    }
}
