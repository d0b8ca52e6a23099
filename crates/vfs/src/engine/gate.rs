//! Turns between processes: which process may try the write lock next.
//!
//! The queue of turns ([`turns`](super::turns)) ends at the border of a process. A gate goes on
//! behind it. The connection that has its turn, one of each process, stands at the gate.
//!
//! A gate is a courtesy, as a turn is. Without it everything works, only less fairly.

use std::time::Duration;

pub trait Gate: Send + Sync {
    /// True: connections stand at this gate for each transaction. False: only while writers of
    /// other processes are known of.
    const IS_ALWAYS_USED: bool;
    /// Goes through the gate, unless another process is before this one. True: it is through.
    fn enter(&self) -> bool;
    /// Waits at the gate. True: the gate is open for this process now.
    fn wait(&self, at_most: Duration) -> bool;
    /// The connection that went through has the write lock.
    fn begin_writing(&self);
    /// Lets the next process through.
    fn leave(&self);
    /// True if another process is at the gate or through it.
    fn is_wanted(&self) -> bool;
}
