//! What SQLite does to a device just now: figures of each database over the last ten seconds.
//!
//! ```text
//! thread 1   recorder ── text, through a pipe ──▶ thread 2   reader ─▶ identifier ─▶ table ◀── whoever shows it
//! session.rs                                                 session.rs             table.rs, window.rs
//! ```
//! It is the text of a recording that is read, so what is shown is what `oneflush trace` and `oneflush identify` would say later.
//!
//! Invariants: (1) what is kept is bounded however long it runs: a window has slots of a fixed number, a database that is not seen for
//! [`FORGET_NS`] goes, and names and identifier are made anew before they grow large; (2) nothing here looks at a clock: the time,
//! that of the trace (CLOCK_MONOTONIC), is passed in; (3) a reader that is too slow loses events, which are counted, and not memory.

mod figures;
mod session;
mod table;
mod window;

pub use figures::{Figures, Load};
pub use session::{LiveError, Session};
pub use table::{FORGET_NS, Owner, Row, Snapshot, Table};
pub use window::WINDOW_NS;
