//! The background checkpoint: a thread syncs the database file, so that an epoch of the log can
//! end.
//!
//! The file has each commit in place, and the log has it durably. Nobody waits for this sync. A
//! commit that finds it done begins an epoch for nothing, and a commit that finds the epoch long
//! has little left to sync.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::log_lock::under_lock;
use super::open_log::epoch_bytes_max;
use crate::config::Options;
use crate::error::Code;
use crate::strategy::board::Board;
use crate::strategy::log_files::{LogFiles, fail};
use crate::sync::{Condvar, Mutex, lock, wait_timeout};
use crate::threads;

/// After this time the database file is synced, however little was written.
const AT_LATEST: Duration = Duration::from_secs(20);

/// An idle thread ends after this time.
const IDLE: Duration = Duration::from_secs(60);

pub struct Syncer {
    path: String,
    files: Arc<dyn LogFiles>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    runs: bool,
    /// The thread has ended by a panic, and none is started any more.
    is_refused: bool,
    stops: bool,
    /// The board of the log, and when the first commit came that is not synced.
    unsynced: Option<(Board, Instant)>,
    /// A sync is due now.
    is_due: bool,
    /// The length of the epoch at the last commit.
    used_bytes: u64,
}

impl Syncer {
    pub fn new(path: &str, files: Arc<dyn LogFiles>) -> Arc<Syncer> {
        Arc::new(Syncer {
            path: path.to_owned(),
            files,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// A commit is in place. The epoch has so many bytes.
    pub fn note(self: &Arc<Syncer>, board: &Board, used_bytes: u64, options: &Options) {
        if !options.checkpoints_in_background {
            return;
        }
        let mut state = lock(&self.state);
        if state.unsynced.is_none() {
            state.unsynced = Some((board.clone(), Instant::now()));
            if state.runs {
                self.changed.notify_all();
            }
        }
        // Once an epoch: most of what is written later is written again, and each sync is a flush.
        let half = epoch_bytes_max(options.log_size_bytes) / 2;
        if state.used_bytes < half && used_bytes >= half {
            state.is_due = true;
            self.changed.notify_all();
        }
        state.used_bytes = used_bytes;
        state.stops = false;
        if !state.runs && !state.is_refused {
            let (me, ended) = (Arc::downgrade(self), Arc::downgrade(self));
            // The commits sync the file themselves then.
            let panicked = move || {
                if let Some(syncer) = ended.upgrade() {
                    let mut state = lock(&syncer.state);
                    (state.runs, state.is_refused) = (false, true);
                }
            };
            state.runs = threads::spawn("oneflush-maw", panicked, move || work(&me)).is_ok();
        }
    }

    /// The log is about to be closed.
    pub fn stop(&self) {
        lock(&self.state).stops = true;
        self.forget();
        self.changed.notify_all();
    }

    /// The log has ended. Nothing is left to sync for it.
    pub fn forget(&self) {
        let mut state = lock(&self.state);
        state.unsynced = None;
        state.is_due = false;
        state.used_bytes = 0;
    }

    /// Waits until a sync is due. `None`: the thread ends.
    fn next(&self) -> Option<Board> {
        let mut state = lock(&self.state);
        let idle_until = Instant::now() + IDLE;
        loop {
            let now = Instant::now();
            if state.stops {
                state.runs = false;
                return None;
            }
            let due = match &state.unsynced {
                Some((_, since)) if state.is_due || now >= *since + AT_LATEST => {
                    state.is_due = false;
                    return state.unsynced.take().map(|(board, _)| board);
                }
                Some((_, since)) => *since + AT_LATEST,
                None if now >= idle_until => {
                    state.runs = false;
                    return None;
                }
                None => idle_until,
            };
            state = wait_timeout(&self.changed, state, due.saturating_duration_since(now));
        }
    }
}

fn work(syncer: &Weak<Syncer>) {
    loop {
        let Some(syncer) = syncer.upgrade() else { return };
        let Some(board) = syncer.next() else { return };
        // After an error nobody commits any more, and each commit so far is in the log.
        let _ = syncer.sync(&board);
    }
}

impl Syncer {
    /// Syncs the database file. Commits that come meanwhile are not covered.
    pub fn sync(&self, board: &Board) -> Result<(), Code> {
        // A commit sets `Busy` before its record and clears it when its pages are in place. So
        // everything up to this record is in place.
        let (generation, is_busy) = (board.generation(), board.is_busy());
        let lsn = board.last_lsn();
        if is_busy || board.is_busy() || board.last_lsn() != lsn {
            return Ok(());
        }
        let synced = self.files.sync_database(&self.path);
        // What the kernel could not write may be gone from its memory, too.
        synced.inspect_err(|&code| fail(&*self.files, &self.path, board, code, None, None))?;
        // A replay has the board's lock. It writes the pages again, and this sync does not count.
        match under_lock(board, || {
            if board.generation() == generation {
                board.note_synced(lsn);
            }
            Ok::<(), Code>(())
        }) {
            Err(Code::BUSY) => Ok(()),
            noted => noted,
        }
    }
}
