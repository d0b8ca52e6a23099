//! Turns between processes: who of them may go for the write lock next.
//!
//! The queue of turns ([`turns`](super::turns)) ends at the border of a process. A gate goes on behind it. The connection that has its
//! turn, one of a process, stands at the gate.
//!
//! A gate is a courtesy, as a turn is. Without it everything works, only less fairly.

use std::time::Duration;

pub trait Gate: Send + Sync {
    /// True: connections stand at this gate for each transaction. False: only while writers of other processes are known of.
    const IS_ALWAYS_USED: bool;
    /// Goes through, if nobody of another process is before this one.
    fn enter(&self) -> bool;
    /// Waits at the gate. True: it is open for this process now.
    fn wait(&self, at_most: Duration) -> bool;
    /// The connection that went through has the write lock.
    fn begin_writing(&self);
    /// Lets the next process through.
    fn leave(&self);
    /// A process other than this one is at the gate, or through.
    fn is_wanted(&self) -> bool;
}
