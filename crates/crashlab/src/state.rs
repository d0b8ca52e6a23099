//! The states that a loss of power can leave at one moment: which operations in flight survive, and
//! how.
//!
//! - Up to [`EXHAUSTIVE_MAX`] operations in flight give all subsets, each whole and once more torn.
//!   With more, subsets are drawn by seed.
//! - A write survives whole, or in any of its 512-byte sectors, or in any of its 4 KiB blocks.
//! - Where a write is lost but the file grew, the space is missing, zero, garbage or stale.
//! - In the weak reading a sector that was in flight may be garbage. Garbage covers only bytes that
//!   were being written (powersafe overwrite, which SQLite's "unix" VFS claims too).

use serde::{Deserialize, Serialize};

use crate::content::{Content, Image};
use crate::log::Op;
use crate::loss::Loss;
use crate::timeline::{Change, Naming, Node, Reading, Timeline, sectors};

/// Up to so many operations in flight give all subsets.
pub const EXHAUSTIVE_MAX: usize = 12;
/// With so few in flight all often depends on one write. So each subset is torn in several ways.
const FEW_MAX: usize = 2;
const TORN_OF_FEW: usize = 12;
/// How the names of a WAL end: in use, and kept.
const WAL_NAMES: [&str; 2] = ["-wal", "-oneflush-kept"];
/// Samples for more operations in flight: before each sync, and elsewhere.
pub const SAMPLES_AT_SYNC: usize = 1000;
pub const SAMPLES_BETWEEN: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tear {
    Whole,
    Sectors,
    Blocks,
    Garbled,
}

impl Tear {
    pub const ALL: [Tear; 4] = [Tear::Whole, Tear::Sectors, Tear::Blocks, Tear::Garbled];

    pub fn name(self) -> &'static str {
        match self {
            Tear::Whole => "whole writes",
            Tear::Sectors => "torn at 512 B",
            Tear::Blocks => "torn at 4 KiB",
            Tear::Garbled => "garbled sectors",
        }
    }
}

/// What a grown file has where its write was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// The file did not grow.
    Missing,
    Zero,
    Garbage,
    Stale,
}

/// How many choices a moment has at most.
pub fn choices_count(in_flight: usize, before_sync: bool) -> usize {
    match in_flight {
        few if few <= EXHAUSTIVE_MAX => (1 + torn_of(few)) << few,
        _ if before_sync => SAMPLES_AT_SYNC,
        _ => SAMPLES_BETWEEN,
    }
}

/// How many torn choices each subset of so many operations in flight has.
fn torn_of(in_flight: usize) -> usize {
    match in_flight {
        0 => 0,
        1..=FEW_MAX => TORN_OF_FEW,
        _ => 1,
    }
}

/// One way to lose power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// One bit an operation in flight, oldest first: it survives.
    pub kept: Vec<u64>,
    pub tear: Tear,
    pub fill: Fill,
    pub seed: u64,
}

impl Choice {
    fn keeps(&self, item: usize) -> bool {
        self.kept[item / 64] >> (item % 64) & 1 != 0
    }

    pub fn set(&mut self, item: usize, kept: bool) {
        let bit = 1 << (item % 64);
        if kept {
            self.kept[item / 64] |= bit;
        } else {
            self.kept[item / 64] &= !bit;
        }
    }

    /// How many operations are lost, of `count` in flight.
    pub fn lost(&self, count: usize) -> usize {
        (0..count).filter(|item| !self.keeps(*item)).count()
    }
}

/// A moment of a timeline, with a number for each operation in flight.
pub struct Moment<'a> {
    timeline: &'a Timeline,
    /// Places in the log, in order. The number of an operation is its index here.
    places: Vec<u32>,
}

