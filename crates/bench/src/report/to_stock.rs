//! Each mode beside stock SQLite of the same run: which is slower, and by how much.
//!
//! Stock SQLite of a mode has the same journal, synchronous setting and number of connections. It
//! runs without our VFS or, where the run has no such mode, with the strategy that changes nothing.
//! Where the run has neither, another journal of stock SQLite that promises the same stands in, and
//! is named. A mode that is mounted is compared first with the same that is not.
//!
//! The verdict is careful on one side. Faster is only what is faster in all rounds. Slower is what
//! is slower in all rounds, and what is slower by a tenth in the median whatever the rounds say.

use super::{Figures, ModeReport, Report, Spread};
use oneflush_measure::mode::{Mode, Strategy};
use oneflush_measure::workload::Unit;

/// A mode and what it is compared with.
pub struct Pair<'a> {
    pub own: &'a ModeReport,
    pub stock: &'a ModeReport,
    /// The most important first; none is missing that the workload has.
    pub measures: Vec<Measure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of a commit or cycle, in the middle.
    Time,
    /// Of a read, on the average: few reads are long, and what they cost is in no middle.
    ReadTime,
    Rate,
    /// Commits while a reader keeps its snapshot.
    RateWhile,
    /// Commits of the connection beside readers.
    RateBeside,
    Longest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Slower,
    Alike,
    Faster,
}

/// One figure of both.
#[derive(Clone, Debug)]
pub struct Measure {
    pub kind: Kind,
    pub own: f64,
    pub stock: f64,
    /// How much longer the own mode takes: above 1 it is slower, also where the figure is a rate.
    pub times: f64,
    /// The same, between which the rounds are.
    pub between: [f64; 2],
    pub verdict: Verdict,
}

/// A difference that people need to know, whatever the rounds say.
const GROSS: f64 = 1.1;
/// Less is noise where the rounds are too few for bounds with a confidence.
const FINE: f64 = 1.02;
/// Less would be written as nothing.
const FINEST: f64 = 1.0005;
/// Of the longest commits. One stall of the machine makes them several times as long.
const GROSS_LONGEST: f64 = 2.0;

/// The mode of stock SQLite that `own` is compared with. None for stock SQLite itself, and where
/// the run has none.
pub fn stock_of<'a>(own: &ModeReport, modes: &[&'a ModeReport]) -> Option<&'a ModeReport> {
    let is_mounted = own.mode.is_mounted;
    if own.mode.strategy == Strategy::Sqlite && !own.mode.is_lsmvbt() && !is_mounted {
        return None;
    }
    let others = || {
        modes
            .iter()
            .copied()
            .filter(|other| other.connections == own.connections && is_stock(&other.mode))
    };
    let alone = |other: &&ModeReport| other.mode.strategy == Strategy::Sqlite;
    let alike = |other: &&ModeReport| of_stock(&other.mode) == of_stock(&own.mode);
    let exact = others().filter(alike).find(alone);
    if own.mode.strategy == Strategy::STOCK && !is_mounted {
        return exact;
    }
    let twin = others().find(|other| other.mode == unmounted(&own.mode));
    // Readers of LS-MVBT wait for nobody either.
    let reads_on = |mode: &Mode| mode.journal.is_wal() || mode.is_lsmvbt();
    let kin = |other: &&ModeReport| reads_on(&other.mode) == reads_on(&own.mode);
    let promise = |other: &&ModeReport| other.mode.is_durable() == own.mode.is_durable();
    twin.or(exact)
        .or_else(|| others().find(alike))
        .or_else(|| others().filter(promise).find(kin))
        .or_else(|| others().find(promise))
}

pub fn is_stock(mode: &Mode) -> bool {
    let changes_nothing = matches!(mode.strategy, Strategy::Sqlite | Strategy::STOCK);
    changes_nothing && !mode.is_lsmvbt() && !mode.is_mounted
}

/// The same mode where nothing is mounted.
pub fn unmounted(mode: &Mode) -> Mode {
    Mode { is_mounted: false, ..mode.clone() }
}

/// The same mode with the strategy that changes nothing.
pub fn of_stock(mode: &Mode) -> Mode {
    Mode { synchronous: mode.synchronous, ..Mode::new(mode.journal) }
}

impl<'a> Pair<'a> {
    pub fn new(report: &Report, own: &'a ModeReport, stock: &'a ModeReport) -> Pair<'a> {
        // Tables of these show the median of the rounds' ratios, so words do as well.
        let paired = report.in_turns || report.unit == Unit::Read;
        let measure = |kind: Kind| Measure::new(kind, own, stock, paired);
        let measures = kinds(report, own).into_iter().filter_map(measure).collect();
        Pair { own, stock, measures }
    }

    pub fn slower(&self) -> impl Iterator<Item = &Measure> {
        self.measures.iter().filter(|measure| measure.verdict == Verdict::Slower)
    }

    pub fn longest(&self) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.kind == Kind::Longest)
    }
}

/// What is compared, the most important first.
fn kinds(report: &Report, own: &ModeReport) -> Vec<Kind> {
    if report.unit == Unit::Read {
        return vec![Kind::ReadTime, Kind::RateBeside];
    }
    if report.unit == Unit::Piece {
        return vec![Kind::Rate];
    }
    let mut kinds = match (report.rate, own.connections) {
        // The rate is the one that was asked for.
        (Some(_), _) => vec![Kind::Time],
        (None, 1) => vec![Kind::Time, Kind::Rate],
        // Of several, most may commit fast because the others starve.
        (None, _) => vec![Kind::Rate],
    };
    kinds.extend([Kind::RateWhile, Kind::Longest]);
    kinds
}

