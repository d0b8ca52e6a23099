//! Plain files beside the databases: several processes make, write, rename, link, remove and sync
//! them.
//!
//! `oneflush mount` promises more of them than a file system does (docs/eagerfs.md):
//!
//! - **F1** The names of a process are those of one moment between the last operation that a sync
//!   covers and the last that was begun. A sync of *any* file covers all operations that had
//!   returned before it was called, those of other processes, too.
//! - **F2** What was written to a file before a sync of it is there, or what was written later.
//! - **F3** So is what was written to a file before a rename put it in another's place, where the
//!   rename is there.
//! - **F4** What was written and not synced is there or not, each sector for itself.
//!
//! A process's operations follow from the seed. Its notes only count them.

mod judge;
mod script;
mod work;

pub use judge::Files;
pub use work::{NOTES_START, Running, Shared, begin, work};

/// Below the databases' directory. Each process has a directory in it, with two more inside.
const DIRECTORY: &str = "files";
const PROCESSES: usize = 3;

fn directory_of(process: usize) -> String {
    format!("{DIRECTORY}/p{process}")
}
