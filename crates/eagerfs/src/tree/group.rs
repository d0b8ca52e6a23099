//! Who syncs together: one of those who wait writes a record for all.
//!
//! The first to come while nobody writes is the *leader*. The leader takes all requests, writes one
//! record, and answers them. What comes meanwhile goes into the next record.

use std::io;

use parking_lot::{Condvar, Mutex};

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

/// The number of a request.
type Ticket = u64;

#[derive(Debug, Default)]
pub struct Group {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_leader: bool,
    last: Ticket,
    waiting: Vec<(Ticket, Request)>,
    /// Answers that were not taken yet.
    answers: Vec<(Ticket, io::Result<()>)>,
}

impl Group {
    /// Answers when a record that has the request is durable. `write` writes a record for some
    /// requests, and answers each.
    pub fn ask(
        &self,
        request: Request,
        write: impl Fn(&[Request]) -> Vec<io::Result<()>>,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        state.last += 1;
        let ticket = state.last;
        state.waiting.push((ticket, request));
        loop {
            if let Some(at) = state.answers.iter().position(|(of, _)| *of == ticket) {
                return state.answers.swap_remove(at).1;
            }
            if state.has_leader {
                self.changed.wait(&mut state);
                continue;
            }
            state.has_leader = true;
            let batch = std::mem::take(&mut state.waiting);
            drop(state);
            let requests: Vec<Request> = batch.iter().map(|(_, request)| *request).collect();
            let answers = write(&requests);
            state = self.state.lock();
            state.has_leader = false;
            let tickets = batch.iter().map(|(ticket, _)| *ticket);
            state.answers.extend(tickets.zip(answers));
            self.changed.notify_all();
        }
    }
}