impl Kind {
    /// None where the workload does not have it.
    fn of(self, figures: &Figures) -> Option<f64> {
        let latency = &figures.latency_ns;
        let value = match self {
            Kind::Time => latency.p50 as f64,
            Kind::ReadTime => latency.mean as f64,
            Kind::Rate => figures.transactions_per_s,
            Kind::RateWhile => figures.phases.get(1)?.transactions_per_s,
            Kind::RateBeside => figures.beside.as_ref()?.commits_per_s,
            Kind::Longest => latency.max as f64,
        };
        Some(value)
    }

    pub fn is_rate(self) -> bool {
        matches!(self, Kind::Rate | Kind::RateWhile | Kind::RateBeside)
    }

    fn times(self, own: f64, stock: f64) -> f64 {
        let (longer, shorter) = if self.is_rate() { (stock, own) } else { (own, stock) };
        longer / shorter.max(f64::MIN_POSITIVE)
    }
}

impl Measure {
    fn new(kind: Kind, own: &ModeReport, stock: &ModeReport, paired: bool) -> Option<Measure> {
        let (own_figure, stock_figure) = (kind.of(&own.median)?, kind.of(&stock.median)?);
        let rounds = own.rounds.iter().zip(&stock.rounds);
        let ratio =
            |(own, stock): (&Figures, &Figures)| Some(kind.times(kind.of(own)?, kind.of(stock)?));
        let ratios: Vec<f64> = rounds.filter_map(ratio).collect();
        let single = ratios.len() < 2;
        let rounds = Spread::of(ratios);
        let times = if paired { rounds.median } else { kind.times(own_figure, stock_figure) };
        let (between, verdict) = judge(kind, times, &rounds, single);
        Some(Measure { kind, own: own_figure, stock: stock_figure, times, between, verdict })
    }
}

fn judge(kind: Kind, times: f64, rounds: &Spread, single: bool) -> ([f64; 2], Verdict) {
    let [low, high] = rounds.bounds.unwrap_or([rounds.lowest, rounds.highest]);
    let (least, gross) = match kind {
        // Of a single commit: the middle round must say so too.
        Kind::Longest if rounds.median < GROSS_LONGEST => (f64::INFINITY, f64::INFINITY),
        Kind::Longest => (GROSS_LONGEST, GROSS_LONGEST),
        // One round does not tell how far rounds differ.
        _ if single => (GROSS, GROSS),
        _ if rounds.bounds.is_some() => (FINEST, GROSS),
        _ => (FINE, GROSS),
    };
    let verdict = if times >= gross || (low > 1.0 && times >= least) {
        Verdict::Slower
    } else if kind != Kind::Longest && high < 1.0 && times <= 1.0 / least {
        Verdict::Faster
    } else {
        Verdict::Alike
    };
    ([low, high], verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(kind: Kind, rounds: &[f64]) -> Verdict {
        let spread = Spread::of(rounds.to_vec());
        judge(kind, spread.median, &spread, rounds.len() == 1).1
    }

    #[test]
    fn a_difference_within_the_rounds_is_none() {
        assert_eq!(verdict(Kind::Time, &[0.97, 1.01, 1.03]), Verdict::Alike);
        assert_eq!(
            verdict(Kind::Time, &[1.01, 1.015, 1.02]),
            Verdict::Alike,
            "a hundredth of few rounds"
        );
        assert_eq!(verdict(Kind::Time, &[1.03, 1.04, 1.05]), Verdict::Slower);
        assert_eq!(verdict(Kind::Rate, &[0.95, 0.96, 0.97]), Verdict::Faster);
        // Thirty rounds have bounds, and so say a hundredth.
        let many: Vec<f64> = (0..30).map(|round| 1.008 + f64::from(round) / 1e4).collect();
        assert_eq!(verdict(Kind::ReadTime, &many), Verdict::Slower);
    }

    #[test]
    fn one_round_tells_only_gross_differences() {
        assert_eq!(verdict(Kind::Time, &[1.05]), Verdict::Alike);
        assert_eq!(verdict(Kind::Time, &[0.95]), Verdict::Alike);
        assert_eq!(verdict(Kind::Time, &[1.3]), Verdict::Slower);
        assert_eq!(verdict(Kind::Time, &[0.5]), Verdict::Faster);
    }

    #[test]
    fn a_tenth_slower_is_said_although_a_round_was_faster_and_a_tenth_faster_is_not() {
        assert_eq!(verdict(Kind::Time, &[0.9, 1.2, 1.3, 1.3, 1.4]), Verdict::Slower);
        assert_eq!(verdict(Kind::Time, &[1.1, 0.8, 0.7, 0.7, 0.6]), Verdict::Alike);
    }

    #[test]
    fn the_longest_commit_is_longer_only_where_more_than_one_round_says_so() {
        assert_eq!(verdict(Kind::Longest, &[1.0, 1.2, 9.0]), Verdict::Alike);
        assert_eq!(verdict(Kind::Longest, &[1.0, 4.0, 9.0]), Verdict::Slower);
        assert_eq!(
            verdict(Kind::Longest, &[0.1, 0.2, 0.3]),
            Verdict::Alike,
            "told beside the rate"
        );
    }
}