impl<'a> Moment<'a> {
    pub fn new(timeline: &'a Timeline) -> Moment<'a> {
        let changes =
            timeline.nodes.values().flat_map(|node| node.changes.iter().map(|change| change.at));
        let mut places: Vec<u32> =
            timeline.namings.iter().map(|naming| naming.at).chain(changes).collect();
        places.sort_unstable();
        Moment { timeline, places }
    }

    pub fn in_flight(&self) -> usize {
        self.places.len()
    }

    fn keeps(&self, choice: &Choice, place: u32) -> bool {
        self.places.binary_search(&place).is_ok_and(|item| choice.keeps(item))
    }

    /// The choices at this moment, in a fixed order. `before_sync`: the next operation is a sync,
    /// so most is in flight here. Below 1, `share` is the part of the choices to take, by seed.
    pub fn choices(&self, seed: u64, before_sync: bool, share: f64) -> Vec<Choice> {
        let count = self.in_flight();
        let mut rng = fastrand::Rng::with_seed(seed);
        // Decided before a choice is drawn. Most are left out, and drawing takes time for each of
        // many operations.
        let is_taken = |rng: &mut fastrand::Rng| share >= 1.0 || rng.f64() < share;
        let mut choices = Vec::new();
        if count <= EXHAUSTIVE_MAX {
            for subset in 0..1u64 << count {
                if is_taken(&mut rng) {
                    choices.push(Choice {
                        kept: vec![subset],
                        tear: Tear::Whole,
                        fill: Fill::Missing,
                        seed: 0,
                    });
                }
                for _ in 0..torn_of(count) {
                    if is_taken(&mut rng) {
                        choices.push(self.torn(vec![subset], &mut rng));
                    }
                }
            }
        } else {
            for sample in 0..if before_sync { SAMPLES_AT_SYNC } else { SAMPLES_BETWEEN } {
                if !is_taken(&mut rng) {
                    continue;
                }
                let kept = draw(count, &mut rng);
                choices.push(match sample % 3 {
                    0 => Choice { kept, tear: Tear::Whole, fill: Fill::Missing, seed: 0 },
                    _ => self.torn(kept, &mut rng),
                });
            }
        }
        if self.timeline.reading == Reading::Ordered {
            choices.retain(|choice| self.names_in_order(choice));
        }
        choices
    }

    /// Draws one choice of any kind.
    pub fn draw(&self, rng: &mut fastrand::Rng) -> Choice {
        loop {
            let kept = draw(self.in_flight(), rng);
            let whole =
                Choice { kept: kept.clone(), tear: Tear::Whole, fill: Fill::Missing, seed: 0 };
            let choice = if rng.bool() { whole } else { self.torn(kept, rng) };
            if self.timeline.reading == Reading::Weak || self.names_in_order(&choice) {
                return choice;
            }
        }
    }

    fn torn(&self, kept: Vec<u64>, rng: &mut fastrand::Rng) -> Choice {
        let (tears, fills): (&[Tear], &[Fill]) = match self.timeline.reading {
            Reading::Ordered => {
                (&[Tear::Whole, Tear::Sectors, Tear::Blocks], &[Fill::Missing, Fill::Zero])
            }
            Reading::Weak => (&Tear::ALL, &[Fill::Missing, Fill::Zero, Fill::Garbage, Fill::Stale]),
        };
        let tear = tears[rng.usize(..tears.len())];
        // Whole writes with nothing filled are the other half of the choices.
        let fills = if tear == Tear::Whole { &fills[1..] } else { fills };
        Choice { kept, tear, fill: fills[rng.usize(..fills.len())], seed: rng.u64(..) }
    }

    /// There is one journal: no change of a name survives without those before it.
    fn names_in_order(&self, choice: &Choice) -> bool {
        let kept = self.timeline.namings.iter().map(|naming| self.keeps(choice, naming.at));
        kept.is_sorted_by(|earlier, later| earlier >= later)
    }

    /// What `image`, the disk after this choice, lacks of what the processes saw.
    pub fn losses(&self, choice: &Choice, image: &Image, mut visit: impl FnMut(&str, Loss)) {
        let mut seen = self.timeline.names.clone();
        self.timeline.namings.iter().for_each(|naming| naming.what.apply(&mut seen));
        for (name, ino) in &seen {
            let Some(node) = self.timeline.nodes.get(ino) else { continue };
            let lost_a_write = || {
                let is_write = |change: &Change| matches!(change, Change::Write { .. });
                node.changes
                    .iter()
                    .any(|change| is_write(&change.what) && !self.keeps(choice, change.at))
            };
            match image.files.get(name) {
                None => visit(name, Loss::Missing),
                Some(content) if content.size() < node.size => visit(name, Loss::Cut),
                Some(_) if lost_a_write() => visit(name, Loss::Stale),
                Some(_) => {}
            }
        }
    }

    /// The disk after this loss of power.
    pub fn image(&self, choice: &Choice) -> Image {
        let mut names = self.timeline.names.clone();
        for naming in self.timeline.namings.iter().filter(|naming| self.keeps(choice, naming.at)) {
            naming.what.apply(&mut names);
        }
        let content = |ino| {
            self.timeline
                .nodes
                .get(&ino)
                .map(|node| self.content(ino, node, choice))
                .unwrap_or_default()
        };
        Image { files: names.into_iter().map(|(name, ino)| (name, content(ino))).collect() }
    }

    fn content(&self, ino: u32, node: &Node, choice: &Choice) -> Content {
        let mut content = node.durable.clone();
        for (number, change) in node.changes.iter().enumerate() {
            let keeps = |place| self.keeps(choice, place);
            let mut rng = fastrand::Rng::with_seed(choice.seed ^ u64::from(change.at) << 8);
            match &change.what {
                Change::Truncate { size } => {
                    // In the ordered reading the journal gives the space back before it is used
                    // anew.
                    let later = || node.changes[number..].iter().any(|later| keeps(later.at));
                    if keeps(change.at) || (self.timeline.reading == Reading::Ordered && later()) {
                        content.set_size(*size);
                    }
                }
                Change::Write { offset, data } => {
                    let (unit, survives) = match choice.tear {
                        Tear::Whole => (u64::MAX, keeps(change.at)),
                        Tear::Sectors | Tear::Garbled => (512, keeps(change.at)),
                        Tear::Blocks => (4096, keeps(change.at)),
                    };
                    let torn = choice.tear != Tear::Whole && rng.bool();
                    for (start, sector) in sectors(*offset, &data.0, unit) {
                        match survives && !(torn && rng.bool()) {
                            true => content.write(start, sector),
                            false => self.lose(
                                &mut content,
                                ino,
                                start,
                                sector,
                                choice,
                                survives,
                                &mut rng,
                            ),
                        }
                    }
                }
            }
        }
        content
    }

    /// True if a file whose name ends so is longer than a sync has made it durable.
    pub fn grows(&self, ending: &str) -> bool {
        self.timeline.nodes.iter().any(|(&ino, node)| {
            let durable_bytes = node.durable.size();
            durable_bytes > 0 && node.size > durable_bytes && self.is_named(ino, ending)
        })
    }

    fn is_named(&self, ino: u32, ending: &str) -> bool {
        let created = self.timeline.namings.iter().filter_map(|naming| match &naming.what {
            Naming::Create { name, ino } => Some((name, ino)),
            Naming::Unlink { .. } | Naming::Rename { .. } => None,
        });
        self.timeline
            .names
            .iter()
            .chain(created)
            .any(|(name, of)| *of == ino && name.ends_with(ending))
    }

    /// A part of a write that did not survive.
    #[expect(clippy::too_many_arguments, reason = "one write in all its circumstances")]
    fn lose(
        &self,
        content: &mut Content,
        ino: u32,
        start: u64,
        lost: &[u8],
        choice: &Choice,
        torn: bool,
        rng: &mut fastrand::Rng,
    ) {
        let end = start + lost.len() as u64;
        if torn && choice.tear == Tear::Garbled && rng.bool() {
            let mut garbage: Vec<u8> = lost.iter().map(|_| rng.u8(..)).collect();
            if self.timeline.sync_has_failed
                && WAL_NAMES.iter().any(|ending| self.is_named(ino, ending))
            {
                let mut there = vec![0; lost.len()];
                content.read(start, &mut there);
                let same = there.iter().zip(lost).map(|(there, lost)| there == lost);
                garbage
                    .iter_mut()
                    .zip(lost)
                    .zip(same)
                    .filter(|(_, same)| *same)
                    .for_each(|((byte, &lost), _)| *byte = lost);
            }
            content.write(start, &garbage);
            return;
        }
        let grown = start.max(content.size());
        if end <= grown {
            return;
        }
        match choice.fill {
            Fill::Missing => {}
            Fill::Zero => content.set_size(end),
            Fill::Garbage => {
                let garbage: Vec<u8> = (grown..end).map(|_| rng.u8(..)).collect();
                content.write(grown, &garbage);
            }
            Fill::Stale => {
                let mut stale = vec![0; (end - grown) as usize];
                // Stale data is of a file that stays. Space is not given to another file before its
                // release is durable.
                let timeline = self.timeline;
                let released = |other: &u32| {
                    timeline.namings.iter().any(|naming| match &naming.what {
                        Naming::Unlink { name } => timeline.names.get(name) == Some(other),
                        Naming::Create { .. } | Naming::Rename { .. } => false,
                    })
                };
                // A rollback journal never has stale data of another one. SQLite would take one's
                // header for the other's (docs/crash-simulation.md, no. 4).
                let both_journals = |other: &u32| {
                    self.is_named(ino, "-journal") && self.is_named(*other, "-journal")
                };
                let others = timeline.nodes.iter().filter(|(other, _)| {
                    **other != ino && !released(other) && !both_journals(other)
                });
                if let Some((_, other)) = others.max_by_key(|(_, other)| other.durable.size()) {
                    other.durable.read(grown, &mut stale);
                }
                content.write(grown, &stale);
            }
        }
    }
}

/// The disk after a crash at a moment and in a way that are drawn, and that moment.
pub fn drawn_image(initial: &Image, log: &[Op], rng: &mut fastrand::Rng) -> (Image, usize) {
    let after = rng.usize(..=log.len());
    let mut timeline = Timeline::new(initial, Reading::ALL[rng.usize(..Reading::ALL.len())]);
    log[..after].iter().for_each(|op| timeline.apply(op));
    let moment = Moment::new(&timeline);
    (moment.image(&moment.draw(rng)), after)
}

/// Draws a subset of many: half, nearly all, nearly nothing, or a first part with few exceptions,
/// as devices and caches do.
fn draw(count: usize, rng: &mut fastrand::Rng) -> Vec<u64> {
    let mut choice = Choice {
        kept: vec![0; count.div_ceil(64).max(1)],
        tear: Tear::Whole,
        fill: Fill::Missing,
        seed: 0,
    };
    let style = rng.u8(..4);
    let cut = rng.usize(..=count);
    for item in 0..count {
        let kept = match style {
            0 => rng.bool(),
            1 => rng.u8(..16) != 0,
            2 => rng.u8(..16) == 0,
            _ => (item < cut) != (rng.u8(..32) == 0),
        };
        choice.set(item, kept);
    }
    choice.kept
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
