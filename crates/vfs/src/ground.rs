//! The ground of a database: whether its file system keeps what a sync promises, and locks as one
//! kernel does.
//!
//! | file system | why | `eager` | `plain` |
//! |---|---|---|---|
//! | NFS, CIFS and SMB, AFS, Ceph, Lustre | another host may change the file | refuses | no WAL |
//! | sshfs, GlusterFS, rclone and others by FUSE | the same | refuses | no WAL |
//! | 9p, virtiofs, vboxsf | the host may keep syncs, and change the file | refuses | no WAL |
//! | other FUSE, not `fuse.oneflush` | its program decides what a sync does | refuses | as stock |
//! | overlay | as its upper directory | | |
//! | ext3, ext4 with `data=writeback` | a crash may show a block's old data | refuses | says so |
//! | any with `nobarrier` or `barrier=0` | a sync does not flush the cache | refuses | says so |
//! | tmpfs, ramfs | nothing outlives a loss of power | see below | nothing to say |
//!
//! "As stock": `plain` says so and then acts as SQLite alone. It tries whether locks keep others
//! out, and else has no WAL mode either. "No WAL": `journal_mode=WAL` is refused, as by a VFS that
//! cannot share memory. SQLite cannot open a database that is in WAL mode. On tmpfs and ramfs
//! `eager` refuses only `durability=full`.
//!
//! What a file system is, `ground.rs` of the crate blocklog says. All else that `eager` relies on
//! is tried, whatever the type: `ffi/board_place.rs`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use oneflush_blocklog::ground::{Fault, Ground};
use serde::Serialize;

use crate::config::{Durability, OptionError, Options, StrategyKind};
use crate::message_codes::without_codes;
use crate::sync::{Mutex, lock};
use crate::tried::Tried;

/// The databases whose ground was already reported.
static SAID: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Called before a database is opened: refuses the open, or leaves out what cannot be done there.
///
/// A message, once for each database, goes to `say`.
pub fn before_open(
    path: &str,
    options: &mut Options,
    say: impl FnOnce(&str),
) -> Result<WalMode, OptionError> {
    if options.strategy == StrategyKind::Stock && !options.has_seatbelt() {
        return Ok(WalMode::Works);
    }
    let Some(Ground { file_system, fault: Some(fault) }) = Ground::of(Path::new(path)) else {
        return Ok(WalMode::Works);
    };
    if let Some(said) = fits(&file_system, fault, options)?
        && lock(&SAID).insert(path.to_owned())
    {
        say(&format!("oneflush: {path}: {said}"));
    }
    Ok(WalMode::with(fault, options))
}

/// Whether a place is safe for WAL mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WalMode {
    #[default]
    Works,
    /// `unsafe_ground=allow`, or there is no seatbelt.
    Allowed,
    /// It works if locks keep others out. That has to be tried.
    WorksIfLocksDo,
    Refused,
}

impl WalMode {
    fn with(fault: Fault, options: &Options) -> WalMode {
        match fault {
            _ if options.allows_unsafe_ground || !options.has_seatbelt() => WalMode::Allowed,
            Fault::Shared => WalMode::Refused,
            Fault::Fuse => WalMode::WorksIfLocksDo,
            Fault::Writeback | Fault::NoBarrier | Fault::Memory => WalMode::Works,
        }
    }
}

/// Whether a database in this place, a folder or a file in it, can have WAL mode with the default
/// options.
pub fn wal_mode(place: &Path) -> WalMode {
    match Ground::of(place) {
        Some(Ground { fault: Some(fault), .. }) => WalMode::with(fault, &Options::default()),
        _ => WalMode::Works,
    }
}

/// What a strategy does in a directory, with the default options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub strategy: &'static str,
    pub refuses: bool,
    /// Why the strategy refuses, or what the user should know.
    pub reason: Option<String>,
}

/// The verdict on each strategy, from what [`crate::tried()`] has found.
pub fn verdicts(directory: &Path, tried: &[Tried]) -> Vec<Verdict> {
    let ground = Ground::of(directory);
    let of = |strategy: StrategyKind| {
        let mut options = Options { strategy, ..Options::default() };
        let judged = match &ground {
            Some(Ground { file_system, fault: Some(fault) }) if strategy != StrategyKind::Stock => {
                fits(file_system, *fault, &mut options)
            }
            _ => Ok(None),
        };
        let (refuses, reason) =
            judged.map_or_else(|error| (true, Some(error.to_string())), |said| (false, said));
        // The other strategies do not look: with them SQLite fails where it needs the missing
        // thing.
        let missing =
            tried.iter().find_map(Tried::fails_eager).filter(|_| strategy.has_log() && !refuses);
        if let Some(missing) = missing {
            return Verdict {
                strategy: strategy.name(),
                refuses: true,
                reason: Some(missing.to_owned()),
            };
        }
        let reason = reason.map(|reason| without_codes(&reason));
        Verdict { strategy: strategy.name(), refuses, reason }
    };
    StrategyKind::ALL.into_iter().map(of).collect()
}

