//! What those who use a database at the same time have in common: words of memory, and locks
//! (docs/mvbt-format.md, "Processes").
//!
//! | question | file |
//! |---|---|
//! | what the words mean, and in which order they change | `board.rs` |
//! | handles of one process on one storage | `memory.rs` |
//! | processes that share a file | `mapped.rs` |
//! | one who may only read, and cannot share | `lone.rs` |

pub mod board;
pub mod lone;
pub mod mapped;
pub mod memory;
#[cfg(test)]
mod model;

use std::time::Instant;

use crate::Result;

/// One user of a database, among others. A user is an open handle: two handles of one process are
/// two users.
pub trait Commons: Send + Sync {
    /// One of [`board::WORDS`] words, which all users see. Loads and stores of all users have one
    /// order (`SeqCst`).
    fn load(&self, index: usize) -> u64;
    fn store(&self, index: usize, value: u64);
    fn add(&self, index: usize, more: u64);
    /// The word is no less than this afterwards.
    fn raise(&self, index: usize, least: u64);
    /// An error in a child of a fork, which is none of the users.
    fn check_user(&self) -> Result<()>;
    /// The number of this user, which no other one has at the same time.
    fn slot(&self) -> usize;
    /// True if a user has this number. A dead one has none.
    fn is_held(&self, slot: usize) -> bool;
    /// Takes the writer's lock. False: another user had it until then. Without a time it waits as
    /// long as that takes.
    fn lock_writer(&self, until: Option<Instant>) -> Result<bool>;
    fn unlock_writer(&self);
    /// True if a user has the writer's lock.
    fn has_writer(&self) -> bool;
    /// Calls while nobody comes or goes. The call is told whether this user is the only one. If it
    /// answers [`Then::Leave`], the user goes, and is to be dropped.
    fn settle(&self, call: &mut dyn FnMut(bool) -> Result<Then>) -> Result<()>;
}

/// What a user does after [`Commons::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Stay,
    Leave,
}
