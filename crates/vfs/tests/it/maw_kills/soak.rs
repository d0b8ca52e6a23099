//! Writers that are killed again and again, at a place or at any time, beside readers.

use std::time::{Duration, Instant};

use oneflush_vfs::KillPoint;

use super::Pair;
use super::deaths::PLACES;
use super::worker::{Said, Worker, start_reader};

/// How many writers are killed. A long run has thousands.
const KILLS: &str = "ONEFLUSH_TEST_KILLS";

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn start(pair: &Pair, number: i64, random: &mut Random) -> Worker {
    let at: Option<(KillPoint, u32)> = (random.below(3) > 0).then(|| {
        let place = PLACES[random.below(PLACES.len() as u64) as usize];
        (place, 1 + random.below(12) as u32)
    });
    Worker::start(pair, number, 100_000, at)
}

#[test]
fn writers_that_are_killed_at_any_time_lose_and_tear_nothing_beside_readers() {
    let wanted: u64 = std::env::var(KILLS).map_or(250, |wanted| wanted.parse().unwrap());
    let mut random = Random(wanted);
    let pair = Pair::new();
    let mut said = Said::default();
    let (mut kills, mut looks) = (0, 0);
    let began = Instant::now();
    while kills < wanted {
        // One life of the databases: at its end all die.
        let mut writers: Vec<Worker> =
            (1..=3).map(|number| start(&pair, number, &mut random)).collect();
        let mut readers: Vec<Worker> = (0..2).map(|number| start_reader(&pair, number)).collect();
        for _ in 0..10 + random.below(20) {
            let at = random.below(writers.len() as u64) as usize;
            let until = Instant::now() + Duration::from_millis(5 + random.below(250));
            let number = writers[at].number;
            writers[at].is_dead_by(until);
            let fresh = start(&pair, number, &mut random);
            std::mem::replace(&mut writers[at], fresh).kill(&mut said);
            kills += 1;
            if random.below(8) == 0 {
                let number = random.below(2);
                let fresh = start_reader(&pair, number as i64);
                std::mem::replace(&mut readers[number as usize], fresh).kill(&mut said);
            }
        }
        // They go on, whoever has died.
        readers[0].hear(2);
        kills += writers.len() as u64;
        let with_boards = random.below(2) == 0;
        for worker in writers.into_iter().chain(readers) {
            worker.kill(&mut said);
        }
        for path in pair.paths().iter().filter(|_| !with_boards) {
            let _ = std::fs::remove_file(format!("{}-oneflush-shm", path.display()));
        }
        if random.below(3) == 0 {
            drop(super::open_alone(&pair.paths()[random.below(2) as usize]));
        }
        said.check(&pair, &format!("after {kills} kills"));
        looks += 1;
    }
    println!(
        "{kills} kills, {} acknowledged commits, {} looks of readers, {looks} recoveries, {:?}",
        said.acknowledged(),
        said.seen,
        began.elapsed()
    );
    assert!(said.acknowledged() > 100 && said.seen > 100, "they got to work");
}
