//! Stores of keys and values, measured alike: a B-tree of ours, SQLite, and engines of others.
//!
//! ```text
//! Subject (a word) ── Engine ── Store ─┐
//!                                      ├── slice · turns · recovery ──▶ SliceResult
//! Work (rows, keys, task) ── Step ─────┘
//! ```
//!
//! Every store commits durably: a transaction is on the device when the call returns. A slice has a
//! new database of its own, which is filled before anything counts. The counts have what the kernel
//! writes back afterwards.

mod error;
mod keys;
mod mvbt;
mod recovery;
mod slice;
mod sqlite;
mod status;
mod subject;
mod turns;
mod work;

use std::path::{Path, PathBuf};

pub use error::{KvError, StoreError};
pub use keys::Keys;
pub use recovery::recoveries;
pub use slice::{Counting, Measured, Slice};
pub use subject::{Subject, SubjectError};
pub use turns::in_turns;
pub use work::{Steps, Task, Until, Work};

/// One row of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new row, or a new value of one that is there.
    Put(u64),
    Delete(u64),
}

/// What makes a store, and opens it again.
pub trait Engine {
    /// As tables name it.
    fn name(&self) -> String;
    /// Makes a new store in an empty directory.
    fn create(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError>;
    /// Opens what is in the directory, and recovers it if it was not closed.
    fn open(&self, directory: &Path) -> Result<Box<dyn Store>, StoreError>;
    /// The files of the directory that are the database, and no journal or log.
    fn databases(&self, directory: &Path) -> Vec<PathBuf>;
}

/// An engine whose crashes can be made.
pub trait Crashes: Engine {
    /// Makes a store, prepares it, and begins a transaction with these changes. Some of its pages
    /// are written before it ends. Then `now` is called, when the files are as a crash leaves them.
    fn crash(
        &self,
        directory: &Path,
        prepare: &mut dyn FnMut(&mut dyn Store) -> Result<(), StoreError>,
        changes: &[Change],
        value: &[u8],
        now: &mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;
}

pub trait Store {
    /// One transaction, durable when this returns. All rows that it puts get this value.
    fn commit(&mut self, changes: &[Change], value: &[u8]) -> Result<(), StoreError>;
    /// Bytes of the row's value; none: there is no such row.
    fn get(&mut self, key: u64) -> Result<Option<usize>, StoreError>;
    /// Reads all rows in order; answers how many.
    fn scan(&mut self) -> Result<u64, StoreError>;
    /// Brings what was filled to where a measurement begins.
    fn settle(&mut self) -> Result<(), StoreError>;
    /// Pages that were written so far; none: it does not say.
    fn pages_written(&self) -> Option<u64>;
    /// Ends it in order.
    fn close(self: Box<Self>) -> Result<(), StoreError>;
}
