//! The background checkpointer: one thread for each database that this process writes.
//!
//! SQLite runs its automatic checkpoint inside the commit that made the WAL long. Here that attempt
//! is told "busy", and this thread does the work. The thread uses a connection of its own that
//! lives only as long as one checkpoint. The last close of the application waits for that
//! checkpoint, and none begins behind it. So the last close finds itself alone.
//! `wal_autocheckpoint` keeps its meaning: where SQLite does not ask for a checkpoint, none is run.
//!
//! A checkpoint has several passes:
//!
//! | pass | mode | what it copies | write lock |
//! |---|---|---|---|
//! | all but the last | PASSIVE | what came during the pass before, in pieces ([`pacing`]) | free |
//! | the last | RESTART | the few pages left; then the WAL starts anew | held |
//!
//! Each pass but the last syncs what it has copied. SQLite alone syncs only a complete checkpoint,
//! and while writers go on no checkpoint is complete. Without the last pass a busy WAL would grow
//! for ever.
//!
//! SQLite 3.7.0 to 3.51.2, other than 3.44.6 and 3.50.7, has the "WAL-reset bug". It can lose
//! frames if a writer begins the WAL anew while a checkpoint runs without the write lock. With
//! these versions only the last pass is run. It holds the write lock, against writers of all
//! processes, from before the header is read until the result is published.
//!
//! A strategy whose checkpoints are due later than SQLite takes them to be can ask for one when
//! nobody commits ([`IDLE_AFTER`]).
//!
//! A reader with an old snapshot holds a checkpoint up, as in SQLite. The checkpoint is tried again
//! after a pause that doubles up to [`PAUSE_MAX`]. After [`STARVING_AFTER`] the starvation is
//! counted, and a line goes to SQLite's error log.
//!
//! [`pacing`]: super::pacing

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::pacing::{Pacing, REST_MAX};
use crate::config::Options;
use crate::kill_point::KillPoint;
use crate::sync::{Condvar, Mutex, MutexGuard, lock, wait, wait_timeout};
use crate::threads;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How often [`Checkpointer::call_off`] looks whether the thread has ended. It must not wait for
/// anything that the thread holds.
const CALL_OFF_POLL: Duration = Duration::from_micros(20);

/// How long a connection without a busy handler waits for a checkpoint to release the write lock.
/// On a device for which this is too short the answer is `SQLITE_BUSY`.
pub const WRITE_LOCK_MAX: Duration = Duration::from_secs(2);

/// A database without a commit for this long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);

/// How long a checkpoint may be held up before a warning.
pub const STARVING_AFTER: Duration = Duration::from_secs(10);

/// What one checkpoint reached, in frames of the WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Something kept the checkpoint from copying, or the WAL from starting anew: mostly a reader.
    pub held_up: bool,
    pub wal_frames: u64,
    pub copied_frames: u64,
}

/// Runs a checkpoint with a connection of its own.
pub trait RunCheckpoint: Send + Sync {
    /// Runs one checkpoint. The error says what failed.
    fn run(&self, path: &str, options: &Options) -> Result<Progress, String>;
    /// Has a part of the database file written to the device and waits until it is.
    ///
    /// The thread of [`run`](RunCheckpoint::run) calls this while it copies. The call is advice: an
    /// implementation that cannot do it does nothing.
    fn write_out(&self, path: &str, offset: u64, length: u64);
    /// Adds a line to SQLite's error log.
    fn warn(&self, message: &str);
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CheckpointCounts {
    pub count: u64,
    pub failed: u64,
    pub held_up: u64,
    pub time_ns_sum: u64,
    pub time_ns_max: u64,
    /// How often readers held a checkpoint up for longer than 10 s.
    pub starved: u64,
    /// How long readers have been holding up the checkpoint that is due now.
    pub held_up_ns: u64,
}

pub struct Checkpointer {
    path: String,
    /// The process that the thread lives in. A forked child has no such thread.
    process: u32,
    run: Arc<dyn RunCheckpoint>,
    state: Mutex<State>,
    changed: Condvar,
    /// A copy of [`State::called_off`] for the checkpoint that runs.
    called_off: AtomicBool,
    /// Locked only by the checkpoint that runs, and only while no other mutex is held.
    pacing: Mutex<Pacing>,
}

/// No checkpoint begins while this value lives.
pub struct HeldOff<'a>(&'a Checkpointer);

impl HeldOff<'_> {
    /// Keeps checkpoints held off until [`Checkpointer::held_off`] is dropped.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for HeldOff<'_> {
    fn drop(&mut self) {
        self.0.go_on();
    }
}

