//! Calls of one connection, with the store of `plain`: the checkpointer's passes, and the read
//! lock. The database file's syncs fail when told to.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::locking::READ_PATIENCE;
use super::{Gate, Progress, RunCheckpoint, Shared, sleep};
use crate::config::Options;
use crate::error::{Code, Error};
use crate::port::{
    Below, BusyHandler, DeviceCharacteristics, LockLevel, Purpose, ShmLock, SyncRequest, WalIndex,
};
use crate::role::Role;
use crate::strategy::{Door, Plain, PlainStore, Strategy};
use crate::super_journal;
use crate::sync::{Mutex, lock, ranks};
use crate::test_stubs::{NoCheckpoints, NoLogs};
use crate::test_wal::Wal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Synced,
    Forgot,
    Released,
}

#[derive(Clone, Default)]
struct Database {
    fails: Arc<AtomicBool>,
    /// True: another process has the write lock.
    is_taken: Arc<AtomicBool>,
    calls: Arc<Mutex<Vec<Call>, { ranks::STUB }>>,
}

impl Database {
    fn note(&self, call: Call) {
        lock(&self.calls).push(call);
    }

    fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut *lock(&self.calls))
    }
}

impl Below for Database {
    fn read(&self, _: &mut [u8], _: u64) -> Result<(), Code> {
        unreachable!()
    }

    fn write(&self, _: &[u8], _: u64) -> Result<(), Code> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> Result<(), Code> {
        Ok(())
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        if self.fails.load(Relaxed) {
            return Err(Code::IOERR_FSYNC);
        }
        self.note(Call::Synced);
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        unreachable!()
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn sector_size(&self) -> i32 {
        unreachable!()
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        unreachable!()
    }
}

impl WalIndex for Database {
    fn shm_lock(&self, lock: ShmLock) -> Result<(), Code> {
        if !lock.acquire {
            self.note(Call::Released);
        }
        if lock.acquire && lock.covers(ShmLock::WRITE) && self.is_taken.load(Relaxed) {
            Err(Code::BUSY)
        } else {
            Ok(())
        }
    }

    fn published_frames(&self) -> Option<u32> {
        None
    }

    fn forget_backfill(&self) {
        self.note(Call::Forgot);
    }

    fn believe_backfill(&self, _: u32) {
        unreachable!()
    }
}

/// Copies one page as SQLite does. SQLite ignores the answer of the last call.
fn copy_a_page(connection: &Plain, database: &Database) {
    connection.shm_lock(database, ShmLock::of_checkpoint(true)).unwrap();
    connection.checkpoint_announced(true).unwrap();
    connection.write(database, Role::Db, &[1; 512], 512).unwrap();
    let _ = connection.checkpoint_announced(false);
}

fn connection(purpose: Purpose) -> (Arc<Plain>, Database) {
    connection_to("/nonexistent/passes.db", purpose)
}

fn connection_to(path: &str, purpose: Purpose) -> (Arc<Plain>, Database) {
    connection_with(path, purpose, Arc::new(NoCheckpoints))
}

fn shared(path: &str, run: Arc<dyn RunCheckpoint>) -> Arc<Shared<PlainStore>> {
    Arc::new(Shared::new(path, run, PlainStore::new(path, Arc::new(NoLogs))))
}

fn connection_with(
    path: &str,
    purpose: Purpose,
    run: Arc<dyn RunCheckpoint>,
) -> (Arc<Plain>, Database) {
    let (connection, database) =
        (Plain::new(1, &Options::default(), shared(path, run), purpose), Database::default());
    connection.opened(Arc::new(database.clone())).unwrap();
    connection.opened_wal(Box::new(Wal::default())).unwrap();
    (connection, database)
}

#[test]
fn a_pass_syncs_what_it_has_copied_before_sqlite_takes_it_for_done() {
    let (checkpointer, database) = connection(Purpose::Checkpoints);
    copy_a_page(&checkpointer, &database);
    checkpointer.shm_lock(&database, ShmLock::of_checkpoint(false)).unwrap();
    assert_eq!(database.take_calls(), [Call::Synced, Call::Released]);

    // A checkpoint of the application is SQLite's own affair.
    let (application, database) = connection(Purpose::ReadWrite);
    copy_a_page(&application, &database);
    application.shm_lock(&database, ShmLock::of_checkpoint(false)).unwrap();
    assert_eq!(database.take_calls(), [Call::Released]);
}

/// Notes what is written out.
#[derive(Default)]
struct WrittenOut(Mutex<Vec<(u64, u64)>, { ranks::STUB }>);

impl RunCheckpoint for WrittenOut {
    fn run(&self, _: &str, _: &Options) -> Result<Progress, String> {
        unreachable!()
    }

