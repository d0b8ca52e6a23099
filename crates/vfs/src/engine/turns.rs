//! Turns: a first-in, first-out queue of the connections of this process that want a database's
//! write lock.
//!
//! SQLite's writers poll. A writer that finds the lock taken sleeps for 1, 2, 5 … 100 ms and tries
//! again. Any other writer that comes at the right moment overtakes it. Here a writer has a place
//! in a queue and is woken when its turn comes.
//!
//! | state | transition | function | next state |
//! |---|---|---|---|
//! | Idle | free, and nobody waits | `take` | Holder |
//! | Idle | takes a place | `wait` | Waiting |
//! | Waiting | the holder ends, or was idle for 1 ms | `leave`, `revoke_if_idle` | Holder |
//! | Holder | has the write lock | `begin_writing` | Holder, writing |
//! | Holder | loses its turn (invariant 4) | `revoke_if_idle` | Waiting, or Idle |
//! | Waiting, Holder | gives up, or ends | `leave` | Idle |
//!
//! Waking a thread takes as long as a short transaction, and longer if its processor sleeps. The
//! connection that becomes first in the queue is therefore woken while the holder still writes. It
//! looks for its turn for a moment without sleeping. Looking gives way to every other thread that
//! could run. Where other programs want the processors nobody looks ([`crowded`](super::crowded)).
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. At most one connection is the holder. No connection is both holder and waiting, and none
//!    waits twice.
//! 2. A turn is a courtesy; the write lock is the truth. A connection that has lost its turn and
//!    takes the lock all the same harms nobody. So a turn may end at any moment.
//! 3. Turns are given in the order in which the places were taken.
//! 4. While a connection waits, a holder that does not write loses its turn after [`IDLE_MAX`]. The
//!    first in the queue revokes it. The others wake later, by [`IDLE_MAX`] for each place before
//!    them when they fell asleep. The holder need not be idle: it may wait for a processor. So it
//!    gets the first place in the queue, [`LOST_MAX`] times.
//! 5. The thread that gives a turn wakes the new holder, and then the new first in the queue. It
//!    does so after it has released the mutex, which others want.
//! 6. A connection that looks for its turn is awake and is not woken. It sees the turn in `whose`,
//!    or takes the mutex before it sleeps.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::crowded::Crowded;
use crate::futex;
use crate::stats::clock;
use crate::sync::{EventCount, Mutex, MutexGuard, lock, look_until};

/// How long a turn may be held without the write lock while others wait.
pub const IDLE_MAX: Duration = Duration::from_millis(1);

/// How long the first in the queue looks for its turn before it sleeps. If turns with the write
/// lock take longer on average, it sleeps at once.
const LOOK_MAX: Duration = Duration::from_micros(150);

/// How often a holder that has lost its turn gets the first place in the queue. After that it is
/// taken to have given up.
const LOST_MAX: u8 = 8;

/// The number of a connection.
pub type Id = u64;

const NOBODY: Id = Id::MAX;

pub struct Turns {
    state: Mutex<State>,
    given: EventCount,
    /// The holder, or [`NOBODY`]. Written under the mutex.
    whose: AtomicU64,
    /// About how many connections wait, readable without the mutex.
    waiting: AtomicU32,
}

#[derive(Default)]
struct State {
    holder: Option<Holder>,
    waiting: VecDeque<Waiter>,
    /// The first in the queue, if it is awake and looks for its turn.
    looks: Option<Id>,
    /// Connections that are still to be woken: the new holder, and the new first in the queue.
    sleeps: [Option<Id>; 2],
    /// The average time of a turn with the write lock.
    turn_ns: u64,
    crowded: Crowded,
}

struct Holder {
    id: Id,
    since: Instant,
    writing: bool,
    /// How often the holder has lost its turn since it took its place.
    lost: u8,
}

#[derive(Clone, Copy)]
struct Waiter {
    id: Id,
    lost: u8,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns {
            state: Mutex::default(),
            given: EventCount::default(),
            whose: AtomicU64::new(NOBODY),
            waiting: AtomicU32::new(0),
        }
    }
}

