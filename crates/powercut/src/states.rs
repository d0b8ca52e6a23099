//! Which states of the disk are examined: where power is cut, and what of the writes in flight is
//! there afterwards.

use std::collections::BTreeMap;

use fastrand::Rng;
use oneflush_crashlab::{Choice, Content, Fill, Image, Moment, Op, Reading, Tear, Timeline};

use crate::write_log::WriteLog;

/// The name of the partition as a file of the simulated disk.
const NAME: &str = "/partition";

/// What a loss of power leaves of the writes that no flush covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// All of them: the operations up to the cut.
    All,
    /// None: the last flush.
    None,
    AllButOne,
    One,
    /// A part of them, each whole.
    Requests,
    /// A part, and some of these in part, at 4 KiB.
    Blocks,
    /// The same at 512 bytes. It is the last of [`Kind::ALL`].
    Sectors,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::All,
        Kind::None,
        Kind::AllButOne,
        Kind::One,
        Kind::Requests,
        Kind::Blocks,
        Kind::Sectors,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::All => "all written",
            Kind::None => "none in flight",
            Kind::AllButOne => "one write lost",
            Kind::One => "one write kept",
            Kind::Requests => "whole requests",
            Kind::Blocks => "torn at 4 KiB",
            Kind::Sectors => "torn at 512 B",
        }
    }
}

/// One state of the disk.
pub struct State {
    /// So many operations were done before the cut.
    pub after: usize,
    pub kind: Kind,
    pub in_flight: usize,
    pub partition: Content,
}

/// What states are drawn.
pub struct Drawn<'a> {
    pub kinds: &'a [Kind],
    pub count: usize,
    pub seed: u64,
    /// The disk had databases before its log began, so every cut counts. Otherwise nothing has
    /// happened before the first note.
    pub from_the_start: bool,
}

/// Draws so many states by seed and visits them in the order of their cuts. `visit` may end it.
pub fn visit(
    partition: &Content,
    log: &WriteLog,
    drawn: &Drawn<'_>,
    mut visit: impl FnMut(usize, State) -> bool,
) {
    let image = Image { files: BTreeMap::from([(NAME.to_owned(), partition.clone())]) };
    let mut timeline = Timeline::new(&image, Reading::Ordered);
    let mut done = 0;
    let &Drawn { kinds, seed, .. } = drawn;
    for (number, after) in cuts(log, drawn).into_iter().enumerate() {
        log.ops[done..after].iter().for_each(|op| timeline.apply(op));
        done = after;
        let moment = Moment::new(&timeline);
        let mut rng = Rng::with_seed(seed ^ (number as u64) << 20);
        let kind = kinds[rng.usize(..kinds.len())];
        let in_flight = moment.in_flight();
        let choice = choose(kind, &moment, &mut rng);
        let partition = moment.image(&choice).files.remove(NAME).unwrap_or_default();
        if !visit(number, State { after, kind, in_flight, partition }) {
            return;
        }
    }
}

