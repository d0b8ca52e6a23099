//! Answers wait for their time, in a heap, and a thread waits with them.
//!
//! The thread sleeps with a timer slack of 1 ns. Normally the kernel wakes threads up to 50 µs
//! later than they ask, to save wake-ups. A processor that sleeps itself takes some time as well,
//! in a guest much. So the thread measures at its start by how much it oversleeps, asks to be woken
//! by so much earlier, and spins for the rest.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// An answer is late if it was given so much after its time.
const LATE: Duration = Duration::from_micros(20);

/// An answer that is due so soon is waited for by the thread that took the request. To wake another
/// one would take longer.
const AT_ONCE: Duration = Duration::from_micros(20);

/// The thread never spins for longer.
const SPIN_MAX: Duration = Duration::from_micros(200);
const TRIAL: Duration = Duration::from_micros(300);
const TRIALS: usize = 32;

/// Where the emulation is slower than the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Late {
    pub answers: u64,
    /// More than 20 µs.
    pub late: u64,
    /// Of those that were late.
    pub late_us_mean: f64,
    pub late_us_max: f64,
}

#[derive(Default)]
struct State {
    waiting: BinaryHeap<Waiting>,
    count: u64,
    is_over: bool,
    answers: u64,
    late: u64,
    late_sum: Duration,
    late_max: Duration,
}

struct Waiting {
    due: Instant,
    count: u64,
    send: Box<dyn FnOnce() + Send>,
}

// The heap has the largest on top: that is the one that is due first.
impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        (other.due, other.count).cmp(&(self.due, self.count))
    }
}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Waiting {}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends with its last answer when it is dropped.
pub(super) struct Answers {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    pub fn start() -> io::Result<Answers> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("answers".to_owned()).spawn(move || {
            // Without it answers are later, and counted as such.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            answer(&of_thread, oversleeps());
        })?;
        Ok(Answers { shared, thread: Some(thread) })
    }

    /// Gives the answer when it is due.
    pub fn at(&self, due: Instant, send: impl FnOnce() + Send + 'static) {
        if due <= Instant::now() + AT_ONCE {
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            send();
            self.shared.lock().answered(due);
            return;
        }
        let mut state = self.shared.lock();
        state.count += 1;
        let count = state.count;
        state.waiting.push(Waiting { due, count, send: Box::new(send) });
        let is_first = state.waiting.peek().is_some_and(|first| first.count == count);
        drop(state);
        if is_first {
            self.shared.changed.notify_one();
        }
    }

    pub fn late(&self) -> Late {
        let state = self.shared.lock();
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        Late {
            answers: state.answers,
            late: state.late,
            late_us_mean: us(state.late_sum) / state.late.max(1) as f64,
            late_us_max: us(state.late_max),
        }
    }
}

impl State {
    fn answered(&mut self, due: Instant) {
        self.answers += 1;
        let late = due.elapsed();
        if late > LATE {
            self.late += 1;
            self.late_sum += late;
            self.late_max = self.late_max.max(late);
        }
    }
}

/// By how much nearly all sleeps were too long at most.
fn oversleeps() -> Duration {
    let mut over: Vec<Duration> = (0..TRIALS)
        .map(|_| {
            let begin = Instant::now();
            thread::sleep(TRIAL);
            begin.elapsed().saturating_sub(TRIAL)
        })
        .collect();
    over.sort();
    over[TRIALS * 15 / 16].min(SPIN_MAX)
}

fn answer(shared: &Shared, wakes_earlier: Duration) {
    let mut state = shared.lock();
    loop {
        let wait = match state.waiting.peek() {
            None if state.is_over => return,
            None => None,
            Some(first) => Some(first.due.saturating_duration_since(Instant::now())),
        };
        match wait {
            Some(Duration::ZERO) => {
                let Some(Waiting { due, send, .. }) = state.waiting.pop() else { continue };
                drop(state);
                send();
                state = shared.lock();
                state.answered(due);
            }
            Some(wait) if wait <= wakes_earlier => {
                // Others may come meanwhile that are due before it.
                drop(state);
                for _ in 0..64 {
                    std::hint::spin_loop();
                }
                state = shared.lock();
            }
            Some(wait) => {
                let waited = shared.changed.wait_timeout(state, wait - wakes_earlier);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            None => {
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there is already told; here there is nobody to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn answers_come_in_the_order_of_their_times_and_not_before_them() {
        let (sender, receiver) = mpsc::channel();
        let answers = Answers::start().expect("a thread");
        let begin = Instant::now();
        for ms in [30, 10, 20, 0] {
            let sender = sender.clone();
            let due = begin + Duration::from_millis(ms);
            answers.at(due, move || {
                let _ = sender.send((ms, Instant::now() >= due));
            });
        }
        let order: Vec<_> = receiver.iter().take(4).collect();
        assert_eq!(order, [(0, true), (10, true), (20, true), (30, true)]);
        drop(answers);
    }

    #[test]
    fn what_waits_is_answered_before_the_end() {
        let (sender, receiver) = mpsc::channel();
        let answers = Answers::start().expect("a thread");
        answers.at(Instant::now() + Duration::from_millis(20), move || {
            let _ = sender.send(());
        });
        drop(answers);
        assert!(receiver.try_recv().is_ok());
    }
}
