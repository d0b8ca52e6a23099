//! Registering a reader against collecting garbage, in the orders of threads that the model checker
//! tries out (P1 to P3, P9).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;

use super::board::{Board, Missed, Opened, WORDS};
use super::{Commons, Then};
use crate::readers::Readers;
use crate::{PageNo, Result, Version};

/// One of the users of words that the checker watches.
struct User {
    words: Arc<Vec<AtomicU64>>,
    slot: usize,
}

impl Commons for User {
    fn load(&self, index: usize) -> u64 {
        self.words[index].load(SeqCst)
    }
    fn store(&self, index: usize, value: u64) {
        self.words[index].store(value, SeqCst);
    }
    fn add(&self, index: usize, more: u64) {
        self.words[index].fetch_add(more, SeqCst);
    }
    fn raise(&self, index: usize, least: u64) {
        self.words[index].fetch_max(least, SeqCst);
    }
    fn check_user(&self) -> Result<()> {
        Ok(())
    }
    fn slot(&self) -> usize {
        self.slot
    }
    fn is_held(&self, _: usize) -> bool {
        true
    }
    fn lock_writer(&self, _: Option<Instant>) -> Result<bool> {
        Ok(true)
    }
    fn unlock_writer(&self) {}
    fn has_writer(&self) -> bool {
        true
    }
    fn settle(&self, call: &mut dyn FnMut(bool) -> Result<Then>) -> Result<()> {
        call(false).map(drop)
    }
}

const FIRST: Version = Version(1);
const WRITES: u64 = 3;
const READERS: usize = 2;

fn users() -> Vec<Arc<Board>> {
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect());
    let uuid = oneflush_blocklog::Uuid([7; 16]);
    let board = |slot| Arc::new(Board::new(Arc::new(User { words: Arc::clone(&words), slot })));
    let boards: Vec<Arc<Board>> = (0..=READERS).map(board).collect();
    boards[0].open(&Opened { uuid, current: FIRST, anchor: 0 });
    boards[1..].iter().for_each(|board| assert!(board.join(uuid)));
    boards
}

/// A writer keeps so many versions before the current one for readers that have not begun, and
/// collects what is below the horizon that it is told. `register` gives a reader its version, or
/// refuses it. It must not be collected while it is read.
fn readers_keep_their_version(kept: u64, register: fn(&Board, &Readers) -> Option<Version>) {
    let boards = users();
    let collected = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    for board in &boards[1..] {
        let (board, collected) = (Arc::clone(board), Arc::clone(&collected));
        threads.push(thread::spawn(move || {
            let readers = Readers::new(Arc::clone(&board));
            for _ in 0..2 {
                let Some(version) = register(&board, &readers) else { continue };
                for _ in 0..2 {
                    let below = collected.load(SeqCst);
                    assert!(below <= version.0, "{version} is read, and {below} collected");
                }
                readers.unregister(version);
            }
        }));
    }
    let board = &boards[0];
    for version in (FIRST.0 + 1..).take(WRITES as usize).map(Version) {
        let limit = Version(board.current().0 - kept).max(FIRST);
        board.give_up_before(limit);
        let horizon = board.horizon().min(limit);
        board.begin_writing(version);
        collected.store(horizon.0, SeqCst);
        board.publish(version, &[PageNo(3)], false);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn model_of_a_reader_that_registers_while_a_writer_collects() {
    let register = |_: &Board, readers: &Readers| Some(readers.register());
    shuttle::check_random(move || readers_keep_their_version(0, register), 4000);
    shuttle::check_pct(move || readers_keep_their_version(0, register), 4000, 3);
}

#[test]
#[should_panic(expected = "is read, and")]
fn model_finds_a_reader_that_does_not_look_again() {
    let register = |board: &Board, _: &Readers| {
        let version = board.current();
        board.show_reader(Some(version));
        Some(version)
    };
    shuttle::check_pct(move || readers_keep_their_version(0, register), 4000, 3);
}

/// The version before the current one, which a history keeps.
fn older(board: &Board) -> Version {
    Version(board.current().0 - 1).max(FIRST)
}

#[test]
fn model_of_a_reader_of_an_older_version_while_a_writer_gives_it_up() {
    let register = |board: &Board, readers: &Readers| {
        let version = older(board);
        readers.register_at(version).then_some(version)
    };
    shuttle::check_random(move || readers_keep_their_version(1, register), 4000);
    shuttle::check_pct(move || readers_keep_their_version(1, register), 4000, 3);
}

#[test]
#[should_panic(expected = "is read, and")]
fn model_finds_a_reader_of_an_older_version_that_does_not_look_again() {
    let register = |board: &Board, _: &Readers| {
        let version = older(board);
        let is_there = version >= board.given_up();
        is_there.then(|| board.show_reader(Some(version)))?;
        Some(version)
    };
    shuttle::check_pct(move || readers_keep_their_version(1, register), 4000, 3);
}

/// A reader's cache knows each page that its version has changed.
#[test]
fn model_of_changes_that_a_reader_must_not_miss() {
    let run = || {
        let boards = users();
        let reader = Arc::clone(&boards[1]);
        let thread = thread::spawn(move || {
            let readers = Readers::new(Arc::clone(&reader));
            let mut seen = reader.seen();
            let mut known: HashSet<PageNo> = HashSet::new();
            // What was entered before the first look is in no cache.
            known.extend((0..=FIRST.0 + seen.changes).map(PageNo));
            for _ in 0..3 {
                let version = readers.register();
                let now = reader.seen();
                match reader.missed(seen.changes, now.changes) {
                    Missed::Pages(pages) => known.extend(pages),
                    Missed::All => known.extend((0..=version.0).map(PageNo)),
                }
                seen = now;
                let all = (FIRST.0 + 1..=version.0).all(|page| known.contains(&PageNo(page)));
                assert!(all, "{version}: {known:?}");
                readers.unregister(version);
            }
        });
        for version in (FIRST.0 + 1..).take(WRITES as usize).map(Version) {
            boards[0].begin_writing(version);
            // Version n changes page n.
            boards[0].publish(version, &[PageNo(version.0)], true);
        }
        thread.join().unwrap();
    };
    shuttle::check_random(run, 4000);
    shuttle::check_pct(run, 4000, 3);
}
