//! What the connections of this process to one database share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use super::checkpointer::{CheckpointCounts, Checkpointer, Progress, RunCheckpoint};
use super::door::Door;
use super::extent::Extent;
use super::flush::GroupFlush;
use super::generation::Generation;
use super::kept::TakenUp;
use super::turns::Turns;
use super::unsure;
use crate::config::Options;
use crate::error::Code;
use crate::strategy::eager::{self, EagerLog};
use crate::strategy::{Below, SideFiles, StrategyReport};
use crate::sync::{Barrier, Mutex, lock};

/// For so many commits after it was met, or has written, another process is taken to be still there: with `plain` no queue reaches across
/// processes.
const OUTSIDERS_COMMITS: u64 = 32;

/// Every so many commits one that knows of no other process looks whether somebody is at the door.
const LOOKS_EVERY: u32 = 8;

/// What the connections of this process to one database share.
pub struct Shared {
    barrier: Arc<Barrier>,
    pub(super) turns: Turns,
    pub(super) flush: GroupFlush,
    pub(super) extent: Extent,
    pub(super) generation: Generation,
    /// The directory entry of that WAL is durable. A last close, by whichever process, gives the file
    /// another name. So this ends when the last connection of this process closes the WAL.
    pub(super) directory_synced: AtomicBool,
    /// The kept WAL, if this process has taken it up and written nothing to the database file since.
    pub(super) taken_up: Mutex<Option<TakenUp>>,
    pub(super) path: String,
    pub(super) files: Arc<dyn SideFiles>,
    /// How many connections have the WAL open.
    pub(super) open_wals: AtomicU32,
    /// With `eager`: what makes commits durable in the place of the WAL.
    pub(super) log: Option<EagerLog>,
    /// A failed flush, now or when the database was open before, has left the WAL unsure.
    pub(super) left: Mutex<bool>,
    /// Connections that are not the checkpointer's.
    pub(super) users: AtomicU32,
    pub(super) checkpointer: Arc<Checkpointer>,
    /// The number of the checkpointer's last connection.
    pub(super) checkpointer_id: AtomicU64,
    /// For how many commits more writers of other processes are taken to wait.
    pub(super) outsiders: AtomicU64,
    /// How often it was not known of any.
    commits_alone: AtomicU32,
    pub(super) door: Arc<Door>,
    pub(super) counts: Counts,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) turn_waits: AtomicU64,
    pub(super) turn_wait_ns_sum: AtomicU64,
    pub(super) turn_wait_ns_max: AtomicU64,
    pub(super) bounced: AtomicU64,
    pub(super) mispredicted: AtomicU64,
}

impl Shared {
    /// Of its WAL index.
    pub fn barrier(&self) -> Arc<Barrier> {
        Arc::clone(&self.barrier)
    }

    pub fn new(path: &str, run: Arc<dyn RunCheckpoint>, files: Arc<dyn SideFiles>, log: Option<EagerLog>) -> Shared {
        let wal = log.as_ref().map_or_else(|| format!("{path}-wal"), EagerLog::image_path);
        Shared {
            barrier: Arc::default(),
            turns: Turns::default(),
            flush: GroupFlush::default(),
            path: path.to_owned(),
            files,
            open_wals: AtomicU32::new(0),
            log,
            left: Mutex::new(unsure::take(path)),
            extent: Extent::default(),
            generation: Generation::default(),
            directory_synced: AtomicBool::new(false),
            taken_up: Mutex::default(),
            users: AtomicU32::new(0),
            checkpointer: Checkpointer::new(path, run),
            checkpointer_id: AtomicU64::new(0),
            outsiders: AtomicU64::new(0),
            commits_alone: AtomicU32::new(0),
            door: Door::new(&wal),
            counts: Counts::default(),
        }
    }

    /// Ends the thread that could be inside SQLite; false: it is not over by then.
    pub fn call_off(&self, until: Instant) -> bool {
        self.checkpointer.call_off(until)
    }

    /// After [`Shared::call_off`]: checkpoints may run, but no thread for them.
    pub fn run_by_hand(&self) {
        self.checkpointer.run_by_hand();
    }

    pub fn resume(&self) {
        self.checkpointer.resume();
    }

    /// A checkpoint, now, by a connection of its own.
    pub fn checkpoint_now(&self, options: &Options) -> Result<Progress, String> {
        self.checkpointer.run_now(options)
    }