    fn write_out(&self, _: &str, offset: u64, length: u64) {
        lock(&self.0).push((offset, length));
    }

    fn warn(&self, _: &str) {
        unreachable!()
    }
}

#[test]
fn what_a_pass_copies_is_written_out_on_the_way_unless_somebody_waits_for_the_pass() {
    const MB: u64 = 1 << 20;
    let copied = |purpose, keeps_writers_out: bool| {
        let run = Arc::new(WrittenOut::default());
        let (connection, database) =
            connection_with("/nonexistent/pieces.db", purpose, run.clone());
        if keeps_writers_out {
            connection.shm_lock(&database, ShmLock::of_writer(true)).unwrap();
        }
        for offset in (0..4 * MB).step_by(4096) {
            connection.write(&database, Role::Db, &[1; 4096], offset).unwrap();
        }
        std::mem::take(&mut *lock(&run.0))
    };
    let pieces = copied(Purpose::Checkpoints, false);
    assert!(
        pieces
            .iter()
            .try_fold(0, |end, &(offset, length)| (offset == end).then_some(end + length))
            .is_some()
    );
    assert!(
        pieces.len() >= 4 && pieces.iter().map(|piece| piece.1).sum::<u64>() > 3 * MB,
        "{pieces:?}"
    );
    assert_eq!(copied(Purpose::Checkpoints, true), []);
    assert_eq!(copied(Purpose::ReadWrite, false), []);
}

/// Readers hold the checkpoint up whenever it is tried.
#[derive(Default)]
struct HeldUp {
    begun: AtomicU32,
    ended: AtomicU32,
}

impl RunCheckpoint for HeldUp {
    fn run(&self, _: &str, _: &Options) -> Result<Progress, String> {
        self.begun.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(50));
        self.ended.fetch_add(1, Relaxed);
        Ok(Progress { held_up: true, wal_frames: 2, copied_frames: 1 })
    }

    fn write_out(&self, _: &str, _: u64, _: u64) {
        unreachable!()
    }

    fn warn(&self, _: &str) {
        unreachable!()
    }
}

/// The checkpointer's connection would be what still has the database open, with this strategy.
#[test]
fn the_last_close_waits_for_the_checkpoint_that_runs_and_none_begins_after_it() {
    let run = Arc::new(HeldUp::default());
    let (last, _) =
        connection_with("/nonexistent/close.db", Purpose::ReadWrite, Arc::clone(&run) as _);
    let first = Plain::new(2, &Options::default(), Arc::clone(&last.shared), Purpose::ReadWrite);
    assert!(last.request_checkpoint());
    while run.begun.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
    first.closing();
    assert!(last.shared.checkpointer.is_at_it(), "somebody uses the database");
    last.closing();
    let (begun, ended) = (run.begun.load(Relaxed), run.ended.load(Relaxed));
    assert_eq!(begun, ended);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(run.begun.load(Relaxed), begun);
}

