//! What a strategy writes once: zeros for the space of its WAL or log, ahead of their use. Of a
//! short run they are most of the bytes, and of a long one nothing. So they stand apart, with the
//! commit from which on the total is lower than without them.

use super::format::{kilobytes, megabytes};
use super::to_stock::stock_of;
use super::{Figures, ModeReport, Report};

/// Less is no line in any picture.
const BYTES_MIN: f64 = 1024.0;

/// Once, in a round. None: nothing, or nobody knows.
pub fn bytes(mode: &ModeReport) -> Option<f64> {
    mode.median.laid_out_bytes.filter(|bytes| *bytes >= BYTES_MIN)
}

/// A sentence for each mode that laid something out.
pub fn sentences(report: &Report) -> Vec<String> {
    // SQLite without our VFS counts nothing in a directory, and `stock` does.
    let counted = |mode: &&ModeReport| mode.median.bytes_per_transaction.is_some();
    let all: Vec<&ModeReport> = report.modes.iter().filter(counted).collect();
    let sentence = |mode: &&ModeReport| {
        let (laid_out, each) = (bytes(mode)?, mode.median.bytes_per_transaction?);
        let one = report.unit.singular();
        let mut text = format!(
            "{}: once {} MB for space ahead, then {} KB a {one}",
            report.label(mode),
            megabytes(laid_out),
            kilobytes(each)
        );
        if let Some(stock) = stock_of(mode, &all)
            && let Some(of_stock) = stock.median.bytes_per_transaction
        {
            text += &format!(" ({} with {})", kilobytes(of_stock), report.label(stock));
            text += &match lower_from(&mode.median, &stock.median) {
                Some(from) if from <= mode.median.transactions => {
                    format!("; in all less from {one} {from} on")
                }
                Some(from) => format!("; in all less from {one} {from} on, by these figures"),
                None => "; in all not less".to_owned(),
            };
        }
        Some(text + ".")
    };
    report.modes.iter().filter_map(|mode| sentence(&mode)).collect()
}

/// The first commit after which one has written less than the other in all. None: there is none.
fn lower_from(own: &Figures, other: &Figures) -> Option<u64> {
    let saved = other.bytes_per_transaction? - own.bytes_per_transaction?;
    let ahead = own.laid_out_bytes? - other.laid_out_bytes.unwrap_or_default();
    (saved > 0.0).then(|| (ahead.max(0.0) / saved) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::super::sample::{self, latency, mode, report};
    use super::*;

    fn written(name: &str, transactions: u64, kb_each: f64, mb_once: f64) -> ModeReport {
        let figures = Figures {
            transactions,
            bytes_per_transaction: Some(kb_each * 1024.0),
            laid_out_bytes: Some(mb_once * (1 << 20) as f64),
            ..sample::round(1000.0, latency(1_000_000, 2_000_000))
        };
        mode(name, 1, vec![figures])
    }

    /// At `-n 500` the log had 21.0 KB a commit, and SQLite's WAL 12.6: the opposite of what a
    /// program finds that runs for longer than a second.
    #[test]
    fn a_short_run_says_from_which_commit_on_the_total_is_lower() {
        let of = |transactions| {
            sentences(&report(vec![
                written("wal", transactions, 12.6, 0.0),
                written("wal:eager", transactions, 4.4, 8.1),
            ]))
        };
        let words = "wal:eager: once 8.10 MB for space ahead, then 4.4 KB a transaction (12.6 with \
            wal); in all less from transaction 1012 on";
        assert_eq!(of(500), [format!("{words}, by these figures.")]);
        assert_eq!(of(5000), [format!("{words}.")]);
    }

    #[test]
    fn what_nobody_counted_is_no_comparison_where_there_is_another() {
        let mut alone = written("wal:sqlite", 500, 0.0, 0.0);
        alone.median.bytes_per_transaction = None;
        let found = sentences(&report(vec![
            alone,
            written("wal", 500, 12.6, 0.0),
            written("wal:eager", 500, 4.4, 8.1),
        ]));
        assert!(found[0].contains("(12.6 with wal); in all less from"), "{found:?}");
    }

    #[test]
    fn what_writes_as_much_never_gets_its_space_back() {
        let found = sentences(&report(vec![
            written("wal", 500, 12.5, 0.0),
            written("wal:plain", 500, 12.5, 1.0),
        ]));
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("(12.5 with wal); in all not less."), "{found:?}");
        assert!(sentences(&report(vec![written("wal", 500, 12.5, 0.0)])).is_empty());
    }

    #[test]
    fn the_total_is_lower_right_after_that_commit() {
        let mut random = fastrand::Rng::with_seed(oneflush_testing::seed());
        for _ in 0..10_000 {
            let own = written("wal:eager", 1, random.f64() * 20.0, random.f64() * 20.0).median;
            let other = written("wal", 1, random.f64() * 20.0, random.f64() * 2.0).median;
            let total = |figures: &Figures, commits: u64| {
                figures.laid_out_bytes.unwrap()
                    + figures.bytes_per_transaction.unwrap() * commits as f64
            };
            let lower = |commits| total(&own, commits) < total(&other, commits);
            match lower_from(&own, &other) {
                // So far away the sums are not exact.
                Some(from) if from > 100_000_000 => {}
                Some(from) => {
                    assert!(lower(from) && lower(from + 1000), "{from}");
                    assert!(from == 1 || !lower(from - 1), "{from}");
                }
                None => assert!(!lower(1_000_000_000) || lower(0)),
            }
        }
    }
}
