//! Options of the benchmark into its plan, or what is wrong with them.

use std::time::Duration;

use oneflush_measure::mode::{Journal, Mode, Synchronous};
use oneflush_measure::place::{FsKind, Storage};
use oneflush_measure::run::busy::Busy;
use oneflush_measure::run::{PlaceChoice, Plan, Rounds, Workers};
use oneflush_measure::workload::{
    Access, FileTrace, Files, LongReader, Mobibench, Operation, Reads, Replay, Workload,
};

use super::options::{Device, Options, WorkerKind};
use crate::failure::Failure;

/// Of the scratch file system.
const DEFAULT_SIZE_GIB: u64 = 1;
const DEFAULT_ROUNDS_MAX: u32 = 5;
const DEFAULT_ROUNDS_TIME: Duration = Duration::from_secs(60);

const DEFAULT_MODES: &str = "delete,truncate,persist,wal-growing,wal,memory";
const DEFAULT_MODES_IN_TURNS: &str = "wal:sqlite,wal:plain,wal:eager";
const DEFAULT_MODES_OF_FILES: &str = "files,files:mounted";

pub fn plan(options: &Options) -> Result<Plan, Failure> {
    let workload = workload(options)?;
    let connections = match &workload {
        Workload::Replay(replay) => vec![replay.connections()],
        Workload::FileTrace(_) => vec![1],
        _ => options.connections.clone(),
    };
    let modes = modes(options, &workload)?;
    if let Some(mode) = modes.iter().find(|mode| !workload.fits(mode)) {
        let message = if mode.is_files() {
            format!(
                "mode {mode} is for workloads without SQLite: append, overwrite, stream and such"
            )
        } else {
            format!("mode {mode}: this workload is without SQLite; use {DEFAULT_MODES_OF_FILES}")
        };
        return Err(Failure::usage(message));
    }
    if let (Workload::Reads(Reads { access: Access::PointInWal, .. }), Some(mode)) =
        (&workload, modes.iter().find(|mode| mode.journal != Journal::Wal))
    {
        let message = format!("--workload point-in-wal: mode {mode} begins without a WAL; use wal");
        return Err(Failure::usage(message));
    }
    if let (Workload::LongReader(_), Some(mode)) =
        (&workload, modes.iter().find(|mode| !mode.journal.is_wal() && !mode.is_lsmvbt()))
    {
        let message = format!(
            "--workload long-reader: in mode {mode} a reader keeps all writers out; use wal or \
                wal-growing"
        );
        return Err(Failure::usage(message));
    }
    let has_turns = match &workload {
        Workload::Reads(_) | Workload::Table(_) => true,
        Workload::Files(files) => {
            matches!(files, Files::Append | Files::Overwrite | Files::CachedRead)
        }
        _ => false,
    };
    if options.in_turns && !has_turns {
        let message = "--in-turns needs --workload point or scan, or one whose transactions change \
            a row: insert, indexed and such; or append, overwrite, cached-read";
        return Err(Failure::usage(message));
    }
    if options.in_turns && modes.iter().any(|mode| mode.journal == Journal::WalGrowing) {
        return Err(Failure::usage(
            "--in-turns: the database of mode wal-growing begins anew; use wal",
        ));
    }
    if options.in_turns && (options.connections != [1] || options.workers != WorkerKind::Threads) {
        return Err(Failure::usage(
            "--in-turns is for one connection, a thread; leave --connections and --as out",
        ));
    }
    let program = || std::env::current_exe().map_err(Failure::failed);
    let workers = match options.workers {
        WorkerKind::Threads => Workers::Threads,
        WorkerKind::Processes => Workers::Processes { program: program()? },
    };
    let busy = match options.busy {
        0 => None,
        loops => Some(Busy { loops, program: program()? }),
    };
    Ok(Plan {
        place: place_choice(options, &workload)?,
        modes,
        workload,
        transactions: options.txns,
        rounds: match options.rounds {
            Some(count) => Rounds { max: count, within: None },
            None => Rounds { max: DEFAULT_ROUNDS_MAX, within: Some(DEFAULT_ROUNDS_TIME) },
        },
        connections,
        workers,
        rate: options.rate,
        busy,
        in_turns: options.in_turns,
        floor_writes: options.floor_writes,
        keep_trace: options.keep_trace.clone(),
        program: program()?,
    })
}