#[test]
fn the_checkpointer_in_the_queue_is_no_company() {
    let (writer, _) = connection(Purpose::ReadWrite);
    let shared = &writer.shared;
    assert!(shared.turns.take(1));
    assert!(!shared.turns.wait(9, Duration::ZERO));
    assert!(writer.shares_flush(), "another writer is");
    shared.checkpointer_id.store(9, Relaxed);
    assert!(!writer.shares_flush());
}

/// Another process may wait for the write lock. This process gives it back for a moment only, so it
/// is never told "busy".
#[test]
fn a_writer_of_another_process_is_seen_at_the_door_and_by_its_frames() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db").display().to_string();
    let wal_path = format!("{path}-wal");
    std::fs::write(&wal_path, b"").unwrap();
    let (writer, _) = connection_to(&path, Purpose::ReadWrite);
    assert!((0..20).all(|_| !writer.shares_flush()));
    let other = Door::new(&wal_path);
    assert!(other.enter());
    other.begin_writing();
    assert!((0..20).any(|_| writer.shares_flush()));
    other.leave();
    assert!((0..100).any(|_| !writer.shares_flush()), "it is forgotten");

    let wal = Wal::default();
    let write_frame = |offset: u64| {
        writer.write(&wal, Role::Wal, &[7; 24], offset).unwrap();
        writer.write(&wal, Role::Wal, &[7; 512], offset + 24).unwrap();
    };
    write_frame(32);
    write_frame(32 + 536);
    assert!(!writer.shares_flush());
    // One frame between.
    write_frame(32 + 3 * 536);
    assert!(writer.shares_flush());
}

#[test]
fn a_sync_is_not_put_off_where_a_super_journal_commits() {
    let is_put_off = || {
        let (writer, database) = connection(Purpose::ReadWrite);
        writer.shared.outsiders.store(5, Relaxed);
        writer.shm_lock(&database, ShmLock::of_writer(true)).unwrap();
        let wal = Wal::default();
        writer.write(&wal, Role::Wal, &[7; 32], 0).unwrap();
        writer.write(&wal, Role::Wal, &[7; 24], 32).unwrap();
        writer.sync(&wal, Role::Wal, SyncRequest::ALL).unwrap();
        lock(&writer.put_off).is_some()
    };
    assert!(is_put_off());
    super_journal::opened();
    assert!(!is_put_off());
    super_journal::closing();
    assert!(is_put_off());
}

/// An opener of that WAL need not sync its directory.
#[test]
fn a_wal_is_known_once_it_was_synced_and_until_another_of_its_name_is_opened() {
    let shared = shared("/nonexistent/known.db", Arc::new(NoCheckpoints));
    // An extension ahead would sync the WAL.
    let options = Options { prealloc_bytes: 0, ..Options::default() };
    let connection = |id| Plain::new(id, &options, shared.clone(), Purpose::ReadWrite);
    let (writer, other) = (connection(1), connection(2));
    writer.opened_wal(Box::new(Wal::default())).unwrap();
    let wal = Wal::default();
    writer.write(&wal, Role::Wal, &[7; 32], 0).unwrap();
    writer.write(&wal, Role::Wal, &[7; 24], 32).unwrap();
    assert!(!other.knows_wal(&wal), "with synchronous=NORMAL nobody has synced it");
    writer.sync(&wal, Role::Wal, SyncRequest::ALL).unwrap();
    assert!(other.knows_wal(&wal));
    let another = Wal::default();
    another.extend([8; 56]);
    assert!(!other.knows_wal(&another));
    other.opened_wal(Box::new(another)).unwrap();
    assert!(!writer.knows_wal(&wal), "which of the two has the name is not known");
}

