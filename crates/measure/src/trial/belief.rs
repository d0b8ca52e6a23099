//! Which rounds' counts at the disk are believed.
//!
//! Others only add to what a commit costs there. What they do in bursts is in no idle gap, and so
//! in no share of theirs. Two things tell it:
//!
//! 1. A commit costs no more than twice what the strategy wrote, whole blocks in place of parts,
//!    and a few blocks of the file system's own for each sync. A file system that writes more than
//!    that for a sync does so for an overwrite too, so the floor tells how much.
//! 2. Rounds of the same cost alike, measured by what the strategy wrote.
//!
//! A round that does not fit is left out. Where only few are left, the disk's counts say nothing.

/// Of one measurement in one round.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub commits: u64,
    /// At the disk.
    pub counted: u64,
    /// By the strategy.
    pub written: u64,
    pub syncs: u64,
}

/// How much more than the strategy's may be the file system's own.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// As a multiple of the strategy's.
    pub times: f64,
    pub each_sync: f64,
    pub each_commit: f64,
    /// Of a round: what the file system writes now and then.
    pub each_round: f64,
}

/// Blocks of a journal's transaction, or of metadata in place.
const OWN_BYTES: f64 = 32_768.0;
/// Rounds of the same differ by less.
const ALIKE: f64 = 1.5;

impl Limits {
    /// `floor_bytes`: what the disk got at least for an overwrite of `block_bytes`.
    pub fn of_bytes(floor_bytes: f64, block_bytes: f64) -> Limits {
        // A sync may write more nodes of a tree than an overwrite.
        let each_sync = OWN_BYTES + 4.0 * (floor_bytes - block_bytes).max(0.0);
        Limits { times: 2.0, each_sync, each_commit: 0.0, each_round: 65_536.0 }
    }

    /// A sync is one flush or two. Three where a name has to be durable, too.
    pub fn of_flushes() -> Limits {
        Limits { times: 3.0, each_sync: 0.0, each_commit: 0.1, each_round: 4.0 }
    }

    fn allow(&self, sample: &Sample, times: f64, each_sync: f64) -> bool {
        let most = sample.written as f64 * times
            + sample.syncs as f64 * each_sync
            + sample.commits as f64 * self.each_commit
            + self.each_round;
        sample.counted as f64 <= most
    }
}

