//! The two threads: one records, one reads what is recorded.
//!
//! The recorder thread owns the trace in the kernel. When names have become too many, it ends the
//! recording and begins a new one. Reader and identifier then start empty, and the table goes on. A
//! few events are missing there, as at a begin.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::figures::Load;
use super::table::{Snapshot, Table};
use crate::identify::{Identifier, Layer, Summary};
use crate::import::{Format, ImportError, Reader};
use crate::record::{Labels, Options, RecordError, Recorder, Targets, now_ns};

/// The latest time at which an event is shown, if reading keeps up.
const TURN: Duration = Duration::from_millis(50);
/// Forgetting takes a look at every database, so it waits for so many turns.
const EXPIRE_TURNS: u64 = 20;
/// Files and threads that are named before all begins anew.
const NAMES_COUNT_MAX: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("what is recorded cannot be read: {0}")]
    Import(#[from] ImportError),
    #[error("cannot start reading what is recorded: {0}")]
    Start(io::Error),
    #[error("a thread that reads or records has failed; the message above says why")]
    Thread,
}

/// Watches from its making until [`Session::end`] or its drop.
pub struct Session {
    shared: Arc<Shared>,
    recorder: Option<JoinHandle<Result<(), LiveError>>>,
    is_watched: bool,
}

struct Shared {
    state: Mutex<State>,
    ends: AtomicBool,
}

struct State {
    table: Table,
    identifier: Identifier,
    /// The load of no transaction and the lost events, before the identifier was made.
    before: Load,
    lost_before: u64,
    has_many_names: bool,
    layer: Layer,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A thread that failed has said so. Its figures are still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// Figures are those at `layer`.
    pub fn start(targets: Targets, layer: Layer) -> Result<Session, LiveError> {
        let state = State {
            table: Table::new(now_ns()),
            identifier: Identifier::new().count_at(layer),
            before: Load::default(),
            lost_before: 0,
            has_many_names: false,
            layer,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), ends: AtomicBool::new(false) });
        let (ready, begun) = mpsc::channel();
        let recorder = thread::Builder::new()
            .name("record".to_owned())
            .spawn({
                let shared = shared.clone();
                move || record(&targets, &shared, &ready)
            })
            .map_err(LiveError::Start)?;
        let mut session = Session { shared, recorder: Some(recorder), is_watched: false };
        match begun.recv() {
            Ok(is_watched) => session.is_watched = is_watched,
            // The recorder thread ended before it began to record.
            Err(mpsc::RecvError) => return Err(session.join().err().unwrap_or(LiveError::Thread)),
        }
        Ok(session)
    }

    /// The names of files that are made meanwhile are certain.
    pub fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub fn snapshot(&self) -> Snapshot {
        // The clock is read after the lock is taken. What is in the table is then not later than
        // now.
        let state = self.shared.state();
        state.table.snapshot(now_ns())
    }

    /// Whether the session has ended by itself. [`Session::end`] says why.
    pub fn has_failed(&self) -> bool {
        self.recorder.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub fn end(mut self) -> Result<(), LiveError> {
        self.join()
    }

    fn join(&mut self) -> Result<(), LiveError> {
        self.shared.ends.store(true, Ordering::Relaxed);
        match self.recorder.take() {
            Some(recorder) => recorder.join().unwrap_or(Err(LiveError::Thread)),
            None => Ok(()),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A caller that wants the outcome has called `end`.
        let _ = self.join();
    }
}

fn record(targets: &Targets, shared: &Arc<Shared>, ready: &Sender<bool>) -> Result<(), LiveError> {
    loop {
        let (read, write) = io::pipe().map_err(LiveError::Start)?;
        let options = Options {
            targets: targets.clone(),
            process: None,
            sched: false,
            syscalls: false,
            labels: Labels::default(),
        };
        let recorder = Recorder::live(options, write)?;
        let reading = thread::Builder::new()
            .name("identify".to_owned())
            .spawn({
                let shared = shared.clone();
                move || read_all(read, &shared)
            })
            .map_err(LiveError::Start)?;
        // At a new begin, no receiver listens any more.
        let _ = ready.send(recorder.is_watched());
        let recorded = turns(recorder, shared);
        let read = reading.join().unwrap_or(Err(LiveError::Thread));
        // If the reader has failed, the recorder cannot write. The first cause is told.
        read?;
        recorded?;
        if shared.ends.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Runs turns until the end, or until all is to begin anew. Closes the pipe.
fn turns(mut recorder: Recorder<io::PipeWriter>, shared: &Shared) -> Result<(), RecordError> {
    for turn in 1.. {
        recorder.turn(TURN)?;
        let now_ns = now_ns();
        let mut state = shared.state();
        state.sample(now_ns);
        if turn % EXPIRE_TURNS == 0 {
            state.table.expire(now_ns);
        }
        if state.has_many_names || shared.ends.load(Ordering::Relaxed) {
            break;
        }
    }
    recorder.finish()?;
    Ok(())
}

/// Until the pipe's other end is closed.
fn read_all(pipe: io::PipeReader, shared: &Shared) -> Result<(), LiveError> {
    // Waits for the first bytes.
    let mut reader = Reader::with_format("the recording", pipe, Format::Ftrace)?;
    while let Some(event) = reader.next()? {
        let now_ns = now_ns().max(event.time_ns);
        let mut state = shared.state();
        let State { table, identifier, lost_before, .. } = &mut *state;
        identifier.push(&event, reader.names());
        table.event(&event, identifier.counts(&event), now_ns);
        while let Some(transaction) = identifier.next_transaction() {
            table.transaction(transaction, reader.names(), now_ns);
        }
        let skipped = reader.skipped();
        table.lost(*lost_before + skipped.lost);
        state.has_many_names =
            reader.names().count() >= NAMES_COUNT_MAX || skipped.names_left_out > 0;
    }
    let now_ns = now_ns();
    let mut state = shared.state();
    state.lost_before += reader.skipped().lost;
    state.has_many_names = false;
    let next = Identifier::new().count_at(state.layer);
    let (transactions, summary) =
        std::mem::replace(&mut state.identifier, next).finish(reader.names());
    for transaction in transactions {
        state.table.transaction(transaction, reader.names(), now_ns);
    }
    state.before += load(&summary);
    Ok(())
}

impl State {
    fn sample(&mut self, now_ns: u64) {
        let mut total = self.before;
        total += load(&self.identifier.summary());
        self.table.no_transaction(total, now_ns);
    }
}

fn load(summary: &Summary) -> Load {
    let amounts = [summary.other, summary.fs_journal, summary.metadata].map(|amount| amount.bytes);
    Load { bytes: summary.partial.bytes() + amounts.iter().sum::<u64>(), flushes: summary.flushes }
}