#[test]
fn a_pass_whose_sync_failed_is_not_believed_by_anybody() {
    let (checkpointer, database) = connection(Purpose::Checkpoints);
    database.fails.store(true, Relaxed);
    copy_a_page(&checkpointer, &database);
    database.take_calls();
    // SQLite notes the frames as copied here. Nobody else can look before the lock is released.
    database.fails.store(false, Relaxed);
    assert!(
        checkpointer.sync(&database, Role::Db, SyncRequest::ALL).is_err(),
        "a second sync would succeed"
    );
    checkpointer.shm_lock(&database, ShmLock::of_checkpoint(false)).unwrap();
    assert_eq!(database.take_calls(), [Call::Forgot, Call::Released]);
    // That happens once, and nothing is copied any more.
    checkpointer.shm_lock(&database, ShmLock::of_checkpoint(true)).unwrap();
    assert!(checkpointer.write(&database, Role::Db, &[1; 512], 512).is_err());
    checkpointer.shm_lock(&database, ShmLock::of_checkpoint(false)).unwrap();
    assert_eq!(database.take_calls(), [Call::Released]);
}

fn read_lock(acquire: bool) -> ShmLock {
    ShmLock::of_reader(ShmLock::READ, acquire)
}

/// A handler that counts how often it was asked.
#[derive(Default)]
struct Patient(AtomicU32);

impl BusyHandler for Patient {
    fn wait(&self) -> bool {
        std::thread::sleep(Duration::from_micros(100));
        self.0.fetch_add(1, Relaxed) < Patient::MAX
    }
}

impl Patient {
    const MAX: u32 = 50_000;

    /// The handler was asked for 5 s or more.
    fn is_exhausted(&self) -> bool {
        self.0.load(Relaxed) > Patient::MAX
    }
}

/// SQLite would give up with `SQLITE_PROTOCOL` if it were told "busy" again and again.
#[test]
fn who_lost_its_turn_before_it_read_the_index_again_is_not_told_busy_twice() {
    let (connection, database) = connection(Purpose::ReadWrite);
    let handler = Arc::new(Patient::default());
    connection.busy_handler(handler.clone());
    connection.waiter.prediction.store(2, Relaxed);
    let read = read_lock(true);
    let turns = &connection.shared.turns;
    let others = [71, 72];
    assert!(turns.take(others[0]));
    turns.begin_writing(others[0]);
    std::thread::scope(|scope| {
        let told = scope.spawn(|| connection.take_read_lock(&database, read));
        while !turns.wanted_beside(0) {
            std::thread::yield_now();
        }
        turns.leave(others[0]);
        assert!(matches!(told.join().unwrap(), Err(Code::BUSY)));
    });
    // The connection does not come back in time.
    assert!(turns.holds(connection.id));
    turns.leave(connection.id);
    assert!(turns.take(others[1]));
    turns.begin_writing(others[1]);
    let asked = handler.0.load(Relaxed);
    assert!(connection.take_read_lock(&database, read).is_ok());
    assert_eq!(handler.0.load(Relaxed), asked);
}

/// A connection that is expected to write, with another process at the door.
fn behind_another_process() -> (tempfile::TempDir, File, Arc<Plain>, Database, Arc<Patient>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("door.db");
    let wal = File::create(folder.path().join("door.db-wal")).unwrap();
    flock(&wal, FlockOperation::LockExclusive).unwrap();
    let (connection, database) = connection_to(path.to_str().unwrap(), Purpose::ReadWrite);
    let handler = Arc::new(Patient::default());
    connection.busy_handler(handler.clone());
    connection.waiter.prediction.store(2, Relaxed);
    connection.waiter.has_slept.store(true, Relaxed);
    connection.shared.outsiders.store(5, Relaxed);
    (folder, wal, connection, database, handler)
}

