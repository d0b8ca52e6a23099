//! `oneflush bench`: what runs found, compared and drawn. With the feature `laboratory` also beside
//! papers, and in guests.

#[cfg(feature = "laboratory")]
pub mod commits;
#[cfg(feature = "laboratory")]
pub mod guest;
#[cfg(feature = "laboratory")]
pub mod kv;
#[cfg(feature = "laboratory")]
pub mod paper;
pub mod report;
#[cfg(feature = "laboratory")]
pub mod transactions;

// The SQLite of the programs that stand on this has both B-trees.
use oneflush_sqlite as _;
