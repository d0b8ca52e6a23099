//! The words that sentences about a comparison are made of.

use super::Report;
use super::format::{millis, significant};
use super::to_stock::{Kind, Measure, Pair, Verdict, is_stock, of_stock};
use oneflush_measure::mode::{Journal, Mode};
use oneflush_measure::workload::Unit;

pub struct Words<'a>(pub &'a Report);

/// Up to this a difference reads better in percent.
const PERCENT_MAX: f64 = 1.095;

impl Words<'_> {
    /// "WAL (normal, eager)"; the strategy that changes nothing has no name.
    pub fn name(mode: &Mode) -> String {
        let journal = match mode.journal {
            Journal::Wal => "WAL".to_owned(),
            Journal::WalGrowing => "WAL (growing)".to_owned(),
            Journal::Lsmvbt => "LS-MVBT".to_owned(),
            Journal::Files => "files".to_owned(),
            other => other.pragma().to_uppercase(),
        };
        let rest = mode
            .to_string()
            .split_once(':')
            .map(|(_, rest)| format!(" ({})", rest.replace(':', ", ")));
        format!("{journal}{}", rest.unwrap_or_default())
    }

    pub fn own(&self, pair: &Pair) -> String {
        match &pair.own.mode {
            // Beside SQLite without our VFS, ours is a strategy like others.
            mode if is_stock(mode) => format!("{} (our VFS, stock)", Self::name(mode)),
            mode => Self::name(mode),
        }
    }

    /// "stock SQLite", with the mode where that is not the same.
    pub fn stock(&self, pair: &Pair) -> String {
        match of_stock(&pair.stock.mode) {
            mode if mode.is_files() => "the file system alone".to_owned(),
            mode if mode == of_stock(&pair.own.mode) => "stock SQLite".to_owned(),
            mode => format!("stock SQLite in {}", Self::name(&mode)),
        }
    }

    /// "with 16 connections beside 2 busy loops, 100 a second"
    pub fn circumstances(&self, connections: u32) -> String {
        let mut text = match connections {
            1 => "with 1 connection".to_owned(),
            several => format!("with {several} connections"),
        };
        if let Some(beside) = self.0.beside_loops() {
            text.push_str(&format!(" {beside}"));
        }
        if let Some(rate) = self.0.rate {
            text.push_str(&format!(" at {rate} {}/s", self.0.unit.timed()));
        }
        text
    }

    /// "1.30 times SLOWER", "4.2 % SLOWER"
    pub fn slower(&self, measure: &Measure) -> String {
        let word = if measure.kind == Kind::Longest { "LONGER" } else { "SLOWER" };
        match measure.times {
            times if times < PERCENT_MAX => format!("{} {word}", percent(times)),
            times => format!("{} times {word}", significant(times)),
        }
    }

    /// "6.53 times as fast as", "4.2 % faster than", "as fast as"
    pub fn not_slower(&self, measure: &Measure) -> String {
        let times = 1.0 / measure.times.max(f64::MIN_POSITIVE);
        match measure.verdict {
            Verdict::Slower | Verdict::Alike => "as fast as".to_owned(),
            Verdict::Faster if times < PERCENT_MAX => format!("{} faster than", percent(times)),
            Verdict::Faster => format!("{} times as fast as", significant(times)),
        }
    }

    pub fn relation(&self, measure: &Measure) -> String {
        match measure.verdict {
            Verdict::Slower => format!("{} than", self.slower(measure)),
            _ => self.not_slower(measure),
        }
    }

    /// Why something is as fast: " (0.97 to 1.04 times as long in the rounds)".
    pub fn noise(&self, measure: &Measure) -> String {
        if measure.verdict == Verdict::Alike { self.range(measure) } else { String::new() }
    }

    /// Beside a difference that not all rounds show.
    pub fn disagreement(&self, measure: &Measure) -> String {
        let [low, high] = measure.between;
        if low <= 1.0 && high >= 1.0 { self.range(measure) } else { String::new() }
    }

    fn range(&self, measure: &Measure) -> String {
        let [low, high] = measure.between;
        if self.0.rounds < 2 {
            return format!(" ({:.2} times as long in the only round)", measure.times);
        }
        format!(" ({low:.2} to {high:.2} times as long in {} rounds)", self.0.rounds)
    }

    /// "a commit takes 0.209 ms, 1.38 times the floor, there 0.219"
    pub fn figures(&self, pair: &Pair, measure: &Measure) -> String {
        let takes = match (measure.kind, self.0.unit) {
            (Kind::Time, Unit::Cycle) => "to open, commit three times and close takes ",
            (Kind::Time, Unit::Sync) => "a sync takes ",
            (Kind::Time, Unit::Write) => "a write takes ",
            (Kind::Time, _) => "a commit takes ",
            (Kind::ReadTime, _) => "a read takes ",
            _ => "",
        };
        let floor = self.floor(pair, measure).map_or(String::new(), |floor| format!("{floor}, "));
        format!(
            "{takes}{}, {floor}there {}",
            self.own_figure(measure),
            self.number(measure.kind, measure.stock)
        )
    }

    /// "23343 commits/s, there 3573"
    pub fn both(&self, measure: &Measure) -> String {
        format!("{}, there {}", self.own_figure(measure), self.number(measure.kind, measure.stock))
    }

    pub fn own_figure(&self, measure: &Measure) -> String {
        let unit = match measure.kind {
            Kind::Time | Kind::Longest => " ms".to_owned(),
            Kind::ReadTime => " µs".to_owned(),
            Kind::Rate => format!(" {}", self.0.unit.rate()),
            Kind::RateWhile | Kind::RateBeside => " commits/s".to_owned(),
        };
        format!("{}{unit}", self.number(measure.kind, measure.own))
    }

    fn number(&self, kind: Kind, value: f64) -> String {
        match kind {
            Kind::Time | Kind::Longest => millis(value as u64),
            Kind::ReadTime => significant(value / 1e3),
            Kind::Rate => format!("{:.0}", value * self.0.unit.in_rate()),
            Kind::RateWhile | Kind::RateBeside => format!("{value:.0}"),
        }
    }

    /// "commits in 0.220 ms"
    pub fn does(&self, measure: &Measure) -> String {
        let does = match (measure.kind, self.0.unit) {
            (Kind::Time, Unit::Cycle) => "opens, commits three times and closes in",
            (Kind::ReadTime, _) => "reads in",
            (Kind::Time, Unit::Sync) => "syncs in",
            (Kind::Time, Unit::Write) => "writes in",
            (Kind::Time, _) => "commits in",
            _ => "makes",
        };
        format!("{does} {}", self.own_figure(measure))
    }

    /// Of one connection's commits. Several wait for each other, and that is in no floor.
    pub fn floor(&self, pair: &Pair, measure: &Measure) -> Option<String> {
        let floors = measure.own / self.0.floor.p50_ns.max(1) as f64;
        (measure.kind == Kind::Time && pair.own.connections == 1)
            .then(|| format!("{} times the floor", significant(floors)))
    }
}

fn percent(times: f64) -> String {
    format!("{:.1} %", (times - 1.0) * 100.0)
}