impl Turns {
    /// Takes the turn if that needs no waiting. True if `id` has the turn now.
    pub fn take(&self, id: Id) -> bool {
        let mut state = lock(&self.state);
        state.revoke_if_idle();
        if state.holder.is_none() && state.waiting.is_empty() {
            state.give(Waiter { id, lost: 0 }, Instant::now());
        }
        let has_turn = state.holds(id);
        self.release(state);
        has_turn
    }

    pub fn holds(&self, id: Id) -> bool {
        lock(&self.state).holds(id)
    }

    /// Takes a place in the queue, if `id` has none yet, and waits there.
    ///
    /// True if the turn came within `at_most`. The place stays.
    pub fn wait(&self, id: Id, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut may_look = !at_most.is_zero();
        loop {
            let mut state = lock(&self.state);
            state.stop_looking(id);
            if state.holds(id) {
                return true;
            }
            // The turn may have come and been revoked while the connection slept. It then needs a
            // new place.
            let place = state.place_of(id);
            state.revoke_if_idle();
            let (has_turn, idle_until) = (state.holds(id), state.idle_until());
            let looks = may_look && !has_turn && place == 0 && state.is_worth_looking();
            if looks {
                state.looks = Some(id);
            }
            let seen = self.given.get();
            self.release(state);
            if looks {
                let left = deadline.saturating_duration_since(Instant::now());
                let longest = look_until(LOOK_MAX.min(left), || self.whose.load(SeqCst) == id);
                lock(&self.state).crowded.looked(Instant::now(), longest);
                may_look = false;
                continue;
            }
            let now = Instant::now();
            if has_turn || now >= deadline {
                return has_turn;
            }
            // The first in the queue watches the holder. The others need not all wake for that.
            let until = idle_until.map_or(deadline, |until| deadline.min(until + IDLE_MAX * place));
            self.given.wait(seen, bit_of(id), until.saturating_duration_since(now));
            may_look = true;
        }
    }

    /// Marks the holder as having the write lock. False if `id` has lost its turn before.
    pub fn begin_writing(&self, id: Id) -> bool {
        let mut state = lock(&self.state);
        match state.holder.as_mut().filter(|holder| holder.id == id) {
            Some(holder) => {
                holder.writing = true;
                true
            }
            None => false,
        }
    }

    /// Restarts the holder's idle time: it waits for another process to release the write lock.
    pub fn renew(&self, id: Id) {
        let mut state = lock(&self.state);
        if let Some(holder) = state.holder.as_mut().filter(|holder| holder.id == id) {
            (holder.since, holder.writing) = (Instant::now(), false);
        }
    }

    /// Ends the turn of `id`, if it has it, and gives up its place in the queue, if it waits. True:
    /// it had the turn.
    pub fn leave(&self, id: Id) -> bool {
        let mut state = lock(&self.state);
        state.waiting.retain(|waiter| waiter.id != id);
        state.stop_looking(id);
        let had_turn = state.holds(id);
        if had_turn {
            state.pass_on();
        }
        self.release(state);
        had_turn
    }

    /// About how many connections wait for the turn.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Relaxed)
    }

    /// True if a connection other than `id` waits for the turn.
    pub fn wanted_beside(&self, id: Id) -> bool {
        lock(&self.state).waiting.iter().any(|waiter| waiter.id != id)
    }

    /// Invariant 5.
    fn release(&self, mut state: MutexGuard<'_, State>) {
        let sleeps = std::mem::take(&mut state.sleeps);
        debug_assert!(
            state.holder.is_some() || state.waiting.is_empty(),
            "invariant 5: a free turn is given to who waits"
        );
        debug_assert!(
            state.looks.is_none() || !sleeps.contains(&state.looks),
            "invariant 6: who looks is not woken"
        );
        self.waiting.store(state.waiting.len() as u32, Relaxed);
        self.whose.store(state.holder.as_ref().map_or(NOBODY, |holder| holder.id), SeqCst);
        if sleeps != [None; 2] {
            self.given.count();
        }
        drop(state);
        sleeps.into_iter().flatten().for_each(|id| self.given.wake(bit_of(id)));
    }
}

