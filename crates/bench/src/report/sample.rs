//! A report whose figures are given, for tests.

use std::collections::BTreeMap;

use super::{Figures, FloorFigures, LatencyFigures, ModeReport, Report};
use oneflush_measure::environment::Environment;
use oneflush_measure::run::Workers;
use oneflush_measure::run::latency::Buckets;
use oneflush_measure::run::timeline::TimelineFigures;
use oneflush_measure::workload::Unit;

/// Most as long as the one in the middle.
pub fn latency(p50: u64, max: u64) -> LatencyFigures {
    LatencyFigures { mean: p50, p50, p95: p50, p99: p50, p999: p50, max }
}

/// A round that nobody counted.
pub fn round(rate: f64, latency_ns: LatencyFigures) -> Figures {
    Figures {
        transactions: 2000,
        seconds: 1.0,
        transactions_per_s: rate,
        latency_ns,
        cpu_us_per_transaction: 50.0,
        counted_at: None,
        bytes_per_transaction: None,
        laid_out_bytes: None,
        writes_per_transaction: None,
        flushes_per_transaction: None,
        bytes_per_transaction_by_class: BTreeMap::new(),
        writes_per_transaction_by_class: BTreeMap::new(),
        request_sectors_mean: None,
        sequential_ratio: None,
        flash: None,
        calls_per_transaction: None,
        trace_events_lost: 0,
        unattributed_ratio: 0.0,
        wal_bytes_at_end: None,
        phases: Vec::new(),
        beside: None,
    }
}

pub fn mode(mode: &str, connections: u32, rounds: Vec<Figures>) -> ModeReport {
    ModeReport {
        mode: mode.parse().unwrap(),
        connections,
        guest: None,
        median: Figures::median(&rounds),
        rounds,
        to_control: None,
        latency_histogram_ns: Buckets::default(),
        latency_timeline: TimelineFigures::default(),
        vfs_stats: Vec::new(),
        failed_statements: BTreeMap::new(),
        same_contents_in_all_rounds: None,
        contents_fingerprint: None,
    }
}

pub fn report(modes: Vec<ModeReport>) -> Report {
    let mut connections: Vec<u32> = modes.iter().map(|mode| mode.connections).collect();
    connections.dedup();
    Report {
        environment: Environment {
            oneflush_version: "0.1.0".to_owned(),
            profile: "release".to_owned(),
            date: "2026-11-26T10:33:54Z".to_owned(),
            kernel: "6.18.44-a-long-name x86_64".to_owned(),
            sqlite_version: "3.54.1".to_owned(),
            sqlite_source_id: String::new(),
            place: "ext4 on a 1 GiB loop device, direct I/O".to_owned(),
            fs: "ext4".to_owned(),
            mount_options: "rw,relatime,seclabel,data=ordered".to_owned(),
            device: None,
            cpu_model: "Some Maker's Processor With a Long Name 9999X 64-Core".to_owned(),
            cpu_count: 128,
            memory_bytes: 1,
        },
        workload: "insert one row of 100 bytes a transaction".to_owned(),
        unit: Unit::Transaction,
        rounds: modes.first().map_or(0, |mode| mode.rounds.len() as u32),
        connections,
        workers: Workers::Threads,
        rate: None,
        busy_loops: 0,
        in_turns: false,
        counted_at: None,
        floor: FloorFigures {
            p50_ns: 150_000,
            p99_ns: 200_000,
            max_ns: 400_000,
            writes: 1200,
            direct_io: true,
        },
        modes,
        recording: None,
        conclusion: String::new(),
        notes: Vec::new(),
    }
}
