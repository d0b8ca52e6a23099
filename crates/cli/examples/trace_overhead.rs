//! What recording costs a commit: slices of commits with and without the recorder, one after the
//! other, on a scratch ext4.
//!
//! `sudo cargo run --release -p oneflush --example trace_overhead [SLICES]`. A slice lasts a
//! second, ten turns of the recorder: in a short one most of what it recorded would be written
//! after the slice. What it costs while the recorder begins and ends is told apart. Without the
//! recorder, everything else is the same: its thread waits too.

use std::error::Error;
use std::fs::File;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oneflush_measure::place::{FsKind, Place};
use oneflush_trace::record::{Counts, Labels, Options, Recorder, Target};
use rusqlite::Connection;

type Failure = Box<dyn Error + Send + Sync>;

/// Of each kind, unless told otherwise.
const SLICES: usize = 20;
const SLICE: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(100);
/// Beginning and ending take some 0.1 s; without a recorder, so long are these phases.
const EDGE: Duration = Duration::from_millis(100);

/// What the recorder does while a commit is made.
const BEGINS: u8 = 0;
const RECORDS: u8 = 1;
const ENDS: u8 = 2;
const OVER: u8 = 3;

/// Of commits with and without the recorder.
type Latencies = [Vec<u64>; 2];

fn main() -> Result<(), Failure> {
    let slices = std::env::args().nth(1).map_or(Ok(SLICES), |text| text.parse())?;
    let place = Place::scratch(FsKind::Ext4, 1 << 30)?;
    for mode in ["PERSIST", "WAL"] {
        let db = Connection::open(place.path().join(format!("{mode}.db")))?;
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER \
                PRIMARY KEY AUTOINCREMENT, v);"
        ))?;
        let mut latencies_ns: [Latencies; 3] = Default::default();
        let (mut events, mut lost) = (0, 0);
        for slice in 0..2 * slices {
            // Off, on, on, off: what drifts is in both.
            let records = matches!(slice % 4, 1 | 2);
            rustix::fs::syncfs(File::open(place.path())?)?;
            let counts = slice_of(&place, &db, records, &mut latencies_ns)?;
            events += counts.events;
            lost += counts.lost;
        }
        for (phase, latencies_ns) in ["begins", "records", "ends"].iter().zip(&mut latencies_ns) {
            tell(mode, phase, latencies_ns);
        }
        println!("{mode}: {events} events, {lost} lost");
    }
    Ok(())
}

fn tell(mode: &str, phase: &str, latencies_ns: &mut Latencies) {
    let figures = latencies_ns.each_mut().map(|latencies_ns| {
        latencies_ns.sort_unstable();
        let count = latencies_ns.len();
        let at = |share: f64| {
            latencies_ns
                .get((count as f64 * share) as usize)
                .map_or(f64::NAN, |&latency_ns| latency_ns as f64 / 1000.0)
        };
        let mean = latencies_ns.iter().sum::<u64>() as f64 / count as f64 / 1000.0;
        (count, at(0.5), at(0.95), mean)
    });
    for (what, (count, p50, p95, mean)) in [("without", figures[0]), ("recorded", figures[1])] {
        println!(
            "{mode} {what:>8} {phase:>7}: {count:>6} commits, p50 {p50:.1} us, p95 {p95:.1} us, \
                mean {mean:.1} us"
        );
    }
    let [(_, p50, _, mean), (_, recorded_p50, _, recorded_mean)] = figures;
    println!(
        "{mode} {phase}: p50 {:+.1} %, time {:+.1} %",
        (recorded_p50 / p50 - 1.0) * 100.0,
        (recorded_mean / mean - 1.0) * 100.0
    );
}

/// Commits go on in this thread through all three phases.
fn slice_of(
    place: &Place,
    db: &Connection,
    records: bool,
    latencies_ns: &mut [Latencies; 3],
) -> Result<Counts, Failure> {
    let out = tempfile::tempfile()?;
    let target = Target::of_directory(place.path())?;
    let phase = AtomicU8::new(BEGINS);
    thread::scope(|scope| {
        let turns = scope.spawn(|| -> Result<Counts, Failure> {
            let counts = phases(&phase, records.then_some((target, out)));
            // Also after a failure, for which the commits must not go on without end.
            phase.store(OVER, Ordering::Relaxed);
            counts
        });
        loop {
            let now = phase.load(Ordering::Relaxed);
            let Some(latencies_ns) = latencies_ns.get_mut(usize::from(now)) else { break };
            let commit = Instant::now();
            db.execute("INSERT INTO t(v) VALUES(zeroblob(100))", [])?;
            latencies_ns[usize::from(records)].push(commit.elapsed().as_nanos() as u64);
        }
        turns.join().map_err(|_| "the recorder panicked")?
    })
}

fn phases(phase: &AtomicU8, recording: Option<(Target, File)>) -> Result<Counts, Failure> {
    let Some((target, out)) = recording else {
        thread::sleep(EDGE);
        phase.store(RECORDS, Ordering::Relaxed);
        let begun = Instant::now();
        while begun.elapsed() < SLICE {
            thread::sleep(TURN);
        }
        phase.store(ENDS, Ordering::Relaxed);
        thread::sleep(EDGE);
        return Ok(Counts::default());
    };
    let mut recorder = Recorder::start(
        Options {
            targets: target.into(),
            process: None,
            sched: false,
            syscalls: false,
            labels: Labels::default(),
        },
        out,
    )?;
    phase.store(RECORDS, Ordering::Relaxed);
    let begun = Instant::now();
    while begun.elapsed() < SLICE {
        recorder.turn(TURN)?;
    }
    phase.store(ENDS, Ordering::Relaxed);
    Ok(recorder.finish()?)
}
