//! What to know before one believes the other findings.

use super::finding::{Finding, finding, share};
use crate::identify::Reason;
use crate::report::collect::Trace;
use crate::report::tables::Tables;
use crate::report::tally::CONFIDENCE_MIN;
use crate::report::words::{count, percent};

const UNSURE_SHARE_MIN: f64 = 0.1;

pub(super) fn findings(trace: &Trace, tables: &Tables) -> Vec<Finding> {
    let unsure: u64 = trace.tally.unsure.iter().map(|(_, number)| number).sum();
    let of_all = share(unsure, tables.transactions);
    if of_all < UNSURE_SHARE_MIN {
        return Vec::new();
    }
    let Some(&(reason, number)) = trace.tally.unsure.iter().max_by_key(|reason| reason.1) else {
        return Vec::new();
    };
    let text = format!(
        "{} of the transactions are not told apart for certain, mostly for this reason: {reason}.",
        percent(of_all)
    );
    let basis = format!(
        "confidence below {CONFIDENCE_MIN} in {} of {} transactions, for this reason in {}",
        count(unsure),
        count(tables.transactions),
        count(number),
    );
    vec![finding("doubt", tables, text, basis, action(reason))]
}

/// What a trace needs to be sure.
fn action(reason: Reason) -> &'static str {
    match reason {
        Reason::NoNames | Reason::DeleteOrTruncate | Reason::Joint | Reason::OnePageJournal => {
            "Record with `sudo oneflush trace --dir DIR -o FILE`, which has the files' names."
        }
        Reason::Batch | Reason::Lock | Reason::Unsynced => {
            "Record with `sudo oneflush trace --syscalls --dir DIR -o FILE`, which has each \
                commit's own calls."
        }
        Reason::NoJournal => {
            "Ask the program's connection for PRAGMA journal_mode: MEMORY and OFF leave no journal \
                to see."
        }
        Reason::LockAlone => {
            "Compare with what the program counts itself: `commits` of PRAGMA oneflush_stats."
        }
        Reason::Other => "Use the version of oneflush that identified the transactions.",
        Reason::Whole | Reason::Single | Reason::Neighbours | Reason::Shared | Reason::Carries => {
            "Record longer: `sudo oneflush trace --dir DIR -o FILE`. More transactions of a \
                database tell its mode."
        }
    }
}