/// False if the machine was too busy for it: after [`READ_PATIENCE`] the connection reads all the
/// same.
fn waits_for_the_other_process() -> bool {
    let (_folder, wal, connection, database, _) = behind_another_process();
    let (waits, told) = std::thread::scope(|scope| {
        let told = scope.spawn(|| connection.take_read_lock(&database, read_lock(true)));
        while !connection.waiter.waits_at_gate.load(Relaxed) && !told.is_finished() {
            std::thread::yield_now();
        }
        let waits = !told.is_finished();
        flock(&wal, FlockOperation::Unlock).unwrap();
        (waits, told.join().unwrap())
    });
    let waited = waits && told == Err(Code::BUSY);
    if waited {
        assert!(connection.take_read_lock(&database, read_lock(true)).is_ok());
        assert!(connection.shared.turns.holds(connection.id));
    }
    waited
}

#[test]
fn who_will_write_waits_for_the_other_processes_before_it_reads() {
    oneflush_testing::wait_until("it waits", waits_for_the_other_process);
}

/// The connection may only want to read, and in WAL mode nobody keeps it from that.
#[test]
fn it_does_not_wait_for_ever() {
    let (_folder, _wal, connection, database, handler) = behind_another_process();
    let began = Instant::now();
    assert!(connection.take_read_lock(&database, read_lock(true)).is_ok());
    assert!(began.elapsed() >= READ_PATIENCE && !handler.is_exhausted());
    connection.waiter.reads_since_ns.store(1, Relaxed);
    connection.release_read_lock(&database, read_lock(false)).unwrap();
    assert!(!connection.shared.turns.holds(connection.id), "it has read: the turn is another's");
    let asked = handler.0.load(Relaxed);
    assert!(connection.take_read_lock(&database, read_lock(true)).is_ok());
    assert_eq!(handler.0.load(Relaxed), asked, "and does not wait again");
}

#[test]
fn who_reads_for_a_while_before_it_writes_lets_others_go_on_meanwhile() {
    let (_folder, _wal, connection, database, handler) = behind_another_process();
    // Since the system was started.
    connection.waiter.reads_since_ns.store(1, Relaxed);
    assert!(
        connection.take_write_lock(&database, ShmLock::of_writer(true)).is_err(),
        "the gate is not open"
    );
    assert!(connection.take_read_lock(&database, read_lock(true)).is_ok());
    assert_eq!(handler.0.load(Relaxed), 0);
}

#[test]
fn a_read_lock_that_is_released_at_once_was_for_nothing_and_is_taken_again() {
    let (connection, database) = connection(Purpose::ReadWrite);
    connection.waiter.prediction.store(2, Relaxed);
    let read_for = |since_ns| {
        connection.take_read_lock(&database, read_lock(true)).unwrap();
        connection.waiter.reads_since_ns.store(since_ns, Relaxed);
        connection.release_read_lock(&database, read_lock(false)).unwrap();
        connection.waiter.prediction.load(Relaxed)
    };
    // The first read begins in the future, the second when the system was started.
    assert_eq!(read_for(u64::MAX), 2);
    assert_eq!(read_for(1), 0);
    assert_eq!(connection.shared.counts.mispredicted.load(Relaxed), 1);
}

/// The connection asks for the write lock because it met the WAL index while a writer changes it.
/// It tries again at once.
#[test]
fn a_reader_that_asks_for_the_write_lock_does_not_queue_and_does_not_wait_for_a_turn_afterwards() {
    let (connection, database) = connection(Purpose::ReadWrite);
    let write = ShmLock::of_writer(true);
    let turns = &connection.shared.turns;
    let writer = 71;
    assert!(turns.take(writer));
    turns.begin_writing(writer);
    database.is_taken.store(true, Relaxed);
    for before in [0, -1] {
        connection.waiter.prediction.store(before, Relaxed);
        assert!(connection.take_write_lock(&database, write).is_err());
        assert!(
            !turns.wanted_beside(writer) && connection.waiter.prediction.load(Relaxed) == before
        );
        assert!(connection.take_read_lock(&database, read_lock(true)).is_ok(), "without its turn");
        connection.release_read_lock(&database, read_lock(false)).unwrap();
    }
    assert_eq!(connection.shared.counts.bounced.load(Relaxed), 0);
    // Between two writers it may get the lock.
    database.is_taken.store(false, Relaxed);
    connection.shm_lock(&database, write).unwrap();
    connection.shm_lock(&database, ShmLock::of_writer(false)).unwrap();
    assert!(turns.holds(writer) && connection.waiter.prediction.load(Relaxed) == -1);
    // Under a read lock the connection is going to write.
    database.is_taken.store(true, Relaxed);
    connection.take_read_lock(&database, read_lock(true)).unwrap();
    assert!(connection.take_write_lock(&database, write).is_err());
    assert!(turns.wanted_beside(writer));
}

