//! In which order the strategies fit a database, by the rules of `docs/choose.md`, and the words
//! that switch each on.
//!
//! A trace shows who writes, and not who reads. So what `eager` and `maw` ask of readers is said as
//! a condition.

use serde::Serialize;

use super::estimate::{Estimate, Row, Strategy};

/// A strategy that writes less than this share of what another writes is worth its price.
const WORTH_SHARE: f64 = 0.8;
/// A smaller difference is none.
const SAME_SHARE: f64 = 0.95;

/// What the order rests on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// The strategy that the database was recorded with. `None`: SQLite alone, or one that does not
    /// show.
    pub recorded: Option<Strategy>,
    pub is_rollback: bool,
    pub is_wal: bool,
    pub is_own_log: bool,
    pub is_lsmvbt: bool,
    pub is_durable: bool,
    /// Transactions over several databases.
    pub joint: u64,
    pub threads: u64,
    pub processes: u64,
}

/// One strategy: what it does for this database, on which condition, and how to switch it on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    pub strategy: Strategy,
    pub text: String,
    /// Commands and SQL, in order.
    pub how: Vec<String>,
}

pub(super) fn order(facts: &Facts, rows: &[Row]) -> Vec<Step> {
    let find = |strategy| rows.iter().find(|row| row.strategy == strategy)?.estimate;
    let (Some(stock), Some(plain)) = (find(Strategy::Stock), find(Strategy::Plain)) else {
        return Vec::new();
    };
    let eager = find(Strategy::Eager);
    let mut steps = Vec::new();
    let plain_gains = gains(&plain, &stock);
    let eager_is_worth = eager.is_some_and(|eager| is_worth(&eager, &plain));
    if let Some(maw) = find(Strategy::Maw).filter(|_| facts.joint > 0) {
        steps.push(maw_step(&maw, &stock, true));
    }
    if plain_gains && facts.recorded != Some(Strategy::Plain) {
        steps.push(plain_step(facts, &plain, &stock));
    }
    if let Some(eager) = eager.filter(|_| eager_is_worth) {
        steps.push(eager_step(facts, &eager, &stock));
    }
    if let Some(maw) = find(Strategy::Maw).filter(|_| facts.joint == 0) {
        steps.push(maw_step(&maw, &stock, false));
    }
    if steps.is_empty() {
        let text = if facts.recorded.is_some() {
            "stays: another strategy gains nothing here"
        } else if facts.is_durable {
            "stays: with one writer in WAL mode no strategy gains much here"
        } else {
            "stays: commits that nobody synchronizes leave no flush to save"
        };
        let strategy = facts.recorded.unwrap_or(Strategy::Stock);
        steps.push(Step { strategy, text: text.to_owned(), how: Vec::new() });
    }
    steps
}

/// Whatever the trace does not show.
fn is_worth(one: &Estimate, other: &Estimate) -> bool {
    one.kb.high < other.kb.low * WORTH_SHARE
        || one.flushes.high < other.flushes.low * WORTH_SHARE
            && one.kb.likely < other.kb.likely * SAME_SHARE
}

fn gains(one: &Estimate, other: &Estimate) -> bool {
    one.kb.high < other.kb.low * SAME_SHARE || one.flushes.high < other.flushes.low * SAME_SHARE
}

fn plain_step(facts: &Facts, plain: &Estimate, stock: &Estimate) -> Step {
    let mut text =
        format!("{}; files stay plain SQLite's, so others may read", share(plain, stock));
    if facts.is_rollback {
        text += ". It needs WAL mode";
        if facts.joint > 0 {
            text += ", which commits to several databases one by one";
        }
    }
    Step { strategy: Strategy::Plain, text, how: how(facts, Strategy::Plain) }
}

fn eager_step(facts: &Facts, eager: &Estimate, stock: &Estimate) -> Step {
    let mut text = format!(
        "{}; only if whoever opens the database meanwhile uses Oneflush, too: its guard keeps \
         stock SQLite from opening the file",
        share(eager, stock)
    );
    if facts.processes > 1 {
        text += ". Its processes share flushes";
    }
    if facts.is_rollback {
        text += ". It needs WAL mode";
    }
    Step { strategy: Strategy::Eager, text, how: how(facts, Strategy::Eager) }
}

fn maw_step(maw: &Estimate, stock: &Estimate, is_joint: bool) -> Step {
    let mut text = format!("{}; the journal mode stays", share(maw, stock));
    if is_joint {
        text += ", and commits to several databases stay atomic (they cost more than is said here)";
    }
    text += ". Only if whoever opens the database meanwhile uses Oneflush, too (not on F2FS)";
    Step { strategy: Strategy::Maw, text, how: vec![run(Strategy::Maw)] }
}

/// "0.35 of the bytes, 1 flush for 1"
fn share(one: &Estimate, other: &Estimate) -> String {
    let range = |low: f64, high: f64| {
        let (low, high) = (format!("{low:.2}"), format!("{high:.2}"));
        if low == high { low } else { format!("{low} to {high}") }
    };
    let of = |number: f64| if other.kb.likely > 0.0 { number / other.kb.likely } else { 1.0 };
    format!(
        "{} of the bytes as recorded, {:.2} flushes for {:.2}",
        range(of(one.kb.low), of(one.kb.high)),
        one.flushes.likely,
        other.flushes.likely
    )
}

fn how(facts: &Facts, strategy: Strategy) -> Vec<String> {
    let mode = facts.is_rollback.then(|| "PRAGMA journal_mode=WAL".to_owned());
    mode.into_iter().chain([run(strategy)]).collect()
}

fn run(strategy: Strategy) -> String {
    let name = strategy.name();
    format!("oneflush run --strategy {name} -- PROGRAM")
}
