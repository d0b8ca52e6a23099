//! What a trial's figures advise, after docs/choose.md: `plain` unless there is a reason.

use oneflush_measure::mode::{Journal, Strategy};
use oneflush_measure::trial::{Figures, Trial};
use oneflush_vfs::StrategyKind;

/// Less is noise, or not worth a change.
const GAIN_MIN: f64 = 1.15;
/// What fewer rounds agree on may be chance.
const ROUNDS_MIN: usize = 3;

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
    rounds: usize,
}

impl Ratio {
    fn of(one: &Figures, than: &Figures) -> Ratio {
        let pairs = one.commits_per_s_of_rounds.iter().zip(&than.commits_per_s_of_rounds);
        let mut ratios: Vec<f64> = pairs.map(|(one, than)| ratio(*one, *than)).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |at: usize| ratios.get(at).copied().unwrap_or(1.0);
        let last = ratios.len().saturating_sub(1);
        Ratio {
            median: (at(last / 2) + at(last.div_ceil(2))) / 2.0,
            least: at(0),
            most: at(last),
            rounds: ratios.len(),
        }
    }

    /// Each round says so.
    fn is_gain(&self) -> bool {
        !self.is_unknown() && self.median >= GAIN_MIN && self.least >= 1.0
    }

    /// Some rounds say more and others less, or there are too few to know.
    fn is_unknown(&self) -> bool {
        self.rounds < ROUNDS_MIN || (self.least < 1.0 / GAIN_MIN && self.most > GAIN_MIN)
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

    /// Of one writer's commits, where they became fewer: now, and then.
    fn flushes(&self, than: &Of<'_>) -> Option<(f64, f64)> {
        let (now, then) = (than.one.flushes_per_commit?, self.one.flushes_per_commit?);
        (then * GAIN_MIN <= now).then_some((now, then))
    }

    fn gains(&self, than: &Of<'_>) -> bool {
        self.rate_many(than).is_gain()
            || self.rate_one(than).is_gain()
            || self.bytes(than).is_some_and(|share| share <= 1.0 / GAIN_MIN)
            || self.flushes(than).is_some()
    }

    /// "0.35 of the bytes, 1.0 flushes for 4.0; commits/s with one writer 1.2 times, with 8
    /// writers 4.0 times"
    fn said(&self, than: &Of<'_>) -> String {
        let mut less = Vec::new();
        if let Some(share) = self.bytes(than).filter(|share| !(1.0 / 1.05..=1.05).contains(share)) {
            less.push(format!("{share:.2} of the bytes"));
        }
        if let Some((now, then)) = self.flushes(than) {
            less.push(format!("{then:.1} flushes for {now:.1}"));
        }
        let less = if less.is_empty() { String::new() } else { less.join(", ") + "; " };
        let (one, many) = (self.rate_one(than), self.rate_many(than));
        if one.is_unknown() && many.is_unknown() {
            return format!("{less}commits/s unclear");
        }
        format!("{less}commits/s with one writer {}, with 8 writers {}", one.said(), many.said())
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
    match plain {
        Some(plain) if plain.gains(than) => {
            words
                .push(format!("Take plain: {}{after}. Files stay SQLite's own.", plain.said(than)));
            strategy = Some(StrategyKind::Plain);
        }
        Some(plain) if plain.rate_many(than).is_unknown() => {
            words.push(format!("plain: {}{after}; try when less runs here.", plain.said(than)));
        }
        _ => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(rates: &[f64], bytes: f64, flushes: f64) -> Figures {
        Figures {
            commits_per_s_of_rounds: rates.to_vec(),
            bytes_per_commit: Some(bytes),
            flushes_per_commit: Some(flushes),
            ..Figures::default()
        }
    }

    fn said(one: &[f64], many: &[f64], bytes: f64, flushes: f64) -> (bool, String) {
        let now = figures(&[100.0, 110.0, 90.0], 10_000.0, 4.0);
        let (one, many) = (figures(one, bytes, flushes), figures(many, bytes, flushes));
        let (now, then) = (Of { one: &now, many: &now }, Of { one: &one, many: &many });
        (then.gains(&now), then.said(&now))
    }

    #[test]
    fn only_what_all_rounds_say_is_a_gain() {
        let (same, double) = ([101.0, 108.0, 91.0], [210.0, 230.0, 170.0]);
        assert_eq!(
            said(&same, &double, 10_100.0, 3.9),
            (true, "commits/s with one writer as before, with 8 writers 2.1 times".to_owned())
        );
        let noise = [200.0, 20.0, 300.0];
        let unclear = "commits/s unclear".to_owned();
        assert_eq!(said(&noise, &noise, 10_000.0, 4.0), (false, unclear.clone()));
        assert_eq!(said(&double[..2], &double[..2], 10_000.0, 4.0), (false, unclear), "two rounds");
        assert!(!said(&same, &same, 10_000.0, 4.0).0);
    }

    #[test]
    fn bytes_and_flushes_are_gains_of_their_own() {
        let same = [100.0, 110.0, 90.0];
        let (gains, words) = said(&same, &same, 3_500.0, 1.0);
        assert!(gains && words.starts_with("0.35 of the bytes, 1.0 flushes for 4.0; "), "{words}");
        assert!(!said(&same, &same, 12_000.0, 4.0).0, "more bytes");
    }
}
