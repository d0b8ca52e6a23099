//! What a trial's figures advise, after docs/choose.md: `plain` unless there is a reason.

use oneflush_bench::mode::{Journal, Strategy};
use oneflush_bench::trial::{Figures, Trial};
use oneflush_vfs::StrategyKind;

/// Less is noise, or not worth a change.
const GAIN_MIN: f64 = 1.15;

pub struct Advice {
    /// None: nothing is to be gained.
    pub strategy: Option<StrategyKind>,
    /// The database has to change its journal mode first.
    pub needs_wal: bool,
    /// Sentences.
    pub words: Vec<String>,
}

/// Figures of one mode, with one writer and with many.
struct Of<'a> {
    one: &'a Figures,
    many: &'a Figures,
}

/// Of the rates of two modes, round by round: what came next to each other is compared.
struct Ratio {
    median: f64,
    least: f64,
    most: f64,
}

impl Ratio {
    fn of(one: &Figures, than: &Figures) -> Ratio {
        let pairs = one.commits_per_s_of_rounds.iter().zip(&than.commits_per_s_of_rounds);
        let mut ratios: Vec<f64> = pairs.map(|(one, than)| ratio(*one, *than)).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |at: usize| ratios.get(at).copied().unwrap_or(1.0);
        let last = ratios.len().saturating_sub(1);
        Ratio { median: (at(last / 2) + at(last.div_ceil(2))) / 2.0, least: at(0), most: at(last) }
    }

    /// Each round says so.
    fn is_gain(&self) -> bool {
        self.median >= GAIN_MIN && self.least >= 1.0
    }

    /// Some rounds say more, and others less.
    fn is_unknown(&self) -> bool {
        self.least < 1.0 / GAIN_MIN && self.most > GAIN_MIN
    }

    fn said(&self) -> String {
        match self.median {
            _ if self.is_unknown() => "unclear".to_owned(),
            ratio if (0.95..1.05).contains(&ratio) => "as before".to_owned(),
            ratio if ratio < 10.0 => format!("{ratio:.1} times"),
            ratio => format!("{ratio:.0} times"),
        }
    }
}

impl Of<'_> {
    fn rate_many(&self, than: &Of<'_>) -> Ratio {
        Ratio::of(self.many, than.many)
    }

    fn rate_one(&self, than: &Of<'_>) -> Ratio {
        Ratio::of(self.one, than.one)
    }

    /// Of one writer's commits.
    fn bytes(&self, than: &Of<'_>) -> Option<f64> {
        Some(ratio(self.one.bytes_per_commit?, than.one.bytes_per_commit?))
    }

    fn gains(&self, than: &Of<'_>) -> bool {
        self.rate_many(than).is_gain()
            || self.rate_one(than).is_gain()
            || self.bytes(than).is_some_and(|share| share <= 1.0 / GAIN_MIN)
    }

    /// "0.35 of the bytes; commits/s with one writer 1.2 times, with 8 writers 4.0 times"
    fn said(&self, than: &Of<'_>) -> String {
        let bytes = match self.bytes(than) {
            Some(share) if !(1.0 / 1.05..=1.05).contains(&share) => {
                format!("{share:.2} of the bytes; ")
            }
            _ => String::new(),
        };
        let (one, many) = (self.rate_one(than).said(), self.rate_many(than).said());
        format!("{bytes}commits/s with one writer {one}, with 8 writers {many}")
    }
}

fn ratio(value: f64, than: f64) -> f64 {
    if than > 0.0 { value / than } else { 1.0 }
}

pub fn of(trial: &Trial) -> Advice {
    let nothing = |words: String| Advice { strategy: None, needs_wal: false, words: vec![words] };
    match trial.subject.fault {
        Some("memory") => {
            return nothing(format!(
                "Nothing to gain here: {} is memory, and no commit outlives a loss of power. Try \
                    the file system that your database will be on.",
                trial.subject.fs
            ));
        }
        Some(fault @ ("shared" | "fuse")) => {
            return nothing(format!(
                "Nothing to gain here: on {} ({fault}) Oneflush leaves SQLite as it is. A local \
                    disk is what helps.",
                trial.subject.fs
            ));
        }
        _ => {}
    }
    let find = |journal: Option<Journal>, kind| {
        let mut found = trial.measured.iter().filter(|measured| {
            measured.mode.strategy == Strategy::Oneflush(kind)
                && journal.is_none_or(|journal| measured.mode.journal == journal)
        });
        Some(Of { one: &found.next()?.figures, many: &found.next()?.figures })
    };
    let now_journal = trial.measured[0].mode.journal;
    let Some(now) = find(Some(now_journal), StrategyKind::Stock) else {
        return nothing("Nothing was measured.".to_owned());
    };
    let wal = find(Some(Journal::Wal), StrategyKind::Stock);
    let plain = find(None, StrategyKind::Plain);
    let eager = find(None, StrategyKind::Eager);
    let maw = find(None, StrategyKind::Maw);
    let mut words = Vec::new();
    let needs_wal = now_journal != Journal::Wal;
    if needs_wal && let Some(wal) = &wal {
        words.push(format!("PRAGMA journal_mode=WAL alone: {}.", wal.said(&now)));
    }
    let than = wal.as_ref().unwrap_or(&now);
    let after = if needs_wal { " (against SQLite's WAL)" } else { "" };
    let mut strategy = None;
    if let Some(plain) = plain.filter(|plain| plain.gains(than)) {
        words.push(format!("Take plain: {}{after}. Files stay SQLite's own.", plain.said(than)));
        strategy = Some(StrategyKind::Plain);
    }
    if let Some(eager) = eager.filter(|eager| eager.gains(than)) {
        words.push(format!(
            "eager: {}{after}. While it runs, no other SQLite can open the database.",
            eager.said(than)
        ));
        strategy = strategy.or(Some(StrategyKind::Eager));
    }
    if let Some(maw) = maw.filter(|maw| maw.gains(&now)) {
        words.push(format!("If the program cannot use WAL mode, maw: {}.", maw.said(&now)));
    }
    if strategy.is_none() {
        words.push("Oneflush gains nothing here: stay with SQLite alone.".to_owned());
    }
    Advice { strategy, needs_wal: needs_wal && strategy.is_some(), words }
}
