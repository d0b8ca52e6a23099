//! A table as one JSON object on a line.

use oneflush_trace::live::{Figures, Load, Row, Snapshot};
use serde::Serialize;

use super::view::View;

#[derive(Serialize)]
struct Table {
    device: String,
    /// What the figures are of, at most 10.
    window_s: f64,
    written_bytes_per_s: f64,
    flushes_per_s: f64,
    no_transaction: Rest,
    /// Events, since the begin.
    lost: u64,
    total: Columns,
    /// In the order of `--sort`.
    databases: Vec<OfDatabase>,
}

#[derive(Serialize)]
struct Rest {
    written_bytes_per_s: f64,
    flushes_per_s: f64,
}

/// Null where there are no transactions.
#[derive(Serialize)]
struct Columns {
    transactions_per_s: f64,
    bytes_per_transaction: Option<f64>,
    flushes_per_transaction: Option<f64>,
    p99_ms: Option<f64>,
    /// 0 to 1.
    journaling_share: Option<f64>,
}

#[derive(Serialize)]
struct OfDatabase {
    database: String,
    journal_mode: String,
    synchronous: String,
    /// Who committed last, and how many did in the window.
    process: Option<String>,
    pid: Option<u32>,
    processes: usize,
    /// False where all but the rate is of one transaction before the window.
    current: bool,
    #[serde(flatten)]
    columns: Columns,
}

impl Columns {
    fn new(transactions_per_s: f64, figures: &Figures) -> Columns {
        Columns {
            transactions_per_s,
            bytes_per_transaction: figures.bytes_each(),
            flushes_per_transaction: figures.flushes_each(),
            p99_ms: figures.p99_ms(),
            journaling_share: figures.journaling_share(),
        }
    }
}

impl OfDatabase {
    fn new(row: Row) -> OfDatabase {
        OfDatabase {
            database: row.database.to_string(),
            journal_mode: row.journal_mode.to_string(),
            synchronous: row.synchronous.to_string(),
            process: row.owner.name,
            pid: row.owner.id,
            processes: row.figures.processes(),
            current: row.is_current,
            columns: Columns::new(row.rate, &row.figures),
        }
    }
}

pub fn line(view: &View, mut snapshot: Snapshot) -> String {
    view.sorted(&mut snapshot);
    let each_second =
        |number: u64| if snapshot.seconds > 0.0 { number as f64 / snapshot.seconds } else { 0.0 };
    let Load { bytes, flushes } = snapshot.no_transaction;
    let table = Table {
        device: view.described.clone(),
        window_s: snapshot.seconds,
        written_bytes_per_s: each_second(snapshot.device.bytes),
        flushes_per_s: each_second(snapshot.device.flushes),
        no_transaction: Rest {
            written_bytes_per_s: each_second(bytes),
            flushes_per_s: each_second(flushes),
        },
        lost: snapshot.lost,
        total: Columns::new(snapshot.total_rate, &snapshot.total),
        databases: snapshot.rows.into_iter().map(OfDatabase::new).collect(),
    };
    serde_json::to_string(&table).expect("numbers and texts are JSON")
}
