//! Turns between processes with `eager`, in the memory that they share: a ticket for each that wants to write, served in order.
//!
//! Like [`plain`'s door](crate::strategy::plain) a courtesy: nothing depends on it but how long writers wait. Here nobody's thread waits in the
//! kernel in the place of another, so from one process's commit to the next is one wake-up, and only of that process.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. `serving` only goes forward, modulo 2³².
//! 2. Whoever gives a ticket back before its turn is passed over when it comes.
//! 3. Whoever was served and does nothing, because its process has died or its application has given up, is passed over after [`PATIENCE`] by who
//!    waits, or comes again without waiting; who writes, after [`WRITER_PATIENCE`].

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::futex;
use crate::sync::{Mutex, lock};

/// From its turn to the write lock.
const PATIENCE: Duration = Duration::from_millis(5);

/// With the write lock: a transaction that takes longer may also be that of a process that has died.
const WRITER_PATIENCE: Duration = Duration::from_millis(200);

/// What the processes share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Tickets {
    next: AtomicU32,
    serving: AtomicU32,
    waiting: AtomicU32,
    /// The ticket whose owner last got the write lock, and one more: 0 is nobody's.
    writing: AtomicU32,
    /// Each ticket that was given back, and one more, at its number modulo their count. (Where another has taken its place, it is only
    /// passed over later.)
    given_back: [AtomicU32; 32],
}

/// The ticket of this process, which needs one at a time.
#[derive(Default)]
pub struct Ticket(Mutex<Option<Drawn>>);

struct Drawn {
    number: u32,
    /// Who was served when it was last looked at, and since when.
    serving: u32,
    since: Instant,
}

impl Ticket {
    /// Takes a ticket, if this process has none. True if it is its turn.
    pub fn take(&self, tickets: &Tickets) -> bool {
        let serving = tickets.serving.load(SeqCst);
        let number = lock(&self.0).get_or_insert_with(|| tickets.take()).number;
        if !tickets.is_served(number) && self.is_stuck(tickets, serving) {
            tickets.pass(serving);
        }
        tickets.is_served(number)
    }

    fn number(&self) -> u32 {
        lock(&self.0).as_ref().map_or(0, |held| held.number)
    }

    /// Waits for its turn; true if it came.
    pub fn wait(&self, tickets: &Tickets, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        loop {
            let serving = tickets.serving.load(SeqCst);
            if self.take(tickets) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            tickets.sleep(self.number(), serving, PATIENCE.min(left));
        }
    }

    /// Invariant 3.
    fn is_stuck(&self, tickets: &Tickets, serving: u32) -> bool {
        let now = Instant::now();
        let mut held = lock(&self.0);
        let Some(held) = held.as_mut() else { return false };
        if held.serving != serving {
            (held.serving, held.since) = (serving, now);
        }
        let writes = tickets.writing.load(SeqCst) == serving.wrapping_add(1);
        now - held.since >= if writes { WRITER_PATIENCE } else { PATIENCE }
    }

    /// This process has the write lock.
    pub fn begin_writing(&self, tickets: &Tickets) {
        if let Some(held) = lock(&self.0).as_ref() {
            tickets.writing.store(held.number.wrapping_add(1), SeqCst);
        }
    }

    /// Another process has drawn a ticket, so it wants to write, or does.
    pub fn is_not_alone(&self, tickets: &Tickets) -> bool {
        let own = i32::from(lock(&self.0).is_some());
        tickets.next.load(SeqCst).wrapping_sub(tickets.serving.load(SeqCst)) as i32 > own
    }

    /// The turn is over, or not wanted any more.
    pub fn give_back(&self, tickets: &Tickets) {
        let held = lock(&self.0).take();
        if let Some(held) = held {
            tickets.give_back(held.number);
        }
    }
}

impl Tickets {
    fn take(&self) -> Drawn {
        let number = self.next.fetch_add(1, SeqCst);
        Drawn { number, serving: self.serving.load(SeqCst), since: Instant::now() }
    }

    fn is_served(&self, ticket: u32) -> bool {
        // Passed over, it may try its luck as well.
        (self.serving.load(SeqCst).wrapping_sub(ticket) as i32) >= 0
    }

    fn given_back(&self, ticket: u32) -> &AtomicU32 {
        &self.given_back[ticket as usize % self.given_back.len()]
    }

    fn give_back(&self, ticket: u32) {
        // First: whoever passes it from now on sees it, and who has passed it before is seen by `pass`.
        self.given_back(ticket).store(ticket.wrapping_add(1), SeqCst);
        self.pass(ticket);
    }

    /// Serves the one behind `ticket`, if that one is being served.
    fn pass(&self, mut ticket: u32) {
        loop {
            let next = ticket.wrapping_add(1);
            if self.serving.compare_exchange(ticket, next, SeqCst, SeqCst).is_err() {
                return;
            }
            // Invariant 2.
            if self.given_back(next).load(SeqCst) != next.wrapping_add(1) {
                if self.are_waited_for() {
                    futex::wake(&self.serving, u32::MAX, futex::bit_of(next));
                }
                return;
            }
            ticket = next;
        }
    }

