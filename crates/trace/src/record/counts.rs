//! What is counted of a recording.

/// What a recording contains so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// Bytes of the writes that were queued at the asked-for devices, by what they belong to.
    pub data_bytes: u64,
    pub journal_bytes: u64,
    pub metadata_bytes: u64,
    /// Of an unknown file.
    pub unknown_bytes: u64,
    /// Of the data, what the recorder itself wrote to its files.
    pub own_bytes: u64,
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// Complete files of a recording of several, and the bytes in all of them.
    pub files: u64,
    pub files_bytes: u64,
}
