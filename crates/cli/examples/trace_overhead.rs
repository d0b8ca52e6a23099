//! What recording costs a commit: slices of commits with and without the recorder, one after the other, on a scratch ext4.
//!
//! `sudo cargo run --release -p oneflush --example trace_overhead [SLICES]`. Without the recorder, everything else is the same:
//! its thread waits too.

use std::error::Error;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oneflush_bench::place::{FsKind, Place};
use oneflush_trace::record::{Options, Recorder, Target};
use rusqlite::Connection;

/// Of each kind, unless told otherwise.
const SLICES: usize = 40;
const COMMITS: usize = 250;

fn main() -> Result<(), Box<dyn Error>> {
    let slices = std::env::args().nth(1).map_or(Ok(SLICES), |text| text.parse())?;
    let place = Place::scratch(FsKind::Ext4, 1 << 30)?;
    for mode in ["PERSIST", "WAL"] {
        let db = Connection::open(place.path().join(format!("{mode}.db")))?;
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v);"
        ))?;
        let mut latencies_ns = [Vec::new(), Vec::new()];
        let mut seconds = [0.0; 2];
        for slice in 0..2 * slices {
            // Off, on, on, off: what drifts is in both.
            let records = matches!(slice % 4, 1 | 2);
            let kind = usize::from(records);
            rustix::fs::syncfs(File::open(place.path())?)?;
            let begun = slice_of(&place, &db, records, &mut latencies_ns[kind])?;
            seconds[kind] += begun.as_secs_f64();
        }
        for (what, kind) in [("without", 0), ("recorded", 1)] {
            let latencies_ns = &mut latencies_ns[kind];
            latencies_ns.sort_unstable();
            let at = |share: f64| latencies_ns[(latencies_ns.len() as f64 * share) as usize] as f64 / 1000.0;
            let per_second = latencies_ns.len() as f64 / seconds[kind];
            println!("{mode} {what:>8}: p50 {:.1} us, p95 {:.1} us, {per_second:.0} commits/s", at(0.5), at(0.95));
        }
        let p50 = |kind: usize| latencies_ns[kind][latencies_ns[kind].len() / 2] as f64;
        println!(
            "{mode}: p50 {:+.1} %, time {:+.1} %",
            (p50(1) / p50(0) - 1.0) * 100.0,
            (seconds[1] / seconds[0] - 1.0) * 100.0
        );
    }
    Ok(())
}

fn slice_of(
    place: &Place,
    db: &Connection,
    records: bool,
    latencies_ns: &mut Vec<u64>,
) -> Result<Duration, Box<dyn Error>> {
    let out = tempfile::tempfile()?;
    let recorder = if records {
        let target = Target::of_directory(place.path())?;
        Some(Recorder::start(Options { target, process: None, sched: false, syscalls: false }, out)?)
    } else {
        None
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<Duration, Box<dyn Error>> {
        let turns = scope.spawn(|| {
            let Some(mut recorder) = recorder else { return Ok(()) };
            while !over.load(Ordering::Relaxed) {
                recorder.turn(Duration::from_millis(100))?;
            }
            recorder.finish().map(drop)
        });
        let begun = Instant::now();
        for _ in 0..COMMITS {
            let commit = Instant::now();
            db.execute("INSERT INTO t(v) VALUES(zeroblob(100))", [])?;
            latencies_ns.push(commit.elapsed().as_nanos() as u64);
        }
        let elapsed = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        turns.join().map_err(|_| "the recorder panicked")??;
        Ok(elapsed)
    })
}
