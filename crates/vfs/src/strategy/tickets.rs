//! Turns between processes with `eager`. Each process that wants to write draws a ticket in shared
//! memory, and tickets are served in order.
//!
//! Tickets are a courtesy, like [`plain`'s gate](crate::strategy::plain): only the waiting times of
//! writers depend on them. No process waits in the kernel in the place of another. So from one
//! process's commit to the next there is one wake-up, and only of the process that is next.
//!
//! | state of a ticket | entered by | left when |
//! |---|---|---|
//! | waiting | [`Ticket::take`] | `serving` reaches its number |
//! | served | [`Tickets::pass`] | it is given back, or passed over after [`PATIENCE`] |
//! | writing | [`Ticket::begin_writing`] | the same, after [`WRITER_PATIENCE`] |
//! | given back | [`Ticket::give_back`] | `serving` has passed its number |
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. `serving` only goes forward, modulo 2³².
//! 2. A ticket that is given back before its turn is passed over when its turn comes.
//! 3. A served process may do nothing, because it has died or its application has given up. Any
//!    other process then passes it over after [`PATIENCE`], whether that one waits or comes again
//!    without waiting. A process that writes is passed over after [`WRITER_PATIENCE`].

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::futex;
use crate::sync::{Mutex, lock};

/// How long a served process may take to get the write lock.
const PATIENCE: Duration = Duration::from_millis(5);

/// How long a process may keep the write lock. After that its transaction may be that of a dead
/// process.
const WRITER_PATIENCE: Duration = Duration::from_millis(200);

/// What the processes share.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Tickets {
    next: AtomicU32,
    serving: AtomicU32,
    waiting: AtomicU32,
    /// The ticket whose owner last got the write lock, plus one. 0: none.
    writing: AtomicU32,
    /// Each ticket that was given back, plus one, at its number modulo the length. A ticket that is
    /// overwritten here is only passed over later.
    given_back: [AtomicU32; 32],
}

/// The ticket of this process. A process needs one at a time.
#[derive(Default)]
pub struct Ticket(Mutex<Option<Drawn>>);

struct Drawn {
    number: u32,
    /// The ticket that was served at the last look, and since when.
    serving: u32,
    since: Instant,
}

impl Ticket {
    /// Takes a ticket, if this process has none. True if it is this process's turn.
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

    /// Waits for the turn. True if it came.
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

    /// The served process does nothing (invariant 3).
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

    /// Another process has a ticket: it wants to write, or writes.
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
        // A process that was passed over may try its luck as well.
        (self.serving.load(SeqCst).wrapping_sub(ticket) as i32) >= 0
    }

    fn given_back(&self, ticket: u32) -> &AtomicU32 {
        &self.given_back[ticket as usize % self.given_back.len()]
    }

    fn give_back(&self, ticket: u32) {
        // The store comes first. A process that passes this ticket later sees it. If one has passed
        // it before, the `pass` below sees that.
        self.given_back(ticket).store(ticket.wrapping_add(1), SeqCst);
        self.pass(ticket);
    }

    /// Serves the next ticket, if `ticket` is being served.
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

    /// A process waits for its turn.
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

    /// Takes a ticket and the write lock. The turn then does not end because the test waited 5 ms
    /// for a processor.
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
        // The dead process was only slow. Its turn is over without harm.
        dead.give_back(&tickets);
        assert!(waiting.take(&tickets));
    }

    /// The application has no busy timeout.
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
        // A later ticket in the same place of the array is not taken for the one given back.
        four.give_back(&tickets);
        for _ in 0..100 {
            assert!(take_to_write(&one, &tickets));
            assert!(!two.take(&tickets));
            one.give_back(&tickets);
            two.give_back(&tickets);
        }
    }

    /// A process that passes and one that gives back at the same time never leave it to each other.
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
        let tickets = Tickets {
            next: AtomicU32::new(u32::MAX),
            serving: AtomicU32::new(u32::MAX),
            ..Tickets::default()
        };
        let (one, two) = (Ticket::default(), Ticket::default());
        assert!(take_to_write(&one, &tickets));
        assert!(!two.take(&tickets));
        one.give_back(&tickets);
        assert!(two.take(&tickets));
    }
}
