//! Oneflush's SQLite VFS.
//!
//! The VFS is a shim over SQLite's default VFS. Every call of `sqlite3_vfs` v3 and
//! `sqlite3_io_methods` v3 arrives in `ffi`. There it becomes a file role, an offset and
//! bytes. `File` counts the call, and a [`Strategy`] carries it out. What the strategy does not
//! change goes to the VFS below exactly as SQLite sent it.
//!
//! ```text
//! SQLite ── ffi::vfs, ffi::io ── File (roles, accounting) ── Strategy ── Below ── "unix" VFS
//!           raw pointers         safe Rust                   safe Rust   ffi::below
//! ```
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. With strategy `stock` the VFS below receives exactly the calls that SQLite made: same order,
//!    same arguments. Its answers reach SQLite unchanged, error codes included.
//! 2. A method or version that the VFS below lacks is lacking in this VFS too. Nothing is promised
//!    for it.
//! 3. No panic crosses a callback. A caught panic becomes an I/O error and a line in SQLite's error
//!    log. It ends the commits of its process to that database, and nobody waits for what it held.
//! 4. No SQLite pointer is kept beyond the life that SQLite gives it. The VFS below lives for ever;
//!    an open file lives from `xOpen` to `xClose`.
//! 5. Every byte that is written through an open file is counted once, under one role of one
//!    database.

mod absorbed_super;
mod calls;
mod canary;
mod config;
mod connection;
mod engine;
mod error;
#[allow(unsafe_code)]
mod ffi;
mod file;
mod file_below;
mod futex;
mod ground;
mod inspect;
mod journal_end;
mod kept_file;
mod kill_point;
mod lock_bytes;
mod message_codes;
#[cfg(not(feature = "mutants"))]
mod mutant;
#[cfg(feature = "mutants")]
pub mod mutant;
mod names;
mod own_file;
mod parameters;
mod path;
mod port;
mod pragma;
mod role;
mod salvage;
mod stats;
mod strategy;
mod super_journal;
mod survey;
mod sync;
#[cfg(test)]
mod test_stubs;
#[cfg(all(test, not(feature = "shuttle")))]
mod test_wal;
mod threads;
mod tried;
mod variables;
mod wal_file;
pub mod who;

pub use config::{Durability, OptionError, Options, StrategyKind};
pub use connection::{Connection, Database};
pub use error::{Code, Error};
#[doc(hidden)]
pub use ffi::carry;
pub use ffi::{RegisterError, has_wal_reset_bug, process_died};
#[cfg(not(feature = "loadable"))]
pub use ffi::{register, register_default};
pub use ground::{Verdict, WalMode, verdicts, wal_mode};
pub use inspect::{
    AsideLog, InspectError, LogContents, Said, guarding_strategy, inspect, open_database,
    remove_leftovers, settle_aside,
};
#[cfg(feature = "kill-points")]
pub use kill_point::KillPoint;
pub use message_codes::without_codes;
pub use oneflush_blocklog::ground::{Fault, Ground};
pub use oneflush_blocklog::messages::VARIABLE as LOG_VARIABLE;
pub use parameters::check_parameters;
pub use path::shown as shown_name;
pub use port::{Below, DeviceCharacteristics, LockLevel, ShmLock, SyncRequest, WalIndex};
pub use role::Role;
pub use salvage::{Aside, SalvageError, Salvaged, Source};
pub use strategy::{SlotCounts, Strategy, count_slots, name_other_side};
pub use survey::{SideFile, Survey, User, survey};
pub use tried::{AtomicProvider, Tried, atomic_providers, tried};

/// The name under which the VFS is registered: `vfs=oneflush` in a URI.
pub const VFS_NAME: &str = "oneflush";

/// The version of this crate; the extension and the program must agree on it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
