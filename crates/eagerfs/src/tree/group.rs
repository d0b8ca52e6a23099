//! Who syncs together: what is asked for while a record is written goes into the next one.
//!
//! Whoever asks first for a record *leads* it: its thread waits for the record before, writes this
//! one, and answers all who have joined it. These wait on no thread, so a record costs one wake-up
//! however many share it.

use std::io;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::entry::{ObjectId, Seq};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The file's dirty bytes, and the operations of its iset.
    Sync(ObjectId),
    /// All pending operations.
    Operations,
    /// The same, and the time also if there are none.
    Beat,
    /// The lower has the file durably, as it was at this number.
    Settled(ObjectId, Seq),
    /// The file is about to be cut, and the log has bytes of it.
    Shrink(ObjectId, u64),
}

/// Who has asked is told by this, once, on the thread that leads.
pub type Answer = Box<dyn FnOnce(io::Result<()>) + Send>;

#[derive(Default)]
pub struct Group {
    state: Mutex<State>,
    /// The leader of the next record waits for it.
    is_free: Condvar,
}

#[derive(Default)]
struct State {
    is_writing: bool,
    /// Of the next record. Who is first leads it.
    waiting: Vec<(Request, Answer)>,
}

/// A record is being written. Also if that panics, the next leader is let on.
struct Writing<'a>(&'a Group);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_writing = false;
        self.0.is_free.notify_one();
    }
}

impl Group {
    /// Answers when a record that has the request is durable. `write` writes a record for some
    /// requests, and answers each. If it panics, the answers are dropped.
    pub fn ask(
        &self,
        request: Request,
        answer: Answer,
        write: impl Fn(&[Request]) -> Vec<io::Result<()>>,
    ) {
        let mut state = self.state.lock();
        state.waiting.push((request, answer));
        if state.waiting.len() > 1 {
            return;
        }
        let (batch, writing) = self.lead(state);
        let (requests, answers): (Vec<Request>, Vec<Answer>) = batch.into_iter().unzip();
        let written = write(&requests);
        drop(writing);
        answers.into_iter().zip(written).for_each(|(answer, written)| answer(written));
    }

    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (Vec<(Request, Answer)>, Writing<'a>) {
        while state.is_writing {
            self.is_free.wait(&mut state);
        }
        state.is_writing = true;
        (std::mem::take(&mut state.waiting), Writing(self))
    }
}

/// Has something answered, and waits for it.
pub fn wait(ask: impl FnOnce(Answer)) -> io::Result<()> {
    let (sender, receiver) = std::sync::mpsc::channel();
    // This waits for as long as there is a sender.
    ask(Box::new(move |answer| drop(sender.send(answer))));
    receiver.recv().unwrap_or_else(|_| Err(io::Error::other("who should have written has failed")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn all(requests: &[Request]) -> Vec<io::Result<()>> {
        requests.iter().map(|_| Ok(())).collect()
    }

    #[test]
    fn who_comes_while_a_record_is_written_shares_the_next_one() {
        let group = Arc::new(Group::default());
        let records = AtomicUsize::new(0);
        let answered = AtomicUsize::new(0);
        thread::scope(|scope| {
            let ask = || {
                let write = |requests: &[Request]| {
                    if records.fetch_add(1, Ordering::SeqCst) == 0 {
                        thread::sleep(Duration::from_millis(300));
                    }
                    all(requests)
                };
                wait(|answer| group.ask(Request::Operations, answer, write)).unwrap();
                answered.fetch_add(1, Ordering::SeqCst);
            };
            scope.spawn(ask);
            thread::sleep(Duration::from_millis(100));
            (0..8).for_each(|_| drop(scope.spawn(ask)));
        });
        assert_eq!(answered.into_inner(), 9);
        assert_eq!(records.into_inner(), 2);
    }

    /// A leader that failed so was the leader for ever, and every sync waited.
    #[test]
    fn after_a_panic_the_next_one_leads() {
        let group = Arc::new(Group::default());
        let panics = Arc::clone(&group);
        let broken = thread::spawn(move || {
            let write = |_: &[Request]| -> Vec<io::Result<()>> {
                thread::sleep(Duration::from_millis(200));
                panic!("as a fault in the writer would")
            };
            wait(|answer| panics.ask(Request::Operations, answer, write))
        });
        thread::sleep(Duration::from_millis(50));
        wait(|answer| group.ask(Request::Beat, answer, all)).unwrap();
        assert!(broken.join().is_err());
    }

    #[test]
    fn who_has_joined_a_record_that_panics_is_told() {
        let group = Arc::new(Group::default());
        let slow = |requests: &[Request]| {
            thread::sleep(Duration::from_millis(300));
            all(requests)
        };
        let panics = |_: &[Request]| -> Vec<io::Result<()>> { panic!("as above") };
        thread::scope(|scope| {
            let first = scope.spawn(|| wait(|answer| group.ask(Request::Beat, answer, slow)));
            thread::sleep(Duration::from_millis(50));
            let leads = scope.spawn(|| wait(|answer| group.ask(Request::Beat, answer, panics)));
            thread::sleep(Duration::from_millis(50));
            let joined = scope.spawn(|| wait(|answer| group.ask(Request::Beat, answer, all)));
            assert!(first.join().unwrap().is_ok());
            assert!(leads.join().is_err());
            assert!(joined.join().unwrap().is_err());
        });
    }
}
