//! What a loss of power has made of the files, by kind of file. So a run can show that it met the
//! states that a strategy must stand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The worst that became of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The file is not there.
    Missing,
    /// The file ends earlier.
    Cut,
    /// The file has its size, and lacks a write.
    Stale,
}

impl Loss {
    pub const ALL: [Loss; 3] = [Loss::Missing, Loss::Cut, Loss::Stale];

    pub fn name(self) -> &'static str {
        match self {
            Loss::Missing => "missing",
            Loss::Cut => "cut",
            Loss::Stale => "stale",
        }
    }
}

/// States in which files had lost something. For each end of a name behind `.db`: how often each
/// [`Loss`] was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Losses(BTreeMap<String, [u64; Loss::ALL.len()]>);

/// How the name of a super-journal goes on behind `.db`.
const SUPER_JOURNAL: &str = "-mj";

impl Losses {
    pub fn count(&mut self, name: &str, loss: Loss) {
        let kind = name.split_once(".db").map_or(name, |(_, kind)| kind);
        // A super-journal has a random name.
        let kind = if kind.starts_with(SUPER_JOURNAL) { SUPER_JOURNAL } else { kind };
        // Without a new String for each of millions of states.
        match self.0.get_mut(kind) {
            Some(counts) => counts[loss as usize] += 1,
            None => self.0.entry(kind.to_owned()).or_default()[loss as usize] += 1,
        }
    }

    pub fn add(&mut self, other: &Losses) {
        for (kind, more) in &other.0 {
            let counts = self.0.entry(kind.clone()).or_default();
            counts.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
    }

    /// Counts of the files whose name has `kind` behind `.db`; "" is the database.
    pub fn of(&self, kind: &str) -> [u64; Loss::ALL.len()] {
        self.0.get(kind).copied().unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, [u64; Loss::ALL.len()])> {
        self.0.iter().map(|(kind, counts)| (kind.as_str(), *counts))
    }
}
