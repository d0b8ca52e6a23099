//! What stands out, in sentences. Each sentence is computed, has its numbers, says what it rests
//! on, and ends with what to do about it. Where data are thin, nothing is said.

mod compare;
mod doubt;
mod finding;
mod latency;
mod pinned;
mod volume;
mod wal;

use super::collect::Trace;
use super::tables::Tables;
pub use finding::Finding;
use finding::TRANSACTIONS_COUNT_MIN;

/// Traces beside the first one.
pub(super) fn compare(tables: &[Tables]) -> Vec<Finding> {
    compare::findings(tables)
}

/// What stands out in each trace by itself.
pub(super) fn each(traces: &[Trace], tables: &[Tables]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (trace, tables) in traces.iter().zip(tables) {
        if tables.transactions < TRANSACTIONS_COUNT_MIN {
            continue;
        }
        findings.extend(volume::findings(trace, tables));
        findings.extend(pinned::findings(trace, tables));
        findings.extend(wal::findings(trace, tables));
        findings.extend(latency::findings(trace, tables));
        findings.extend(doubt::findings(trace, tables));
    }
    findings
}