    /// When the database file was changed last.
    pub(super) fn database_changed(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.path).and_then(|file| file.modified()).ok()
    }

    /// A flush has failed.
    pub(super) fn note_failure(&self) {
        *lock(&self.left) = true;
    }

    /// A commit that others may stand on, and that ends at `end_bytes`, has no flush. The caller still has its read lock, so no WAL is begun
    /// anew, and of the frames up to its own none changes.
    pub(super) fn write_published_again(&self, wal: &dyn Below, end_bytes: u64) {
        let left = lock(&self.left);
        if *left {
            // If it fails, the close tries it again, as it does for what is behind.
            let _ = unsure::write_again(wal, end_bytes);
        }
    }

    /// Mends what is unsure before `end_bytes`. The caller keeps all writers out.
    pub(super) fn mend(&self, wal: &dyn Below, end_bytes: u64) -> Result<(), Code> {
        let mut left = lock(&self.left);
        if *left {
            unsure::write_again(wal, end_bytes)?;
            *left = false;
        }
        Ok(())
    }

    /// Ends the turn of a connection, if it has it, and lets the next process through the door.
    pub(super) fn leave(&self, id: u64) {
        let had_turn = self.turns.holds(id);
        self.turns.leave(id);
        if had_turn {
            match &self.log {
                Some(log) => log.give_ticket_back(),
                None => self.door.leave(),
            }
        }
    }

    /// A writer of another process has the write lock, or has had it.
    pub(super) fn meets_outsiders(&self) {
        self.outsiders.store(OUTSIDERS_COMMITS, Relaxed);
    }

    pub(super) fn knows_of_outsiders(&self) -> bool {
        self.outsiders.load(Relaxed) > 0
    }

    /// Writers of another process are taken to be there; asked once for each commit, and forgotten after as many.
    pub(super) fn commit_has_outsiders(&self) -> bool {
        let outsiders = match self.outsiders.load(Relaxed) {
            0 if self.sees_outsiders() => OUTSIDERS_COMMITS,
            outsiders => outsiders,
        };
        if outsiders > 0 {
            self.outsiders.store(outsiders - 1, Relaxed);
        }
        outsiders > 0
    }

    /// A writer of another process waits, though none was known of: it need not have met this one, which has the write lock nearly always.
    fn sees_outsiders(&self) -> bool {
        if self.commits_alone.fetch_add(1, Relaxed) % LOOKS_EVERY != LOOKS_EVERY - 1 {
            return false;
        }
        self.log.as_ref().map_or_else(|| self.door.is_taken(), EagerLog::is_wanted)
    }

    /// Goes through the door between processes, if nobody of another is there.
    pub(super) fn enter_door(&self) -> bool {
        self.log.as_ref().map_or_else(|| self.door.enter(), EagerLog::take_ticket)
    }

    /// The user of the door has the write lock.
    pub(super) fn begin_writing(&self) {
        match &self.log {
            Some(log) => log.begin_writing(),
            None => self.door.begin_writing(),
        }
    }

    /// Waits at it; true if it is open for this process now.
    pub(super) fn wait_at_door(&self, at_most: Duration) -> bool {
        match &self.log {
            Some(log) => log.wait_for_ticket(at_most),
            None => self.door.wait(at_most),
        }
    }

    pub(super) fn waited(&self, began: Instant) {
        let waited_ns = began.elapsed().as_nanos() as u64;
        self.counts.turn_waits.fetch_add(1, Relaxed);
        self.counts.turn_wait_ns_sum.fetch_add(waited_ns, Relaxed);
        self.counts.turn_wait_ns_max.fetch_max(waited_ns, Relaxed);
    }

    pub fn report(&self) -> StrategyReport {
        match &self.log {
            None => StrategyReport::Plain(self.common_report()),
            Some(log) => StrategyReport::Eager(EagerReport { common: self.common_report(), log: log.report() }),
        }
    }

    fn common_report(&self) -> PlainReport {
        let flush = self.flush.counts();
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        PlainReport {
            commits: flush.commits,
            flushes: flush.flushes,
            commits_per_flush: if flush.flushes == 0 { 0.0 } else { flush.commits as f64 / flush.flushes as f64 },
            flush_failed: self.flush.failure().is_some(),
            turns: TurnsReport {
                waits: get(&self.counts.turn_waits),
                wait_ns_sum: get(&self.counts.turn_wait_ns_sum),
                wait_ns_max: get(&self.counts.turn_wait_ns_max),
                bounced: get(&self.counts.bounced),
                mispredicted: get(&self.counts.mispredicted),
            },
            wal_extensions: self.extent.extensions(),
            checkpoints: self.checkpointer.counts(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if *lock(&self.left) {
            unsure::leave(&self.path);
        }
        self.checkpointer.stop();
        self.door.stop();
    }
}

/// `plain` in `PRAGMA oneflush_stats`, for all connections of this process to the database.
#[derive(Serialize)]
pub struct PlainReport {
    /// Commits that asked for durability.
    commits: u64,
    /// Flushes of the WAL, those before checkpoints included.
    flushes: u64,
    commits_per_flush: f64,
    flush_failed: bool,
    turns: TurnsReport,
    /// How often the WAL was extended by a chunk of zeros.
    wal_extensions: u64,
    checkpoints: CheckpointCounts,
}

/// `eager` there.
#[derive(Serialize)]
pub struct EagerReport {
    #[serde(flatten)]
    common: PlainReport,
    log: eager::EagerReport,
}

#[derive(Serialize)]
struct TurnsReport {
    /// How often a connection waited for its turn, and how long.
    waits: u64,
    wait_ns_sum: u64,
    wait_ns_max: u64,
    /// Writers that found the write lock taken and had not queued for it.
    bounced: u64,
    /// Turns taken for a transaction that did not write.
    mispredicted: u64,
}

#[cfg(all(test, not(feature = "shuttle")))]
pub(super) mod tests {
    use super::*;
    use crate::connection::tests::NoLogs;
    use crate::strategy::test_wal::Wal;

    pub struct NoCheckpoints;

    impl RunCheckpoint for NoCheckpoints {
        fn run(&self, _: &str, _: &Options) -> Result<Progress, String> {
            Err("there are none".to_owned())
        }

        fn write_out(&self, _: &str, _: u64, _: u64) {}

        fn warn(&self, _: &str) {}
    }

    #[test]
    fn what_others_can_see_of_a_failed_flush_is_written_again_and_the_rest_stays_for_the_close() {
        let shared = Shared::new("/nonexistent/shared.db", Arc::new(NoCheckpoints), Arc::new(NoLogs), None);
        let wal = Wal::default();
        wal.extend([7; 2000]);
        shared.write_published_again(&wal, 1000);
        assert_eq!(wal.written(), (0, 0), "nothing has failed");
        shared.note_failure();
        shared.write_published_again(&wal, 1000);
        assert_eq!(wal.written(), (1000, 1000));
        shared.mend(&wal, 2000).unwrap();
        assert_eq!(wal.written(), (2000, 2000));
        assert!(!*lock(&shared.left));
    }
}
