//! The engine `mvbt` on the simulated disk, without SQLite.
//!
//! Disk, timeline, choices and oracle are those of the strategies. Only what runs on the disk is
//! another: a [`Script`] of this module, and the engine on a file of that disk (`storage.rs`).
//!
//! **What is left out.** No sector in flight is garbled. docs/mvbt-format.md says that a sector is
//! whole: the page's only copy is in it. Space that a file gained may hold garbage, as ever. There
//! is one file, which exists before the recording. So both readings of names are the same, and
//! differ only in what such space holds.
//!
//! **The oracle.** All of these must hold for what the engine finds:
//!
//! - Its contents are those of a committed state, as all cells of all trees and the meta words say.
//! - That state is the last acknowledged one, or the one that was being committed.
//! - `Database::check` finds no fault.
//! - If the file retains versions, each of them is the committed state that it was.
//! - A second recovery, or one after a crash in the first, finds the same.
//! - More transactions can be committed, and are there when the file is opened once more.
//!
//! A reader of an old version must see, until the power is lost, what was committed when it began.
//!
//! The UUID of a file is drawn anew in each run. Only checksums depend on it.

mod act;
mod case;
mod clock;
mod examine;
mod model;
mod plan;
mod record;
mod run;
mod script;
pub(crate) mod storage;
mod workload;

pub use case::Case;
pub use record::{Looks, record, record_with_looks};
pub use run::{Plan, Report, run, run_unshrunk};
pub use script::{Kind, Script, Step};
pub use workload::Workload;