fn place_choice(options: &Options, workload: &Workload) -> Result<PlaceChoice, Failure> {
    let gib = if matches!(workload, Workload::LongReader(_)) { 8 } else { DEFAULT_SIZE_GIB };
    place_of_size(options, gib << 30)
}

pub fn storage(options: &Options) -> Result<Storage, Failure> {
    Ok(match options.device {
        Some(Device::Flash(kind)) => {
            Storage::Flash { kind, program: std::env::current_exe().map_err(Failure::failed)? }
        }
        _ => Storage::File,
    })
}

pub fn place_of_size(options: &Options, default_bytes: u64) -> Result<PlaceChoice, Failure> {
    let default_bytes = match options.device {
        Some(Device::Flash(kind)) => default_bytes.max(kind.bytes_least()),
        _ => default_bytes,
    };
    let size_bytes = options.size.unwrap_or(default_bytes);
    Ok(match (&options.dir, options.fs, options.device) {
        (Some(dir), ..) => PlaceChoice::Directory(dir.clone()),
        (None, None, None) => PlaceChoice::for_this_user(size_bytes),
        (None, fs, _) => PlaceChoice::Scratch {
            fs: fs.unwrap_or(FsKind::Ext4),
            size_bytes,
            storage: storage(options)?,
        },
    })
}

fn modes(options: &Options, workload: &Workload) -> Result<Vec<Mode>, Failure> {
    if options.mobibench && options.modes.is_none() {
        let journals = [
            Journal::Delete,
            Journal::Truncate,
            Journal::Persist,
            Journal::WalGrowing,
            Journal::Memory,
            Journal::Off,
        ];
        let levels = [Synchronous::Off, Synchronous::Normal, Synchronous::Full];
        let journal = journals[usize::from(options.journal)];
        return Ok(vec![Mode {
            synchronous: levels[usize::from(options.synchronous)],
            ..Mode::new(journal)
        }]);
    }
    let default = match workload {
        Workload::Files(_) | Workload::FileTrace(_) => DEFAULT_MODES_OF_FILES,
        _ if options.in_turns => DEFAULT_MODES_IN_TURNS,
        _ => DEFAULT_MODES,
    };
    let list = options.modes.as_deref().unwrap_or(default);
    Mode::parse_list(list).map_err(|error| Failure::usage(format!("--modes {list}: {error}")))
}

fn workload(options: &Options) -> Result<Workload, Failure> {
    if let Some(directory) = &options.sql {
        return Replay::open(directory, options.serial)
            .map(Workload::Replay)
            .map_err(Failure::failed);
    }
    // Not by clap, which requires nothing that another option excludes.
    if let Some(recording) = &options.replay {
        return FileTrace::open(recording, options.think)
            .map(Workload::FileTrace)
            .map_err(Failure::failed);
    }
    if options.think > 0.0 {
        return Err(Failure::usage("--think needs --replay FILE"));
    }
    if options.serial {
        return Err(Failure::usage("--serial needs --sql DIR"));
    }
    if !options.mobibench {
        return chosen(options);
    }
    Ok(Workload::Mobibench(Mobibench {
        operation: [Operation::Insert, Operation::Update, Operation::Delete]
            [usize::from(options.operation)],
        tables: options.tables,
        databases: options.databases,
        interval_ms: options.interval_ms,
        random_insert: options.random_insert.is_some(),
    }))
}

/// The workload of `--workload`, with the options that only some have.
fn chosen(options: &Options) -> Result<Workload, Failure> {
    let wrong =
        |option: &str, fits: &str| Err(Failure::usage(format!("{option} needs --workload {fits}")));
    let interval =
        |rate: Option<f64>| rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
    match (&options.workload, options.beside_writer.map(interval), options.hold) {
        (Workload::LongReader(_), None, hold) => {
            Ok(Workload::LongReader(LongReader { hold: hold.unwrap_or(LongReader::DEFAULT_HOLD) }))
        }
        // The writer's checkpoints would take the pages out of the WAL.
        (Workload::Reads(Reads { access: Access::PointInWal, .. }), Some(_), _) => {
            wrong("--beside-writer", "point or scan")
        }
        (Workload::Reads(reads), beside_writer, None) => {
            Ok(Workload::Reads(Reads { beside_writer, ..*reads }))
        }
        (other, None, None) => Ok(other.clone()),
        (_, Some(_), _) => wrong("--beside-writer", "point or scan"),
        (_, None, Some(_)) => wrong("--hold", "long-reader"),
    }
}
