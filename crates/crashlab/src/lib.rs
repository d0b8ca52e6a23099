//! A simulated disk that loses power, with real SQLite on top.
//!
//! ```text
//! Script ── record ── SQLite ── strategy ── vfs ── Disk ──▶ log of operations and marks
//!                                                             │ timeline: durable, in flight
//!  verdict ◀── model ◀── examine ◀── SQLite ◀── image ◀── state: what survives
//! ```
//!
//! A script runs once, on a disk that records. The log of that disk gives all states that a loss of
//! power could have left, before the first operation and after every one. Each state is mounted
//! anew and opened by real SQLite.
//!
//! **The fault model.**
//!
//! - *Writes.* Until a sync, any subset of a file's writes may be on the medium, in any order. A
//!   write may be there whole, in any of its 512-byte sectors, or in any of its 4 KiB blocks. In
//!   the weak reading a sector in flight may hold garbage. Bytes beside those written never change
//!   (powersafe overwrite, as SQLite's "unix" VFS claims it).
//! - *Growth.* Where a file grew and the data is lost, it has its old size, or zeros. In the weak
//!   reading it may also have garbage or stale data.
//! - *Names.* Creations, unlinks and renames become durable as one of two [`Reading`]s says: ext4's
//!   ordered mode or weak POSIX.
//! - *Choices.* Up to 12 operations in flight all subsets are tried, and each once more torn. With
//!   more in flight 1,000 samples by seed are tried before each sync, and 32 after every other
//!   operation.
//! - *Again.* Power is lost again during recoveries, to depth 3, at moments drawn by seed.
//! - *Failed syncs.* A sync that fails leaves each sector that it covered written or not, by seed,
//!   for good. A later sync does not write such a sector (Linux marks it clean). The running
//!   process still reads what it wrote. Files of the second B-tree are read by direct I/O: there it
//!   reads what is on the medium.
//! - *Who is told.* In the workloads with several processes every open file is told of a failed
//!   sync once, by its next sync (Linux since 4.13). In the others only the caller of the sync
//!   hears of it.
//! - *Mending.* After a failed sync, bytes of a WAL may be written again as they are on the medium.
//!   Such bytes do not become garbage: the writer cannot know what another's sync has saved.
//! - *Errors.* Each operation of a run fails with EIO, ENOSPC, a short write or a failed sync, once
//!   or from then on. The application goes on, reopens or dies (`matrix.rs`).
//! - *Sectors of the second B-tree* are whole in the weak reading, too: `mvbt` says why.
//! - *Memory.* Locks and shared memory end with the power. `PRAGMA mmap_size` has no effect here.
//!
//! **The oracle.** All of these must hold for what SQLite finds:
//!
//! - It is a whole state of the commit order.
//! - It is not older than the last acknowledged commit whose setting promised durability.
//! - It is not newer than the last commit that was begun.
//! - `integrity_check` says ok.
//! - A second recovery, or one after a crash in the first, finds the same.

mod absorbed;
mod act;
mod case;
mod changes;
mod content;
mod copied;
mod disk;
mod draw;
mod drive;
pub mod eagerfs;
mod examine;
mod explore;
mod fault;
mod lock;
mod log;
mod look;
mod loss;
mod machine;
mod matrix;
mod mix;
mod model;
pub mod mvbt;
mod record;
mod run;
mod sabotage;
mod script;
mod setting;
mod slots;
mod state;
mod subject;
mod timeline;
mod vfs;
mod workload;

pub use act::{Actor, Connections};
pub use case::Case;
pub use changes::Amount;
pub use content::{Content, Image};
pub use disk::{Disk, DiskError};
pub use draw::drawn_setting;
pub use drive::{Faults, Progress, Report, Watch, WorkloadReport};
pub use explore::{Counts, Crash, DEPTH_MAX, Explorer, Seen, Violation, image_after};
pub use fault::{Fault, FaultPlan};
pub use log::{Data, Ino, Mark, Op};
pub use look::{commit_one_more, look};
pub use loss::{Loss, Losses};
pub use machine::Machine;
pub use matrix::{Cell, Outcome, cells, run_cell};
pub use model::{Allowed, Found, NOTHING};
pub use record::{AfterError, BEFORE_THE_RECORDING, Recording, record};
pub use run::{Plan, run, run_unshrunk};
pub use sabotage::Sabotage;
pub use script::{Script, Step};
pub use setting::{Journal, LSMVBT, SQLITE_ALONE, Setting, Synchronous};
pub use slots::{Occurrence, Occurrences};
pub use state::{Choice, Fill, Moment, Tear};
pub use timeline::{Reading, Timeline};
pub use vfs::{Mounted, RegisterError, VFS_NAME, register, seed_sqlite};
pub use workload::Workload;

// SQLite has both B-trees.
use oneflush_sqlite as _;