#[test]
fn a_writer_that_changes_its_read_lock_to_begin_the_wal_anew_has_written_once() {
    let (connection, database) = connection(Purpose::ReadWrite);
    let wal = Wal::default();
    let predictions = [1, 2].map(|_| {
        connection.take_read_lock(&database, read_lock(true)).unwrap();
        connection.shm_lock(&database, ShmLock::of_writer(true)).unwrap();
        connection.release_read_lock(&database, read_lock(false)).unwrap();
        connection.take_read_lock(&database, read_lock(true)).unwrap();
        connection.write(&wal, Role::Wal, &[7; 32], 0).unwrap();
        connection.shm_lock(&database, ShmLock::of_writer(false)).unwrap();
        connection.release_read_lock(&database, read_lock(false)).unwrap();
        connection.waiter.prediction.load(Relaxed)
    });
    assert_eq!(predictions, [1, 2]);
    assert_eq!(connection.shared.counts.mispredicted.load(Relaxed), 0);
}

/// Some builds of SQLite (`SQLITE_ENABLE_SETLK_TIMEOUT`) take the write lock of `BEGIN IMMEDIATE`
/// before the read lock.
#[test]
fn who_writes_without_having_asked_under_a_read_lock_is_known_for_a_writer_all_the_same() {
    let (connection, database) = connection(Purpose::ReadWrite);
    let wal = Wal::default();
    let transaction = || {
        connection.shm_lock(&database, ShmLock::of_writer(true)).unwrap();
        connection.take_read_lock(&database, read_lock(true)).unwrap();
        connection.write(&wal, Role::Wal, &[7; 32], 0).unwrap();
        let had_turn = connection.shared.turns.holds(connection.id);
        connection.shm_lock(&database, ShmLock::of_writer(false)).unwrap();
        connection.release_read_lock(&database, read_lock(false)).unwrap();
        had_turn
    };
    assert_eq!([(); 3].map(|()| transaction()), [false, true, true]);
}

/// SQLite need not sleep after "busy": the time may be up, or the application has a handler of its
/// own.
#[test]
fn a_sleep_that_comes_late_does_not_touch_the_write_lock_of_a_connection_that_has_it() {
    let (connection, database) = connection(Purpose::ReadWrite);
    connection.take_read_lock(&database, read_lock(true)).unwrap();
    database.is_taken.store(true, Relaxed);
    let bounced = || {
        assert!(matches!(
            connection.shm_lock(&database, ShmLock::of_writer(true)),
            Err(Error::Below(Code::BUSY))
        ))
    };
    bounced();
    assert!(sleep(1000), "it waits for the lock");
    assert!(database.take_calls().is_empty());
    bounced();
    database.is_taken.store(false, Relaxed);
    connection.shm_lock(&database, ShmLock::of_writer(true)).unwrap();
    assert!(!sleep(1000), "an ordinary sleep");
    assert!(database.take_calls().is_empty());

    // The same holds after it was closed.
    connection.shm_lock(&database, ShmLock::of_writer(false)).unwrap();
    database.is_taken.store(true, Relaxed);
    bounced();
    connection.unmapping_index();
    database.is_taken.store(false, Relaxed);
    database.take_calls();
    assert!(!sleep(1000));
    assert!(database.take_calls().is_empty());
}
