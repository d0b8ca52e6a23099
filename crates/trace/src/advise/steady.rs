//! A recording as a stretch of a workload that goes on: the commits again and again, until the
//! strategies have made some checkpoints.
//!
//! Without this, a recording of seconds would show commits and none of the checkpoints that they
//! cause later. What the trace cannot say is how many pages the next stretch shares with this one.
//! A page that came back in this stretch is taken to come back, others to be new ones. The limits
//! are that all come back, and that none does.

use std::collections::HashMap;

use super::collect::{Commit, Load, UNSEEN};

/// With so many frames, all strategies have made checkpoints.
const FRAMES_MIN: u64 = 20_000;
/// Blocks of one stretch, by number.
const STRETCH: u64 = 1 << 40;

/// Which pages of a stretch are those of the stretch before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// All: few pages are changed again and again.
    Same,
    Likely,
    /// None.
    New,
}

/// Of blocks that no checkpoint showed, so many are different ones.
const UNSEEN_SHARES: [f64; 3] = [0.02, 0.15, 1.0];

/// The commits of the recording alone.
pub(super) fn once(load: &Load, next: Next) -> Load {
    let mut once = load.clone();
    once.commits.iter_mut().for_each(|commit| place(commit, 0, next, |_| true));
    once
}

/// The commits of several stretches, and how many those are. `seconds`: the length of one.
pub(super) fn continued(load: &Load, seconds: f64, next: Next) -> (Load, u64) {
    let frames: u64 = load.commits.iter().map(|commit| u64::from(commit.frames)).sum();
    let stretches = FRAMES_MIN.div_ceil(frames.max(1));
    if stretches <= 1 || load.commits.is_empty() {
        return (once(load, next), 1);
    }
    let first_ns = load.commits[0].begin_ns;
    let last_ns = load.commits.iter().map(|commit| commit.end_ns).max().unwrap_or(first_ns);
    let length_ns = ((seconds * 1e9) as u64).max(last_ns - first_ns + 1);
    let returning = returning(&load.commits);
    let comes_back = |block: u64| match next {
        Next::Same => true,
        Next::Likely => returning.get(&block).is_some_and(|returns| *returns),
        Next::New => false,
    };
    let mut continued = Load { commits: Vec::new(), ..load.clone() };
    let new: Vec<u64> = load.new_blocks.iter().copied().collect();
    for stretch in 0..stretches {
        // What is new in a stretch is new again in the next, if other pages are.
        continued.new_blocks.extend(new.iter().map(|block| block + stretch * STRETCH));
        for commit in &load.commits {
            let mut commit = commit.clone();
            commit.begin_ns += stretch * length_ns;
            commit.end_ns += stretch * length_ns;
            place(&mut commit, stretch, next, comes_back);
            continued.commits.push(commit);
        }
    }
    (continued, stretches)
}

fn place(commit: &mut Commit, stretch: u64, next: Next, comes_back: impl Fn(u64) -> bool) {
    for block in &mut commit.blocks {
        let is_same = comes_back(*block);
        if *block >= UNSEEN {
            let share = UNSEEN_SHARES[next as usize];
            *block = UNSEEN + ((*block - UNSEEN) as f64 * share) as u64;
        }
        if !is_same {
            *block += stretch * STRETCH;
        }
    }
}

/// For each block, whether it was changed in both halves.
fn returning(commits: &[Commit]) -> HashMap<u64, bool> {
    let (early, late) = commits.split_at(commits.len() / 2);
    let mut found: HashMap<u64, bool> =
        early.iter().flat_map(|commit| &commit.blocks).map(|block| (*block, false)).collect();
    for block in late.iter().flat_map(|commit| &commit.blocks) {
        found.entry(*block).and_modify(|returns| *returns = true);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(commits: u64) -> Load {
        let commit = |number: u64| Commit {
            begin_ns: number * 1_000_000,
            end_ns: number * 1_000_000 + 1000,
            // One page that all change, and one that only this commit changes.
            blocks: vec![1, 10 + number],
            frames: 2,
            ..Commit::default()
        };
        Load { commits: (0..commits).map(commit).collect(), ..Load::default() }
    }

    fn different(load: &Load) -> usize {
        let mut blocks: Vec<u64> =
            load.commits.iter().flat_map(|commit| commit.blocks.clone()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.len()
    }

    #[test]
    fn a_short_recording_goes_on_with_pages_that_come_back_and_new_ones() {
        let short = load(100);
        let (same, stretches) = continued(&short, 1.0, Next::Same);
        assert_eq!((stretches, different(&same)), (100, 101));
        let (likely, _) = continued(&short, 1.0, Next::Likely);
        assert_eq!(different(&likely), 1 + 100 * 100);
        let (new, _) = continued(&short, 1.0, Next::New);
        assert_eq!(different(&new), 101 * 100);
        assert!(likely.commits.is_sorted_by_key(|commit| commit.begin_ns));
    }

    #[test]
    fn a_long_recording_stands_for_itself() {
        let (long, stretches) = continued(&load(20_000), 20.0, Next::New);
        assert_eq!((stretches, long.commits.len()), (1, 20_000));
    }
}
