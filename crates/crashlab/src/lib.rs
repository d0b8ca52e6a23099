//! A simulated disk that loses power, with real SQLite on top.
//!
//! ```text
//! Script ── record ── SQLite ── strategy ── vfs ── Disk ──▶ log of operations and marks
//!                                                             │ timeline: durable, in flight
//!  verdict ◀── model ◀── examine ◀── SQLite ◀── image ◀── state: what survives
//! ```
//!
//! A script runs once, on a disk that records. From the log follow all the states that a loss of power could have left,
//! before the first operation and after every one of them; each is mounted anew and opened by real SQLite.
//!
//! **The fault model.**
//! - Until a sync, any subset of a file's writes may be on the medium, in any order: whole, in any of their 512-byte sectors, or
//!   in any of their 4 KiB blocks; in the weak reading, a sector in flight may hold garbage. Bytes beside those written are
//!   never changed (powersafe overwrite, as SQLite's "unix" VFS claims it).
//! - Where a file grew and the data is lost, it has its old size, or zeros; in the weak reading also garbage or stale data.
//! - Creations, unlinks and renames become durable as one of two [`Reading`]s says: ext4's ordered mode or weak POSIX.
//! - Up to 12 operations in flight all subsets are tried, and each once more torn; with more, 1,000 samples by seed before each
//!   sync, and 32 after every other operation.
//! - Power is lost again during recoveries, to depth 3, at moments drawn by seed.
//! - A sync that fails leaves each sector that it covered written or not, by seed, for good: a later sync does not
//!   write it (Linux marks it clean). The running process still reads what it wrote. In the workloads with several processes every file that
//!   was open is told of it once, by its next sync (Linux since 4.13); in the others only who asked for the sync. After it, bytes of a WAL
//!   that are written again as they are on the medium do not become garbage: who mends cannot know what another's sync has saved.
//! - Each operation of a run fails with EIO, ENOSPC, a short write or a failed sync, once or from then on, and the application
//!   goes on, reopens or dies (`matrix.rs`).
//! - Locks and shared memory end with the power. `PRAGMA mmap_size` has no effect here.
//!
//! **The oracle.** What SQLite finds must be a state of the commit order, all of it, not older than the last acknowledged commit
//! whose setting promised durability, and not newer than the last commit that was begun; `integrity_check` must say ok; and
//! a second recovery, or one after a crash in the first, must find the same.

mod case;
mod changes;
mod content;
mod disk;
mod examine;
mod explore;
mod fault;
mod log;
mod loss;
mod matrix;
mod mix;
mod model;
mod record;
mod run;
mod sabotage;
mod script;
mod setting;
mod state;
mod timeline;
mod vfs;
mod workload;

pub use case::Case;
pub use content::{Content, Image};
pub use disk::{Disk, DiskError};
pub use explore::{Counts, Crash, DEPTH_MAX, Explorer, Seen, Violation};
pub use fault::{Fault, FaultPlan};
pub use log::{Data, Ino, Mark, Op};
pub use loss::{Loss, Losses};
pub use matrix::{Cell, Outcome, cells, run_cell};
pub use model::{Allowed, Found};
pub use record::{AfterError, BEFORE_THE_RECORDING, Recording, record};
pub use run::{Faults, Plan, Progress, Report, WorkloadReport, run, run_unshrunk};
pub use sabotage::Sabotage;
pub use script::{Script, Step};
pub use setting::{Journal, SQLITE_ALONE, Setting, Synchronous};
pub use state::{Choice, Fill, Tear};
pub use timeline::Reading;
pub use vfs::{Mounted, RegisterError, VFS_NAME, register, seed_sqlite};
pub use workload::Workload;
