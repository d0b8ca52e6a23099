//! Which commits would share a flush.
//!
//! With SQLite alone writers do not overlap: each holds the lock until it has flushed, and the
//! others sleep. So a trace shows a crowd only in two things. Commits follow each other without a
//! pause, and several threads make them. There a strategy that shares flushes has as many commits
//! for each flush as were measured with so many writers that always wait (`calibration.tsv`).

use std::collections::BTreeMap;

use super::collect::{Commit, Load};

/// Writers of so much time are counted together. With SQLite alone one thread may commit alone for
/// many seconds while others sleep.
const WINDOW_NS: u64 = 60_000_000_000;
/// A thread with fewer commits in the window is no part of the crowd.
const COMMITS_MIN: usize = 2;
/// The share of the time in which somebody commits. Up to the first, nobody waits. From the second
/// on, somebody always does.
const BUSY: (f64, f64) = (0.3, 0.7);

/// With so many commits a flush, a checkpoint does not keep up at once.
pub(super) const CROWD_MIN: f64 = 2.2;

/// How many commits share a flush where 2, 4, 8 and 16 writers always wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// The threads of one process.
    pub threads: [f64; 4],
    /// Several processes. `None`: a process shares with its own threads only.
    pub processes: Option<[f64; 4]>,
}

/// For each commit how many commits share its flush on average.
pub(super) fn crowds(commits: &[Commit], shares: &Shares) -> Vec<f64> {
    let mut crowds = vec![1.0; commits.len()];
    let mut first = 0;
    while first < commits.len() {
        let end_ns = commits[first].begin_ns.saturating_add(WINDOW_NS);
        let end = first + commits[first..].partition_point(|commit| commit.begin_ns < end_ns);
        let crowd = crowd(&commits[first..end], shares);
        crowds[first..end].fill(crowd);
        first = end;
    }
    crowds
}

fn crowd(window: &[Commit], shares: &Shares) -> f64 {
    let mut writers: BTreeMap<u32, BTreeMap<u32, usize>> = BTreeMap::new();
    for commit in window {
        *writers.entry(commit.process).or_default().entry(commit.thread).or_default() += 1;
    }
    let threads: Vec<usize> = writers
        .values()
        .map(|threads| threads.values().filter(|&&count| count >= COMMITS_MIN).count())
        .filter(|&count| count > 0)
        .collect();
    let share = match shares.processes {
        Some(shares) if threads.len() > 1 => of(threads.iter().sum(), &shares),
        // A process sees only its own threads wait.
        _ => of(threads.iter().copied().max().unwrap_or(1), &shares.threads),
    };
    1.0 + (share - 1.0) * waiting(window)
}

/// How much of the time somebody waits, from how much of it somebody commits.
fn waiting(window: &[Commit]) -> f64 {
    let (Some(first), Some(last)) = (window.first(), window.last()) else { return 0.0 };
    let span_ns = last.end_ns.saturating_sub(first.begin_ns);
    if span_ns == 0 {
        return 0.0;
    }
    let (mut busy_ns, mut until_ns) = (0, first.begin_ns);
    for commit in window {
        let end_ns = commit.end_ns.max(until_ns);
        busy_ns += end_ns - commit.begin_ns.max(until_ns).min(end_ns);
        until_ns = end_ns;
    }
    let busy = busy_ns as f64 / span_ns as f64;
    ((busy - BUSY.0) / (BUSY.1 - BUSY.0)).clamp(0.0, 1.0)
}

/// Between the measured numbers the share grows with the logarithm of the writers.
fn of(writers: usize, shares: &[f64; 4]) -> f64 {
    let at = (writers.max(1) as f64).log2().min(4.0);
    let below = at.floor() as usize;
    let share = |power: usize| if power == 0 { 1.0 } else { shares[power - 1] };
    let above = share((below + 1).min(4));
    share(below) + (above - share(below)) * (at - below as f64)
}

/// The same commits, sooner where several share a flush: writers that always wait go on as soon as
/// they may.
pub(super) fn hurried(load: &Load, crowds: &[f64]) -> Load {
    let mut hurried = load.clone();
    let (mut before_ns, mut now_ns) = (0, 0.0);
    for (commit, crowd) in hurried.commits.iter_mut().zip(crowds) {
        let length_ns = commit.end_ns - commit.begin_ns;
        now_ns += commit.begin_ns.saturating_sub(before_ns) as f64 / crowd;
        before_ns = commit.begin_ns.max(before_ns);
        commit.begin_ns = now_ns as u64;
        commit.end_ns = commit.begin_ns + (length_ns as f64 / crowd) as u64;
    }
    hurried
}

/// Cuts commits into groups that share a flush. A fraction is carried over, so that the average is
/// right.
pub(super) struct Groups<'a> {
    commits: &'a [Commit],
    crowds: &'a [f64],
    carried: f64,
}

impl<'a> Groups<'a> {
    pub fn new(commits: &'a [Commit], crowds: &'a [f64]) -> Groups<'a> {
        Groups { commits, crowds, carried: 0.0 }
    }
}

impl<'a> Iterator for Groups<'a> {
    /// With how many commits share a flush there on average.
    type Item = (&'a [Commit], f64);

    fn next(&mut self) -> Option<(&'a [Commit], f64)> {
        let &crowd = self.crowds.first()?;
        let wanted = crowd + self.carried;
        let length = (wanted.floor().max(1.0) as usize).min(self.commits.len());
        self.carried = wanted - length as f64;
        let (group, commits) = self.commits.split_at(length);
        (self.commits, self.crowds) = (commits, &self.crowds[length..]);
        Some((group, crowd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: Shares = Shares { threads: [1.5, 2.0, 4.0, 6.5], processes: None };

    /// `writers` threads in turns, which together commit for `busy` of the time.
    fn commits(writers: u32, busy: f64) -> Vec<Commit> {
        let commit = |number: u64| Commit {
            begin_ns: number * 1000,
            end_ns: number * 1000 + (busy * 1000.0) as u64,
            process: 1,
            thread: 1 + (number % u64::from(writers)) as u32,
            ..Commit::default()
        };
        (0..1000).map(commit).collect()
    }

    #[test]
    fn writers_that_wait_share_a_flush_and_others_do_not() {
        let crowd = |writers, busy| crowds(&commits(writers, busy), &THREADS)[0];
        assert_eq!(crowd(16, 0.9), 6.5);
        assert_eq!(crowd(16, 0.1), 1.0);
        assert_eq!(crowd(1, 0.9), 1.0);
        assert!((2.0..4.0).contains(&crowd(6, 0.9)));
    }

    #[test]
    fn processes_share_a_flush_only_where_the_strategy_lets_them() {
        let mut commits = commits(8, 0.9);
        commits.iter_mut().for_each(|commit| commit.process = commit.thread);
        let all = Shares { processes: Some([1.2, 2.0, 3.0, 4.0]), ..THREADS };
        assert_eq!((crowds(&commits, &THREADS)[0], crowds(&commits, &all)[0]), (1.0, 3.0));
    }

    #[test]
    fn groups_hold_every_commit_once_and_are_as_large_as_the_crowd() {
        let commits = commits(16, 0.9);
        let crowds = vec![6.5; commits.len()];
        let groups: Vec<usize> =
            Groups::new(&commits, &crowds).map(|(group, _)| group.len()).collect();
        assert_eq!(groups.iter().sum::<usize>(), 1000);
        assert_eq!(groups.len(), 154);
    }
}