/// Says that a database has no WAL mode in this place, and what to do.
pub fn no_wal(place: &str, why: &str) -> String {
    format!("WAL mode is refused on {place}: {why}, or journal_mode=DELETE [OF-147]")
}

/// What is to be said about the fault. Changes the options where something is left out.
fn fits(
    file_system: &str,
    fault: Fault,
    options: &mut Options,
) -> Result<Option<String>, OptionError> {
    let ground = Ground { file_system: file_system.to_owned(), fault: Some(fault) };
    if options.strategy.has_log() {
        let strategy = options.strategy;
        return match ground.refuses_durable(options.durability == Durability::Full) {
            None => Ok(None),
            Some(fault) if options.allows_unsafe_ground => Ok(Some(format!(
                "{strategy} on {file_system}, as unsafe_ground=allow has it: {fault} [OF-125]"
            ))),
            Some(fault) => {
                Err(OptionError::UnsafeGround { strategy, file_system: ground.file_system, fault })
            }
        };
    }
    if fault == Fault::Memory {
        return Ok(None);
    }
    if !ground.is_shared() || options.allows_unsafe_ground {
        return Ok(Some(format!("on {file_system}: {fault} [OF-124]")));
    }
    options.group_commit = false;
    options.keep_wal = false;
    options.prealloc_bytes = 0;
    options.checkpoints_in_background = false;
    if WalMode::with(fault, options) == WalMode::Refused {
        return Ok(Some(no_wal(file_system, fault.why())));
    }
    Ok(Some(format!("on {file_system} plain does as SQLite alone: {fault} [OF-123]")))
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_refused_with_the_reason_and_the_way_out_unless_it_is_allowed() {
        for strategy in [StrategyKind::Eager, StrategyKind::Waldio] {
            is_refused_with_the_reason(Options { strategy, ..Options::default() });
        }
    }

    fn is_refused_with_the_reason(mut options: Options) {
        for fault in [Fault::Shared, Fault::Fuse, Fault::Writeback, Fault::NoBarrier] {
            options.allows_unsafe_ground = false;
            let message = fits("nfs4", fault, &mut options).unwrap_err().to_string();
            for wanted in [
                options.strategy.name(),
                "nfs4",
                fault.why(),
                "strategy=plain",
                "unsafe_ground=allow",
            ] {
                assert!(message.contains(wanted), "{message}");
            }
            options.allows_unsafe_ground = true;
            let said = fits("nfs4", fault, &mut options).unwrap().unwrap();
            assert!(said.contains("unsafe_ground=allow") && said.contains(fault.why()), "{said}");
        }
        options.allows_unsafe_ground = false;
        assert_eq!(fits("tmpfs", Fault::Memory, &mut options), Ok(None));
        options.durability = Durability::Full;
        assert!(fits("tmpfs", Fault::Memory, &mut options).is_err());
    }

    /// The way out was behind the end of the line. The code may stand in the next one.
    #[test]
    fn what_is_said_of_a_database_fits_a_line_of_sqlites_error_log() {
        const LINE_BYTES: usize = 210;
        let path = "/srv/an-application/with/a-rather-long/name.db";
        for fault in [Fault::Shared, Fault::Fuse, Fault::Writeback, Fault::NoBarrier, Fault::Memory]
        {
            for (strategy, durability) in [
                (StrategyKind::Eager, Durability::Full),
                (StrategyKind::Waldio, Durability::Full),
                (StrategyKind::Plain, Durability::Pragma),
            ] {
                let mut options = Options { strategy, durability, ..Options::default() };
                let said = fits("fuse.sshfs", fault, &mut options)
                    .unwrap_or_else(|error| Some(error.to_string()));
                let line = without_codes(&said.unwrap_or_default());
                let line = format!("oneflush: {path}: {line}");
                assert!(line.len() < LINE_BYTES, "{line}");
            }
        }
    }

    #[test]
    fn plain_does_as_sqlite_alone_where_others_may_share_the_files_and_only_speaks_of_the_rest() {
        let mut options = Options::default();
        assert!(fits("ext4", Fault::Writeback, &mut options).unwrap().is_some());
        assert_eq!(fits("tmpfs", Fault::Memory, &mut options), Ok(None));
        assert_eq!(options, Options::default());
        let mut allowed = Options { allows_unsafe_ground: true, ..Options::default() };
        assert!(fits("9p", Fault::Shared, &mut allowed).unwrap().is_some());
        assert!(allowed.group_commit && allowed.keep_wal);
        assert!(fits("9p", Fault::Shared, &mut options).unwrap().unwrap().contains("9p"));
        let wal_mode = |options| WalMode::with(Fault::Shared, options);
        assert_eq!((wal_mode(&options), wal_mode(&allowed)), (WalMode::Refused, WalMode::Allowed));
        assert!(!options.group_commit && !options.keep_wal && !options.checkpoints_in_background);
        assert_eq!(options.prealloc_bytes, 0);
    }
}
