//! What SQLite does to a device just now: figures of each database over the last ten seconds.
//!
//! ```text
//! thread 1   recorder ── text, through a pipe ──▶ thread 2
//! session.rs                                      session.rs
//!            thread 2   reader ─▶ identifier ─▶ table ◀── the caller that shows it
//!                                               table.rs, window.rs
//! ```
//!
//! The text of a recording is read. The figures are therefore those that `oneflush trace` and
//! `oneflush identify` would give later.
//!
//! Invariants:
//! 1. What is kept is bounded, however long the session runs. A window has a fixed number of slots.
//!    A database that is not seen for [`FORGET_NS`] goes. Names and identifier are made anew before
//!    they grow large.
//! 2. Nothing here looks at a clock. The time is that of the trace (CLOCK_MONOTONIC) and is passed
//!    in.
//! 3. A reader that is too slow loses events, which are counted, and not memory.

mod figures;
mod session;
mod table;
mod window;

pub use figures::{Figures, Load};
pub use session::{LiveError, Session};
pub use table::{FORGET_NS, Owner, Row, Snapshot, Table};
pub use window::WINDOW_NS;