/// Where power is cut, in order. Every second cut comes right before a flush, where most is in
/// flight.
fn cuts(log: &WriteLog, drawn: &Drawn<'_>) -> Vec<usize> {
    let Some(&(noted, _)) = log.notes.first() else { return Vec::new() };
    let first = if drawn.from_the_start { 0 } else { noted };
    let mut rng = Rng::with_seed(drawn.seed);
    let is_flush = |at: &usize| matches!(log.ops.get(*at), Some(Op::Sync { .. }));
    let mut cuts: Vec<usize> = (0..drawn.count)
        .map(|number| {
            let cut = rng.usize(first..=log.ops.len());
            if number % 2 == 0 { cut } else { (cut..log.ops.len()).find(is_flush).unwrap_or(cut) }
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

fn choose(kind: Kind, moment: &Moment<'_>, rng: &mut Rng) -> Choice {
    let count = moment.in_flight();
    let all = |kept: bool| {
        let mut choice = Choice {
            kept: vec![0; count.div_ceil(64).max(1)],
            tear: Tear::Whole,
            fill: Fill::Missing,
            seed: 0,
        };
        (0..count).for_each(|item| choice.set(item, kept));
        choice
    };
    let but_one = |kept: bool, rng: &mut Rng| {
        let mut choice = all(kept);
        if count > 0 {
            choice.set(rng.usize(..count), !kept);
        }
        choice
    };
    let torn = |tear: Tear, rng: &mut Rng| Choice { tear, seed: rng.u64(..), ..moment.draw(rng) };
    match kind {
        Kind::All => all(true),
        Kind::None => all(false),
        Kind::AllButOne => but_one(true, rng),
        Kind::One => but_one(false, rng),
        Kind::Requests => torn(Tear::Whole, rng),
        Kind::Blocks => torn(Tear::Blocks, rng),
        Kind::Sectors => torn(Tear::Sectors, rng),
    }
}

#[cfg(test)]
mod tests {
    use oneflush_crashlab::{Data, Mark};

    use super::*;
    use crate::notes::Note;
    use crate::write_log::FILE_SYSTEM;

    fn write(offset: u64, byte: u8) -> Op {
        Op::Write { ino: FILE_SYSTEM, offset, data: Data(vec![byte; 8192].into()) }
    }

    fn log() -> WriteLog {
        let mark = Mark::Begun { file: 0, order: 1, digest: 0 };
        let flush = Op::Sync { ino: FILE_SYSTEM, covers: None, forced: false };
        WriteLog {
            ops: vec![write(0, 1), flush, write(8192, 2), write(16_384, 3)],
            notes: vec![(1, Note::Mark { case: 0, mark })],
        }
    }

    fn drawn(seed: u64) -> Drawn<'static> {
        Drawn { kinds: &Kind::ALL, count: 2000, seed, from_the_start: false }
    }

    fn bytes_at(state: &State, offset: u64) -> [u8; 1] {
        let mut byte = [0];
        state.partition.read(offset, &mut byte);
        byte
    }

    #[test]
    fn what_a_flush_covers_is_in_every_state_behind_it_and_the_kinds_say_what_else_is() {
        let partition = Content::from_bytes(&[0; 32_768]);
        let mut seen = BTreeMap::new();
        visit(&partition, &log(), &drawn(7), |_, state| {
            assert_eq!(state.partition.size(), 32_768);
            let there = [bytes_at(&state, 8192), bytes_at(&state, 16_384)];
            if state.after >= 2 {
                assert_eq!(bytes_at(&state, 0), [1]);
            }
            match (state.after, state.kind) {
                (4, Kind::All) => assert_eq!(there, [[2], [3]]),
                (4, Kind::None) => assert_eq!(there, [[0], [0]]),
                (4, Kind::One | Kind::AllButOne) => {
                    assert_eq!(there.iter().filter(|byte| **byte != [0]).count(), 1)
                }
                _ => {}
            }
            *seen.entry((state.after, state.kind)).or_insert(0) += 1;
            true
        });
        assert!(Kind::ALL.iter().all(|kind| seen.contains_key(&(4, *kind))), "{seen:?}");
        assert_eq!(seen.values().sum::<i32>(), 2000);
    }

    #[test]
    fn a_write_is_torn_at_both_borders() {
        let partition = Content::from_bytes(&[0; 32_768]);
        let (mut at_blocks, mut at_sectors) = (false, false);
        visit(&partition, &log(), &drawn(8), |_, state| {
            let bytes = state.partition.to_bytes();
            let units = |unit: usize| {
                let written = |unit: &[u8]| unit.iter().all(|byte| *byte != 0);
                let empty = |unit: &[u8]| unit.iter().all(|byte| *byte == 0);
                bytes[8192..16_384].chunks(unit).all(|unit| written(unit) || empty(unit))
            };
            assert!(units(512));
            let in_part = bytes[8192..16_384].contains(&0) && bytes[8192..16_384].contains(&2);
            match state.kind {
                Kind::Blocks => {
                    assert!(units(4096));
                    at_blocks |= in_part;
                }
                Kind::Sectors => at_sectors |= !units(4096),
                _ => assert!(!in_part),
            }
            true
        });
        assert!(at_blocks && at_sectors);
    }
}