fn bit_of(id: Id) -> NonZeroU32 {
    futex::bit_of(id as u32)
}

impl State {
    fn holds(&self, id: Id) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.id == id)
    }

    fn give(&mut self, Waiter { id, lost }: Waiter, now: Instant) {
        debug_assert!(self.waiting.iter().all(|waiter| waiter.id != id), "invariant 1");
        self.holder = Some(Holder { id, since: now, writing: false, lost });
    }

    fn stop_looking(&mut self, id: Id) {
        self.looks = self.looks.filter(|&looks| looks != id);
    }

    /// How many connections are before `id` in the queue. Takes the last place if `id` has none.
    fn place_of(&mut self, id: Id) -> u32 {
        debug_assert!(!self.holds(id), "invariant 1: the holder takes no place");
        let place = self.waiting.iter().position(|waiter| waiter.id == id).unwrap_or_else(|| {
            self.waiting.push_back(Waiter { id, lost: 0 });
            self.waiting.len() - 1
        });
        if self.holder.is_none() {
            self.pass_on();
        }
        place as u32
    }

    /// Ends the holder's turn and gives it to the first in the queue.
    fn pass_on(&mut self) {
        let now = Instant::now();
        if let Some(ended) = self.holder.take().filter(|holder| holder.writing) {
            self.turn_ns = clock::average_ns(self.turn_ns, (now - ended.since).as_nanos() as u64);
        }
        if let Some(next) = self.waiting.pop_front() {
            self.give(next, now);
            debug_assert_eq!(self.sleeps, [None; 2], "invariant 5: nobody to wake is forgotten");
            let first =
                self.waiting.front().map(|first| first.id).filter(|_| self.is_worth_looking());
            self.sleeps = [Some(next.id).filter(|_| self.looks != Some(next.id)), first];
            self.looks = None;
        }
    }

    /// True if the first in the queue should look for its turn: turns are short and no other
    /// program wants the processors.
    fn is_worth_looking(&self) -> bool {
        Duration::from_nanos(self.turn_ns) < LOOK_MAX && !self.crowded.is_so(Instant::now())
    }

    /// When the holder will have been idle for too long. None: the holder writes, or there is no
    /// holder.
    fn idle_until(&self) -> Option<Instant> {
        self.holder.as_ref().filter(|holder| !holder.writing).map(|holder| holder.since + IDLE_MAX)
    }

    /// Invariant 4.
    fn revoke_if_idle(&mut self) {
        if !self.waiting.is_empty()
            && self.idle_until().is_some_and(|until| until <= Instant::now())
        {
            let lost =
                self.holder.as_ref().map(|holder| Waiter { id: holder.id, lost: holder.lost + 1 });
            self.pass_on();
            if let Some(lost) = lost.filter(|lost| lost.lost <= LOST_MAX) {
                debug_assert!(
                    self.waiting.iter().all(|waiter| waiter.id != lost.id),
                    "invariant 1: who has lost its turn waits once"
                );
                self.waiting.push_front(lost);
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn a_free_turn_is_taken_at_once_and_only_once() {
        let turns = Turns::default();
        assert!(turns.take(1));
        assert!(turns.take(1));
        assert!(!turns.take(2));
        turns.leave(1);
        assert!(turns.take(2));
    }

    #[test]
    fn turns_come_in_the_order_of_the_places() {
        let turns = Turns::default();
        assert!(turns.take(1));
        turns.begin_writing(1);
        assert!(!turns.wait(2, Duration::ZERO));
        assert!(!turns.wait(3, Duration::ZERO));
        assert!(
            !turns.wait(2, Duration::ZERO),
            "waiting again keeps the place and does not take a second one"
        );
        turns.leave(1);
        assert!(turns.holds(2));
        turns.leave(2);
        assert!(turns.holds(3));
        turns.leave(3);
        assert!(!turns.wanted_beside(0));
    }

    #[test]
    fn nobody_overtakes_those_who_wait() {
        let turns = Turns::default();
        assert!(turns.take(1));
        // Or it may lose its turn if the test has to wait 1 ms for a processor.
        turns.begin_writing(1);
        assert!(!turns.wait(2, Duration::ZERO));
        turns.leave(1);
        assert!(!turns.take(3));
    }

    #[test]
    fn an_idle_holder_loses_its_turn_and_a_writing_one_does_not() {
        let turns = Turns::default();
        assert!(turns.take(1));
        assert!(turns.wait(2, LONG), "the holder never wrote");
        turns.begin_writing(2);
        assert!(!turns.wait(3, 5 * IDLE_MAX));
        assert!(turns.holds(2));
    }

    /// On a busy machine writers waited for seconds. A writer that got no processor within its turn
    /// went to the end of the queue, again and again.
    #[test]
    fn who_has_lost_its_turn_is_the_next_until_it_is_taken_to_have_given_up() {
        let turns = Turns::default();
        let first = || lock(&turns.state).waiting.front().map(|waiter| waiter.id);
        assert!(turns.take(1));
        assert!(turns.wait(2, LONG), "the other has not written in time");
        turns.begin_writing(2);
        assert!(!turns.wait(3, Duration::ZERO));
        assert_eq!(first(), Some(1));
        turns.leave(2);
        assert!(turns.holds(1));
        assert!(turns.begin_writing(1), "it only came late");
        turns.leave(1);
        assert!(turns.holds(3));
        // A holder that never comes is in nobody's way for ever.
        let mut lost = 0;
        while turns.holds(3) || first() == Some(3) {
            turns.leave(4);
            assert!(turns.wait(4, LONG));
            lost += 1;
        }
        assert_eq!(lost, u32::from(LOST_MAX) + 1);
        turns.leave(4);
        assert!(turns.take(5));
    }

    #[test]
    fn who_waits_is_woken_when_the_turn_ends() {
        let turns = Turns::default();
        assert!(turns.take(1));
        turns.begin_writing(1);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| turns.wait(2, LONG));
            while !turns.wanted_beside(0) {
                std::thread::yield_now();
            }
            turns.leave(1);
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn the_first_in_the_queue_looks_for_its_turn_where_is_worth_looking() {
        let turns = Turns::default();
        let looks = || lock(&turns.state).looks;
        let waits_behind = |holder: Id, id: Id, turn: Duration| {
            let mut state = lock(&turns.state);
            state.turn_ns = turn.as_nanos() as u64;
            // On a busy machine nobody looks; this test is about looking.
            state.crowded = Crowded::default();
            drop(state);
            assert!(turns.take(holder));
            turns.begin_writing(holder);
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| turns.wait(id, LONG));
                let began = Instant::now();
                let mut has_looked = false;
                while !has_looked && began.elapsed() < 100 * LOOK_MAX {
                    has_looked = looks() == Some(id);
                }
                while !turns.wanted_beside(holder) {
                    std::thread::yield_now();
                }
                turns.leave(holder);
                assert!(waiter.join().unwrap());
                assert_eq!(looks(), None);
                turns.leave(id);
                has_looked
            })
        };
        // The waiter looks for a moment only. A busy machine may not let the test see it each time.
        oneflush_testing::wait_until("it looks", || waits_behind(1, 2, LOOK_MAX / 2));
        assert!(!waits_behind(1, 2, LOOK_MAX), "it would look in vain");
    }

    #[test]
    fn who_has_looked_in_vain_sleeps_and_is_woken() {
        let turns = Turns::default();
        assert!(turns.take(1));
        turns.begin_writing(1);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| turns.wait(2, LONG));
            while !turns.wanted_beside(1) {
                std::thread::yield_now();
            }
            let second = scope.spawn(|| turns.wait(3, LONG) && turns.holds(3));
            std::thread::sleep(20 * LOOK_MAX);
            // Later on a busy machine.
            let began = Instant::now();
            while lock(&turns.state).looks.is_some() {
                assert!(began.elapsed() < LONG / 2, "it looks on");
                std::thread::sleep(LOOK_MAX);
            }
            turns.leave(1);
            assert!(first.join().unwrap());
            turns.begin_writing(2);
            std::thread::sleep(20 * LOOK_MAX);
            turns.leave(2);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn who_leaves_the_queue_is_passed_over() {
        let turns = Turns::default();
        assert!(turns.take(1));
        turns.begin_writing(1);
        assert!(!turns.wait(2, Duration::ZERO));
        assert!(!turns.wait(3, Duration::ZERO));
        turns.leave(2);
        turns.leave(1);
        assert!(turns.holds(3));
    }
}

