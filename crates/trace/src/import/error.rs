//! Why a trace cannot be read at all. Faults inside a readable trace are counted: see
//! [`Skipped`](super::Skipped).

use std::io;

/// `name` is the file as the user gave it.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{name}: cannot be opened: {source}")]
    Open { name: String, source: io::Error },
    #[error("{name}: cannot be read after line or record {after}: {source}")]
    Read { name: String, after: u64, source: io::Error },
    #[error(
        "{name}: is empty; a recording that was never started or never stopped leaves such a file"
    )]
    Empty { name: String },
    #[error(
        "{name}: the compressed data end early, before the first whole line of a trace; copy the \
            file anew, or record again"
    )]
    CutOff { name: String },
    #[error(
        "{name}: is a recording of format {format}; this oneflush knows format {known}. Read it \
            with the oneflush that recorded it, or a newer one"
    )]
    Newer { name: String, format: u64, known: u32 },
    #[error("{name}: is in no known format. {}", .hint.map_or_else(
        || format!("Looked for in its first {bytes} bytes:\n{looked_for}.\n\
            How to record each: docs/identify.md#what-it-reads"),
        |hint| (*hint).to_owned(),
    ))]
    Unknown {
        name: String,
        bytes: usize,
        /// What the file seems to be, and how to make a readable trace of it.
        hint: Option<&'static str>,
        looked_for: String,
    },
}