#[derive(Default)]
struct State {
    thread: Thread,
    wanted: Option<Options>,
    /// What `wanted` becomes when the database is idle.
    wanted_when_idle: Option<Options>,
    /// How many commits have asked for `wanted_when_idle`.
    commits: u64,
    running: bool,
    /// How many threads wait for the end of the checkpoint that runs.
    awaited: u32,
    /// The checkpoint's connection holds the write lock or is just taking it.
    writing: bool,
    /// How often a checkpoint took or tried to take the write lock.
    writings: u64,
    held_off: u32,
    stopping: bool,
    /// Set for a fork, or for the end of the process. The thread gives its checkpoint up and ends,
    /// and no other begins.
    called_off: bool,
    handle: Option<JoinHandle<()>>,
    held_up_since: Option<Instant>,
    starvation_said: bool,
    /// The checkpoint that is held up has found a reader's lock held.
    reader_seen: bool,
    counts: CheckpointCounts,
}

impl State {
    fn ends_thread(&self) -> bool {
        self.stopping || self.called_off
    }
}

#[derive(Default, PartialEq)]
enum Thread {
    #[default]
    None,
    Alive,
    /// The thread could not be started, or its checkpoints fail. SQLite runs them itself.
    Refused,
}

impl Checkpointer {
    pub fn new(path: &str, run: Arc<dyn RunCheckpoint>) -> Arc<Checkpointer> {
        let (process, state, pacing) = (std::process::id(), Mutex::default(), Mutex::default());
        let called_off = AtomicBool::new(false);
        Arc::new(Checkpointer {
            path: path.to_owned(),
            process,
            run,
            state,
            changed: Condvar::new(),
            called_off,
            pacing,
        })
    }

    /// Notes that a checkpoint is due. False: there is no thread to run it, so SQLite has to.
    pub fn request(self: &Arc<Self>, options: &Options) -> bool {
        let mut state = self.state();
        if !self.has_thread(&mut state) {
            return false;
        }
        if state.wanted.is_none() {
            state.wanted = Some(options.clone());
            self.changed.notify_all();
        }
        true
    }

    /// Called after a commit: a checkpoint is wanted once the database is idle.
    pub fn request_when_idle(self: &Arc<Self>, options: &Options) {
        let mut state = self.state();
        state.commits += 1;
        if state.wanted_when_idle.is_none() && self.has_thread(&mut state) {
            state.wanted_when_idle = Some(options.clone());
            self.changed.notify_all();
        }
    }

    fn has_thread(self: &Arc<Self>, state: &mut State) -> bool {
        if state.thread == Thread::None && !state.called_off {
            let (me, ended) = (Arc::clone(self), Arc::clone(self));
            let panicked = move || ended.has_panicked();
            state.handle = threads::spawn("oneflush-ckpt", panicked, move || me.work()).ok();
            state.thread = if state.handle.is_some() { Thread::Alive } else { Thread::Refused };
        }
        state.thread == Thread::Alive || state.called_off
    }

    /// The thread has ended by a panic. SQLite runs the checkpoints itself now.
    fn has_panicked(&self) {
        let mut state = self.state();
        state.thread = Thread::Refused;
        (state.running, state.writing) = (false, false);
        self.changed.notify_all();
    }

    /// True if the thread runs a checkpoint or has one to run.
    pub fn is_at_it(&self) -> bool {
        let state = self.state();
        state.thread == Thread::Alive && state.wanted.is_some()
    }

    /// The checkpoint that runs asked for a reader's lock, and somebody holds it.
    pub fn saw_reader(&self) {
        self.state().reader_seen = true;
    }

    /// Runs a checkpoint in the caller's thread, now; for `PRAGMA oneflush_checkpoint`.
    pub fn run_now(&self, options: &Options) -> Result<Progress, String> {
        self.until_none_runs(self.state()).running = true;
        lock(&self.pacing).begin(Duration::ZERO);
        let began = Instant::now();
        let result = self.run_to_its_end(options);
        self.ended(began, &result, false);
        result
    }