/// The model check: every order of threads that the checker tries keeps the invariants, and nobody
/// waits for ever.
#[cfg(all(test, feature = "shuttle"))]
mod model {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// Longer than any run. The checker's time does not pass, so a lost wake-up is a deadlock,
    /// which it reports.
    const FOR_EVER: Duration = Duration::from_secs(1_000_000);

    fn writers_take_turns() {
        const WRITERS: u64 = 3;
        let turns = Arc::new(Turns::default());
        let writing = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (1..=WRITERS)
            .map(|id| {
                let (turns, writing) = (Arc::clone(&turns), Arc::clone(&writing));
                shuttle::thread::spawn(move || {
                    for _ in 0..2 {
                        if !turns.take(id) {
                            assert!(turns.wait(id, FOR_EVER));
                        }
                        // The clock of the turns is real, so a slow run can lose a turn here
                        // (invariant 4).
                        if turns.begin_writing(id) {
                            assert_eq!(writing.fetch_add(1, SeqCst), 0, "invariant 1");
                            shuttle::thread::yield_now();
                            writing.fetch_sub(1, SeqCst);
                        }
                        turns.leave(id);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!turns.wanted_beside(0));
        assert!(turns.take(99), "the last one out left the turn free");
    }

    fn some_give_up() {
        let turns = Arc::new(Turns::default());
        assert!(turns.take(1));
        turns.begin_writing(1);
        let waiting: Vec<_> = (2..=4)
            .map(|id| {
                let turns = Arc::clone(&turns);
                shuttle::thread::spawn(move || {
                    if id == 3 {
                        turns.wait(id, Duration::ZERO);
                    } else {
                        assert!(turns.wait(id, FOR_EVER));
                        turns.begin_writing(id);
                    }
                    turns.leave(id);
                })
            })
            .collect();
        turns.leave(1);
        for thread in waiting {
            thread.join().unwrap();
        }
        assert!(turns.take(99));
    }

    #[test]
    fn one_at_a_time_and_nobody_is_forgotten() {
        shuttle::check_random(writers_take_turns, 20_000);
        shuttle::check_pct(writers_take_turns, 20_000, 3);
    }

    #[test]
    fn a_place_that_is_given_up_loses_no_wake_up() {
        shuttle::check_random(some_give_up, 20_000);
        shuttle::check_pct(some_give_up, 20_000, 3);
    }

    /// The check of the check: a queue that forgets to wake the next one is caught.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn a_queue_that_wakes_nobody_is_caught() {
        shuttle::check_random(
            || {
                let turns = Arc::new(Turns::default());
                assert!(turns.take(1));
                turns.begin_writing(1);
                let waiter = {
                    let turns = Arc::clone(&turns);
                    shuttle::thread::spawn(move || assert!(turns.wait(2, FOR_EVER)))
                };
                let mut state = lock(&turns.state);
                state.holder = None;
                drop(state);
                waiter.join().unwrap();
            },
            1_000,
        );
    }
}
