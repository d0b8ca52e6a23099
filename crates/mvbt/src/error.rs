//! What can go wrong.

use std::io;
use std::path::PathBuf;

use crate::{PageNo, TreeId, Version};

/// An answer, or what has gone wrong.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Its text names the file, the page or the limit, and the way out where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{}: could not {doing}: {source}", path.display())]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{}: this is not a database of mvbt; it begins with {begins}", path.display())]
    OtherFormat { path: PathBuf, begins: String },
    #[error(
        "{}: format {found}; this program knows formats up to {known}. Use the newer program",
        path.display()
    )]
    NewerFormat { path: PathBuf, found: u32, known: u32 },
    #[error(
        "{}: {what}. What the file holds is not known without its newest anchor. Restore a backup",
        path.display()
    )]
    AnchorsDamaged { path: PathBuf, what: String },
    #[error(
        "{}: it was opened for reading only. Open it without `read_only` to change it",
        path.display()
    )]
    ReadOnly { path: PathBuf },
    #[error("page {page} is damaged: {what}")]
    Damaged { page: PageNo, what: &'static str },
    #[error("page {page} is damaged: it is reached twice, or is its own descendant")]
    ReachedTwice { page: PageNo },
    #[error("version {asked} is not kept any more; page {page} has {kept} and later ones")]
    SnapshotGone { page: PageNo, asked: Version, kept: Version },
    #[error("version {asked} cannot be read: the history goes from {from} to {to}")]
    NotKept { asked: Version, from: Version, to: Version },
    #[error(
        "no version of {asked_ms} ms since 1970 can be read: the history begins at {from_ms} ms"
    )]
    TimeNotKept { asked_ms: u64, from_ms: u64 },
    #[error("the file keeps no history of times; set what it retains")]
    NoHistory,
    #[error("there is no tree {tree}")]
    NoTree { tree: TreeId },
    #[error("tree {tree} is of the other kind")]
    WrongKind { tree: TreeId },
    #[error("a payload has at most {limit} bytes, not {length}")]
    TooLong { length: u64, limit: u64 },
    #[error("the database would have more than its limit of {limit} pages")]
    Full { limit: u64 },
    #[error("all 2^48 versions are used up. Copy the contents into a new database")]
    NoVersion,
    #[error("an earlier write or flush failed; open the database anew")]
    Poisoned,
    #[error(
        "an operation of this transaction failed halfway. Roll back, or to a savepoint before it"
    )]
    HalfDone,
    #[error("the database is in use: {what}")]
    Busy { what: &'static str },
    #[error(
        "the database is busy: a reader of version {oldest} holds {pages} freed pages, and is \
         {behind} versions behind. End that reader, or raise reader_limit_pages ({limit})"
    )]
    StaleReader { oldest: Version, behind: u64, pages: u64, limit: u64 },
    #[error("a page cannot have {bytes} bytes: a power of two from 512 to 65536 can")]
    PageSize { bytes: usize },
    #[error("{what}")]
    Misuse { what: &'static str },
}

/// An error in a child of a fork. This user was opened by the process with this number, and the
/// child is none of the users.
pub(crate) fn check_process(opened_by: u32) -> Result<()> {
    match std::process::id() == opened_by {
        true => Ok(()),
        false => Err(Error::Misuse {
            what: "it was opened before a fork; the child must open it itself [OF-821]",
        }),
    }
}

impl Error {
    /// Somebody else is in the way. The same call may succeed later.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Busy { .. } | Error::StaleReader { .. })
    }

    /// The file cannot grow. Nothing is wrong with what is there.
    pub fn is_full_disk(&self) -> bool {
        matches!(self, Error::Io { source, .. } if oneflush_blocklog::is_full(source))
    }

    /// It was returned before anything was changed.
    pub(crate) fn is_refusal(&self) -> bool {
        use Error::{HalfDone, Misuse, NoTree, Poisoned, TooLong, WrongKind};
        matches!(
            self,
            NoTree { .. } | WrongKind { .. } | TooLong { .. } | Misuse { .. } | HalfDone | Poisoned
        )
    }
}
