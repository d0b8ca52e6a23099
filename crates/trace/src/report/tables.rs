//! Tables 2 to 6 of the paper, and what its Figures 18, 20, 22, 23 and 24 draw, of one trace. KB
//! are 1,024 bytes.

use serde::Serialize;

use super::by_class::ByClass;
use super::collect::Trace;
use super::databases::{self, DatabaseRow};
use super::quantiles::{Curve, Quantiles};
use super::values::Values;
use super::words;

const NS_PER_MS: f64 = 1e6;
const BYTES_PER_KB: f64 = 1024.0;

/// All figures of one trace. Quantiles of no transactions are 0. What the trace lacks is not a
/// number, and null in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Tables {
    pub trace: String,
    pub name: String,
    pub format: String,
    /// Not a number without times.
    pub seconds: f64,
    pub events: u64,
    pub transactions: u64,
    pub rolled_back: u64,
    /// Transactions of which the trace holds only a part.
    pub cut_off: u64,
    pub notes: Vec<String>,
    /// `None` if no device was observed. Then there is nothing of the file system either.
    pub flushes: Option<u64>,
    /// Table 2, Figure 18.
    pub latency_ms: Quantiles,
    pub latency_curve: Curve,
    /// Table 3, Figure 20: all classes together.
    pub kb: Quantiles,
    pub kb_curve: Curve,
    /// Table 4, Figures 22 and 23. A transaction without bytes of a class counts with 0.
    pub kb_by_class: ByClass<Quantiles>,
    pub kb_by_class_curves: ByClass<Curve>,
    /// Table 5, Figure 24.
    pub bytes: ByClass<u64>,
    pub databases_count: u64,
    /// Table 6, all databases, those with most transactions first.
    pub databases: Vec<DatabaseRow>,
}

impl Tables {
    pub fn new(trace: &Trace) -> Tables {
        let tally = &trace.tally;
        let class = |class: usize| &tally.by_class[class];
        let (has_latencies, shares_bytes) = (tally.latencies.count() > 0, tally.shares_bytes());
        let volumes = |values: &Values| match values.quantiles(BYTES_PER_KB) {
            quantiles if shares_bytes => quantiles.of_average(),
            quantiles => quantiles,
        };
        let curve = |values: &Values| match shares_bytes {
            true => Curve::default(),
            false => values.curve(BYTES_PER_KB),
        };
        let mut notes = trace.notes.clone();
        if shares_bytes && tally.count > 0 {
            notes.push(format!(
                "{} transactions were written together with others: of KB a transaction only the \
                 average is known",
                words::count(tally.sharing_count)
            ));
        }
        let databases = databases::rows(trace);
        Tables {
            trace: trace.label.clone(),
            name: trace.name.clone(),
            format: trace.format.clone(),
            seconds: match trace.has_no_times {
                true => f64::NAN,
                false => (trace.end_ns - trace.begin_ns) as f64 / 1e9,
            },
            events: trace.events,
            transactions: tally.count,
            rolled_back: tally.rolled_back.count,
            cut_off: trace.partial_count,
            notes,
            flushes: (!trace.is_of_calls).then_some(tally.flushes),
            latency_ms: match has_latencies || tally.count == 0 {
                true => tally.latencies.quantiles(NS_PER_MS),
                false => Quantiles::UNKNOWN,
            },
            latency_curve: tally.latencies.curve(NS_PER_MS),
            kb: volumes(&tally.volumes),
            kb_curve: curve(&tally.volumes),
            kb_by_class: ByClass::of(|number| volumes(class(number))),
            kb_by_class_curves: ByClass::of(|number| curve(class(number))),
            bytes: tally.bytes,
            databases_count: databases.len() as u64,
            databases,
        }
    }
}
