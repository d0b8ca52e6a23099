//! What the transactions of a trace would write with each strategy: an estimate, by replaying the
//! commits through the strategies' rules.
//!
//! ```text
//! transactions → commits     which pages, how many frames, when, who  collect.rs, frames.rs
//!              → stretches   the recording again and again            steady.rs
//!              → groups      which commits would share a flush        crowd.rs
//!              → costs       what each strategy writes for them       wal.rs, eager.rs, maw.rs
//!                            (cost.rs, growth.rs, tick.rs)
//!              → advice      a row a strategy and database, in order  advice.rs, choose.rs,
//!                                                                     estimate.rs
//! device       → wear        how much writing a device takes          wear.rs
//! ```
//!
//! What the rules say is derived from what the strategies do (`docs/plain.md`, `eager.md`,
//! `waldio.md`, `maw.md`, `log-format.md`). What no rule says is in `calibration.tsv`, fitted on
//! recordings of `oneflush bench`. `docs/advise.md` has the model and its error.
//!
//! A trace does not show the bytes that change in a page. So what a log of changes would write is
//! given as a range, from few bytes a page to most of it, with the calibrated value between.

mod advice;
mod calibration;
mod choose;
mod collect;
mod cost;
mod crowd;
mod eager;
mod estimate;
mod frames;
mod growth;
mod maw;
mod steady;
mod tick;
mod wal;
mod wear;

pub use advice::{Advice, DatabaseAdvice};
pub use calibration::Calibration;
pub use choose::Step;
pub use collect::{Collector, Known, Load, Loads};
pub use estimate::{Estimate, Extent, InRecording, NotEstimated, Parts, Row, Strategy};
pub use wear::{Life, Wear, WearError};