    /// Runs a checkpoint. A panic in it is a failed checkpoint.
    fn run_to_its_end(&self, options: &Options) -> Result<Progress, String> {
        let run = || {
            KillPoint::CheckpointBegun.reached();
            self.run.run(&self.path, options)
        };
        catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| Err("internal error: a panic".to_owned()))
    }

    /// Keeps checkpoints from beginning and waits for the one that runs.
    ///
    /// The running checkpoint's connection would be in the way of an exclusive lock.
    pub fn hold_off(&self) -> HeldOff<'_> {
        let mut state = self.state();
        state.held_off += 1;
        let held_off = HeldOff(self);
        drop(self.until_none_runs(state));
        held_off
    }

    fn go_on(&self) {
        let mut state = self.state();
        state.held_off = state.held_off.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
    }

    /// Takes over what [`HeldOff::keep`] has kept.
    pub fn held_off(&self) -> HeldOff<'_> {
        HeldOff(self)
    }

    /// Ends the thread, and its checkpoint at the next page. None is started until
    /// [`Checkpointer::resume`].
    ///
    /// The memory of the process is about to be copied. The thread must not be inside SQLite then,
    /// nor have a lock of the WAL index. False: the thread has not ended by `until`.
    pub fn call_off(&self, until: Instant) -> bool {
        let mut state = self.state();
        state.called_off = true;
        self.called_off.store(true, Relaxed);
        self.changed.notify_all();
        let Some(handle) = state.handle.take() else { return true };
        drop(state);
        // The end of its work is not enough: the thread itself must be gone.
        while !handle.is_finished() && Instant::now() < until {
            std::thread::sleep(CALL_OFF_POLL);
        }
        let has_ended = handle.is_finished();
        if has_ended {
            let _ = handle.join();
        } else {
            self.state().handle = Some(handle);
        }
        has_ended
    }

    /// The thread stays away, but a checkpoint that another thread runs is not given up.
    pub fn run_by_hand(&self) {
        self.called_off.store(false, Relaxed);
    }

    /// Ends [`Checkpointer::call_off`]. A checkpoint that is still wanted is run after all.
    pub fn resume(self: &Arc<Self>) {
        let mut state = self.state();
        state.called_off = false;
        self.called_off.store(false, Relaxed);
        if state.wanted.is_some() || state.wanted_when_idle.is_some() {
            self.has_thread(&mut state);
        }
        self.changed.notify_all();
    }

    /// True if the checkpoint that runs is to be given up.
    pub fn is_called_off(&self) -> bool {
        self.called_off.load(Relaxed)
    }

    /// Notes that the checkpoint that runs is about to take the write lock, or has released it.
    pub fn writes(&self, writing: bool) {
        let mut state = self.state();
        state.writing = writing;
        state.writings += u64::from(writing);
        self.changed.notify_all();
    }

    /// Withdraws every request for a checkpoint.
    pub fn forget(&self) {
        let mut state = self.state();
        (state.wanted, state.wanted_when_idle) = (None, None);
    }

    /// Withdraws every request and waits for the checkpoint that runs.
    ///
    /// Nobody else in this process uses the database. The checkpoint's connection must not be what
    /// still has it open.
    pub fn end(&self) {
        self.forget();
        drop(self.until_none_runs(self.state()));
    }

    /// Waits until no checkpoint runs. In a child of `fork` none runs, whatever the copied state
    /// says: the thread that would end it is missing.
    fn until_none_runs<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.awaited += 1;
        self.changed.notify_all();
        while state.running && std::process::id() == self.process {
            state = wait(&self.changed, state);
        }
        state.awaited -= 1;
        state
    }

    /// How often a checkpoint has tried the write lock. [`Checkpointer::gave_way`] wants the value
    /// from before the caller's own attempt.
    pub fn writings(&self) -> u64 {
        self.state().writings
    }

    /// Waits while a checkpoint holds the write lock, after the caller found that lock taken.
    ///
    /// True: a checkpoint held the lock and has released it, so another attempt is worth it.
    /// `writings` is from before the caller's attempt. Where SQLite runs its checkpoint itself, a
    /// single writer never meets a taken lock. It must not meet the checkpointer's lock either,
    /// with or without a busy handler.
    pub fn gave_way(&self, writings: u64) -> bool {
        let deadline = Instant::now() + WRITE_LOCK_MAX;
        let mut state = self.state();
        let held = state.writing || state.writings != writings;
        while state.writing && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            state = wait_timeout(&self.changed, state, left);
        }
        held && !state.writing
    }

    /// Notes that the checkpoint that runs has copied a page. Rests as [`Pacing`] says, unless
    /// somebody waits for the checkpoint.
    pub fn copied(&self, offset: u64, length: u64) {
        let write_out = |offset, length| self.run.write_out(&self.path, offset, length);
        let rest = lock(&self.pacing).copied(offset, length, write_out);
        if !rest.is_zero() {
            self.pause(rest, |state| state.awaited > 0);
        }
    }

    /// Notes that the checkpoint is about to sync what it has copied.
    pub fn begin_pass(&self) {
        lock(&self.pacing).begin_pass();
    }

    /// Ends the thread: the database is not used any more.
    pub fn stop(&self) {
        self.state().stopping = true;
        self.changed.notify_all();
    }

    pub fn counts(&self) -> CheckpointCounts {
        let state = self.state();
        let held_up_ns = state.held_up_since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        CheckpointCounts { held_up_ns, ..state.counts }
    }

    fn work(&self) {
        let mut pause = PAUSE_MIN;
        loop {
            let mut state = self.state();
            while !state.ends_thread()
                && (state.wanted.is_none() || state.held_off > 0 || state.running)
            {
                state = self.wait_for_work(state);
            }
            if state.ends_thread() {
                state.thread = Thread::None;
                return;
            }
            let Some(options) = state.wanted.clone() else { continue };
            state.running = true;
            drop(state);
            lock(&self.pacing).begin(REST_MAX);
            let began = Instant::now();
            let result = self.run_to_its_end(&options);
            let held_up = self.ended(began, &result, true);
            match result {
                Ok(_) if held_up => {}
                Ok(_) => {
                    pause = PAUSE_MIN;
                    continue;
                }
                Err(message) => {
                    self.run.warn(&format!(
                        "oneflush: checkpoint of {}: {message}; SQLite does them itself now \
                            [OF-204]",
                        self.path
                    ));
                    return;
                }
            }
            self.pause(pause, |_| false);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Waits for a change, or until the database is idle.
    fn wait_for_work<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.wanted.is_some() || state.wanted_when_idle.is_none() {
            return wait(&self.changed, state);
        }
        let commits = state.commits;
        let began = Instant::now();
        let mut state = wait_timeout(&self.changed, state, IDLE_AFTER);
        if began.elapsed() >= IDLE_AFTER && state.commits == commits && state.wanted.is_none() {
            state.wanted = state.wanted_when_idle.take();
        }
        state
    }

    /// Accounts for a checkpoint that has ended, of the thread or of another one. True if readers,
    /// or a call-off, held it up.
    fn ended(&self, began: Instant, result: &Result<Progress, String>, is_of_thread: bool) -> bool {
        let time_ns = began.elapsed().as_nanos() as u64;
        let mut state = self.state();
        state.running = false;
        // The checkpoint's connection is closed, whatever the result.
        state.writing = false;
        state.counts.count += 1;
        state.counts.time_ns_sum += time_ns;
        state.counts.time_ns_max = state.counts.time_ns_max.max(time_ns);
        let held_up = match result {
            // The call-off held it up, and not a reader.
            Ok(progress) if state.called_off && progress.held_up => {
                self.changed.notify_all();
                return true;
            }
            Ok(progress) => progress.held_up,
            Err(_) => {
                state.counts.failed += 1;
                // Here: a request that came between the end and this would be promised and lost.
                if is_of_thread {
                    state.thread = Thread::Refused;
                }
                false
            }
        };
        if held_up {
            state.counts.held_up += 1;
            let since = *state.held_up_since.get_or_insert(began);
            if since.elapsed() >= STARVING_AFTER && !state.starvation_said {
                state.starvation_said = true;
                state.counts.starved += 1;
                let (path, seconds) = (&self.path, since.elapsed().as_secs());
                let message = if state.reader_seen {
                    format!(
                        "oneflush: readers have held up the checkpoint of {path} for {seconds} s; \
                            its WAL grows until they end their transactions [OF-203]"
                    )
                } else {
                    format!(
                        "oneflush: the checkpoint of {path} has not come to its end for {seconds} \
                            s, and no reader's lock was in its way; its WAL grows until it does \
                            [OF-238]"
                    )
                };
                self.run.warn(&message);
            }
        } else {
            state.wanted = None;
            state.wanted_when_idle = None;
            state.held_up_since = None;
            state.starvation_said = false;
            state.reader_seen = false;
        }
        self.changed.notify_all();
        held_up
    }

    pub(super) fn warn(&self, message: &str) {
        self.run.warn(message);
    }

    fn pause(&self, pause: Duration, ends_early: fn(&State) -> bool) {
        let until = Instant::now() + pause;
        let mut state = self.state();
        while !state.ends_thread() && !ends_early(&state) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            state = wait_timeout(&self.changed, state, left);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{OnceLock, Weak};

    use super::*;

    /// A checkpoint of one page on a device that takes long for it.
    #[derive(Default)]
    struct OnSlowDevice {
        checkpointer: OnceLock<Weak<Checkpointer>>,
        written_out: AtomicBool,
    }

    const SLOW: Duration = Duration::from_millis(400);

    impl RunCheckpoint for OnSlowDevice {
        fn run(&self, _: &str, _: &Options) -> Result<Progress, String> {
            self.checkpointer.get().and_then(Weak::upgrade).unwrap().copied(0, 1 << 20);
            Ok(Progress { held_up: false, wal_frames: 1, copied_frames: 1 })
        }

        fn write_out(&self, _: &str, _: u64, _: u64) {
            std::thread::sleep(SLOW);
            self.written_out.store(true, Relaxed);
        }

        fn warn(&self, _: &str) {
            unreachable!()
        }
    }

    /// Is held up, and keeps what is said of that.
    #[derive(Default)]
    struct HeldUp(Mutex<Vec<String>, { crate::sync::ranks::STUB }>);

    impl RunCheckpoint for HeldUp {
        fn run(&self, _: &str, _: &Options) -> Result<Progress, String> {
            Ok(Progress { held_up: true, wal_frames: 2, copied_frames: 1 })
        }

        fn write_out(&self, _: &str, _: u64, _: u64) {}

        fn warn(&self, message: &str) {
            lock(&self.0).push(message.to_owned());
        }
    }

    // Readers were blamed wherever a checkpoint was held up, also by another checkpoint or an
    // exclusive lock. Who looked for a reader found none.
    #[test]
    fn readers_are_named_only_where_a_readers_lock_was_found() {
        let said = |reader_seen: bool| {
            let run = Arc::new(HeldUp::default());
            let checkpointer = Checkpointer::new("/nonexistent/held.db", Arc::clone(&run) as _);
            checkpointer.state().held_up_since = Instant::now().checked_sub(STARVING_AFTER);
            if reader_seen {
                checkpointer.saw_reader();
            }
            checkpointer.run_now(&Options::default()).unwrap();
            lock(&run.0).concat()
        };
        assert!(said(true).contains("readers have held up the checkpoint of /nonexistent/held.db"));
        assert!(said(false).contains("no reader's lock was in its way"), "{}", said(false));
    }

    struct Panics;

    impl RunCheckpoint for Panics {
        fn run(&self, _: &str, _: &Options) -> Result<Progress, String> {
            panic!("on purpose")
        }

        fn write_out(&self, _: &str, _: u64, _: u64) {}

        fn warn(&self, _: &str) {}
    }

    // `running` stayed up, and the last close waited for ever. A lock that a panic had left held
    // off did the same.
    #[test]
    fn a_panic_in_a_checkpoint_leaves_nobody_waiting() {
        let checkpointer = Checkpointer::new("/nonexistent/panics.db", Arc::new(Panics));
        checkpointer.writes(true);
        assert!(checkpointer.run_now(&Options::default()).unwrap_err().contains("panic"));
        assert!(!checkpointer.gave_way(checkpointer.writings()), "no lock is held");
        let held_off = std::panic::AssertUnwindSafe(|| {
            let _held_off = checkpointer.hold_off();
            panic!("on purpose")
        });
        assert!(std::panic::catch_unwind(held_off).is_err());
        assert!(checkpointer.request(&Options::default()));
        while checkpointer.is_at_it() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!checkpointer.request(&Options::default()), "SQLite does them itself");
        checkpointer.end();
        assert_eq!(checkpointer.counts().failed, 2);
    }

    #[test]
    fn a_checkpoint_rests_after_a_slow_piece_unless_somebody_waits_for_it() {
        let time_of = |request: fn(&Arc<Checkpointer>), awaited: bool| {
            let run = Arc::new(OnSlowDevice::default());
            let checkpointer = Checkpointer::new("/nonexistent/slow.db", Arc::clone(&run) as _);
            run.checkpointer.set(Arc::downgrade(&checkpointer)).unwrap();
            request(&checkpointer);
            while !run.written_out.load(Relaxed) {
                std::thread::yield_now();
            }
            while !awaited && checkpointer.counts().count == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            checkpointer.end();
            checkpointer.stop();
            Duration::from_nanos(checkpointer.counts().time_ns_max)
        };
        let in_the_background: fn(&Arc<Checkpointer>) =
            |checkpointer| assert!(checkpointer.request(&Options::default()));
        assert!(time_of(in_the_background, false) >= 2 * SLOW);
        // One run of several is enough: a busy machine may add the time of a rest.
        let rests_not = |request, awaited| (0..10).any(|_| time_of(request, awaited) < 2 * SLOW);
        assert!(rests_not(in_the_background, true), "somebody waits");
        let now: fn(&Arc<Checkpointer>) = |checkpointer| {
            checkpointer.run_now(&Options::default()).unwrap();
        };
        assert!(rests_not(now, false), "the application itself waits");
    }
}
