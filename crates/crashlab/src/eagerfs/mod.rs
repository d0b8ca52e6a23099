//! Eager synching on a machine that loses power: the tree of `oneflush_eagerfs` over a model of a
//! lower, with its log on the simulated disk.
//!
//! ```text
//! script ── tree ─┬─ model of a lower ──▶ events ──┐ one timeline
//!                 └─ log on the disk ───▶ writes ──┤
//!                                                  ▼ a moment, and what survives of both
//!            oracle ◀── lower ◀── recovery ◀── lower, log
//! ```
//!
//! **The fault model of the lower** is at the head of `loss.rs`. The log's is that of the simulated
//! disk. Power is lost in recoveries, too.

mod event;
mod image;
mod loss;
mod lower;
mod oracle;
mod run;
mod script;

pub use loss::Order;
pub use run::{Failure, Plan, Report, Watch, campaign, run, run_scripts};
pub use script::Step;