    /// Somebody waits for his turn.
    pub fn are_waited_for(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    fn sleep(&self, ticket: u32, serving: u32, at_most: Duration) {
        self.waiting.fetch_add(1, SeqCst);
        futex::wait(&self.serving, serving, futex::bit_of(ticket), at_most);
        self.waiting.fetch_sub(1, SeqCst);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    /// Whose turn does not end because the test had to wait 5 ms for a processor.
    fn take_to_write(ticket: &Ticket, tickets: &Tickets) -> bool {
        let is_served = ticket.take(tickets);
        ticket.begin_writing(tickets);
        is_served
    }

    #[test]
    fn tickets_are_served_in_order() {
        let tickets = Tickets::default();
        let (one, two, three) = (Ticket::default(), Ticket::default(), Ticket::default());
        assert!(take_to_write(&one, &tickets));
        assert!(!two.take(&tickets));
        assert!(!three.take(&tickets));
        one.give_back(&tickets);
        assert!(two.take(&tickets));
        assert!(!three.take(&tickets));
        two.give_back(&tickets);
        assert!(three.wait(&tickets, Duration::ZERO));
    }

    #[test]
    fn who_waits_is_woken() {
        let tickets = Tickets::default();
        let (one, two) = (Ticket::default(), Ticket::default());
        assert!(one.take(&tickets));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| two.wait(&tickets, LONG));
            std::thread::sleep(Duration::from_millis(1));
            one.give_back(&tickets);
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn who_does_nothing_with_his_turn_is_passed_over() {
        let tickets = Tickets::default();
        let (dead, waiting) = (Ticket::default(), Ticket::default());
        assert!(dead.take(&tickets));
        let began = Instant::now();
        assert!(waiting.wait(&tickets, LONG));
        assert!(began.elapsed() < LONG / 2);
        // The dead one was only slow; its turn is over without harm.
        dead.give_back(&tickets);
        assert!(waiting.take(&tickets));
    }

    /// Whose application has no busy timeout, as it had before.
    #[test]
    fn who_only_comes_again_passes_him_over_too() {
        let tickets = Tickets::default();
        let (idle, comes_again) = (Ticket::default(), Ticket::default());
        assert!(idle.take(&tickets));
        assert!(!comes_again.take(&tickets));
        std::thread::sleep(2 * PATIENCE);
        assert!(comes_again.take(&tickets));
    }

    #[test]
    fn a_ticket_that_was_given_back_before_its_turn_is_passed_over_at_once() {
        let tickets = Tickets::default();
        let [one, two, three, four] = std::array::from_fn(|_| Ticket::default());
        take_to_write(&one, &tickets);
        for ticket in [&two, &three, &four] {
            ticket.take(&tickets);
        }
        two.give_back(&tickets);
        three.give_back(&tickets);
        assert!(!four.take(&tickets));
        one.give_back(&tickets);
        assert!(four.take(&tickets));
        // And a later one in the same places is not taken for it.
        four.give_back(&tickets);
        for _ in 0..100 {
            assert!(take_to_write(&one, &tickets));
            assert!(!two.take(&tickets));
            one.give_back(&tickets);
            two.give_back(&tickets);
        }
    }

    /// Whoever passes and who gives back at the same time never both leave it to the other.
    #[test]
    fn nobody_is_left_behind_a_ticket_that_is_given_back_while_it_is_passed() {
        let tickets = Tickets::default();
        for _ in 0..2000 {
            let [one, two, three] = std::array::from_fn(|_| Ticket::default());
            assert!(take_to_write(&one, &tickets) && !two.take(&tickets) && !three.take(&tickets));
            std::thread::scope(|scope| {
                scope.spawn(|| one.give_back(&tickets));
                scope.spawn(|| two.give_back(&tickets));
            });
            assert!(three.take(&tickets));
            three.give_back(&tickets);
        }
    }

    #[test]
    fn who_writes_is_waited_for_longer() {
        let tickets = Tickets::default();
        let (writer, waiting) = (Ticket::default(), Ticket::default());
        assert!(writer.take(&tickets));
        writer.begin_writing(&tickets);
        let began = Instant::now();
        assert!(waiting.wait(&tickets, LONG));
        assert!(began.elapsed() >= WRITER_PATIENCE);
    }

    #[test]
    fn the_count_may_begin_anew() {
        let tickets =
            Tickets { next: AtomicU32::new(u32::MAX), serving: AtomicU32::new(u32::MAX), ..Tickets::default() };
        let (one, two) = (Ticket::default(), Ticket::default());
        assert!(take_to_write(&one, &tickets));
        assert!(!two.take(&tickets));
        one.give_back(&tickets);
        assert!(two.take(&tickets));
    }
}