/// What a commit costs at the disk: the median of the rounds that are believed. None: too few are.
pub fn per_commit(samples: &[Sample], limits: &Limits) -> Option<f64> {
    let measured: Vec<&Sample> = samples.iter().filter(|sample| sample.commits > 0).collect();
    let ratio = |sample: &Sample| sample.counted as f64 / sample.written.max(1) as f64;
    let least = measured.iter().map(|sample| ratio(sample)).fold(f64::INFINITY, f64::min);
    let believed: Vec<f64> = measured
        .iter()
        .filter(|sample| limits.allow(sample, limits.times, limits.each_sync))
        .filter(|sample| limits.allow(sample, least * ALIKE, 0.0))
        .map(|sample| sample.counted as f64 / sample.commits as f64)
        .collect();
    if believed.len() * 2 < measured.len() { None } else { median(believed) }
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: f64 = 4096.0;

    /// A way to commit on a file system: what each costs.
    struct Truth {
        written: f64,
        syncs: f64,
        own_each_sync: f64,
        floor: f64,
    }

    impl Truth {
        fn any(random: &mut fastrand::Rng) -> Truth {
            // Half are file systems that write nodes of a tree for each sync.
            let tree = if random.bool() { 0.0 } else { random.f64() * 120_000.0 };
            Truth {
                written: 1_000.0 + random.f64() * 60_000.0,
                syncs: 0.1 + random.f64() * 3.9,
                own_each_sync: random.f64() * 24_000.0 + tree * (0.5 + random.f64()),
                floor: BLOCK + tree,
            }
        }

        fn each(&self) -> f64 {
            self.written + self.syncs * self.own_each_sync
        }

        fn limits(&self) -> Limits {
            Limits::of_bytes(self.floor, BLOCK)
        }

        fn sample(&self, random: &mut fastrand::Rng) -> Sample {
            let commits = random.u64(2..3_000);
            let noise = 0.9 + random.f64() * 0.2;
            let of = |each: f64| (each * commits as f64) as u64;
            Sample {
                commits,
                counted: of(self.each() * noise),
                written: of(self.written),
                syncs: of(self.syncs),
            }
        }
    }

    fn random() -> fastrand::Rng {
        fastrand::Rng::with_seed(oneflush_testing::seed())
    }

    #[test]
    fn a_quiet_disk_is_believed() {
        let mut random = random();
        for _ in 0..20_000 {
            let truth = Truth::any(&mut random);
            let samples: Vec<Sample> =
                (0..random.usize(1..6)).map(|_| truth.sample(&mut random)).collect();
            let found = per_commit(&samples, &truth.limits()).expect("a figure");
            assert!((0.89..1.11).contains(&(found / truth.each())), "{found} {samples:?}");
        }
    }

    /// Once in four runs `try` said 464,475 bytes a commit of SQLite's WAL where 15 to 20 KB are
    /// usual: another program had written in bursts, and none of them was in an idle gap.
    #[test]
    fn a_noisy_neighbour_never_makes_a_commit_cost_wildly_more() {
        let mut random = random();
        let (mut told, mut silent) = (0, 0);
        for _ in 0..20_000 {
            let truth = Truth::any(&mut random);
            let mut samples: Vec<Sample> =
                (0..random.usize(1..6)).map(|_| truth.sample(&mut random)).collect();
            // All rounds but the first may be hit, or all.
            let spared = random.usize(0..2);
            for sample in samples.iter_mut().skip(spared) {
                let burst = 1 << random.u32(16..32);
                sample.counted += if random.bool() { burst } else { 0 };
            }
            let Some(found) = per_commit(&samples, &truth.limits()) else {
                silent += 1;
                continue;
            };
            told += 1;
            let limits = truth.limits();
            // One round alone knows its bound only.
            let few = samples.iter().map(|sample| sample.commits).min().unwrap_or(1) as f64;
            let bound = limits.times * truth.written
                + limits.each_sync * truth.syncs
                + limits.each_round / few
                + truth.syncs;
            assert!(found <= bound.max(truth.each() * 1.11), "{found} of {bound}: {samples:?}");
            if spared == 1 {
                let alike = truth.each() * 1.1 * ALIKE * 1.3 + limits.each_round / few;
                assert!(found <= alike, "{found} of {alike}: {samples:?}");
            }
        }
        assert!(told > 5_000 && silent > 300, "{told} {silent}");
    }

    /// The figures of that run, and of a usual one.
    #[test]
    fn half_a_megabyte_for_two_frames_is_not_believed() {
        let limits = Limits::of_bytes(4_100.0, BLOCK);
        let sample = |each: u64| Sample {
            commits: 400,
            counted: each * 400,
            written: 8_300 * 400,
            syncs: 404,
        };
        assert_eq!(per_commit(&[sample(464_475)], &limits), None);
        assert_eq!(per_commit(&[sample(464_475), sample(17_000), sample(300_000)], &limits), None);
        assert_eq!(
            per_commit(&[sample(464_475), sample(17_000), sample(16_000)], &limits),
            Some(16_500.0)
        );
    }

    #[test]
    fn flushes_of_others_are_not_a_commits() {
        let limits = Limits::of_flushes();
        let sample = |flushes: u64, syncs: u64| Sample {
            commits: 1_000,
            counted: flushes,
            written: syncs,
            syncs,
        };
        assert_eq!(per_commit(&[sample(1_010, 1_005)], &limits), Some(1.01));
        assert_eq!(per_commit(&[sample(2_050, 1_005)], &limits), Some(2.05), "btrfs");
        assert_eq!(per_commit(&[sample(280, 250)], &limits), Some(0.28), "shared flushes");
        assert_eq!(per_commit(&[sample(5_300, 1_005)], &limits), None);
    }

    #[test]
    fn without_a_commit_there_is_no_figure() {
        let limits = Limits::of_flushes();
        assert_eq!(per_commit(&[], &limits), None);
        let none = Sample { commits: 0, counted: 7, written: 0, syncs: 0 };
        assert_eq!(per_commit(&[none], &limits), None);
    }
}
