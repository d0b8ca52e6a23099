//! The model check of processes that share a log. The checker tries orders of steps. In some runs
//! one process dies at a place of the checker's choice, or is stopped there until all others have
//! ended. In each order these claims hold:
//!
//! - A recovery from only what was durable when a commit returned finds that commit.
//! - A process that joins the users of a log, with the board's lock or without, uses it with no
//!   process that believes to be alone.
//!
//! Log, board, records and recovery are the real ones. A process is a thread of the checker with
//! its own [`EagerLog`]. Disk, image and SQLite's write lock are a few lines each. A thread dies by
//! unwinding, and the "kernel" then releases its locks.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use oneflush_blocklog::{Log, Storage, Uuid};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;

use super::board::{Board, Common, Private};
use super::files::LogFile;
use super::*;
use crate::engine::ProcessBatching;
use crate::kill_point::{Died, Stopped};
use crate::port::{DeviceCharacteristics, LockLevel};
use crate::test_stubs::NoLogs;
use crate::wal_file::Chain;

const PAGE_BYTES: usize = 512;
const FOR_EVER: Duration = Duration::from_secs(1_000_000);
const PAGES: u32 = 6;
/// A page that every commit changes.
const SHARED_PAGE: u32 = 2;

/// The bytes of a file, and those that would survive a loss of power. The lock is never held over a
/// step of the checker.
#[derive(Clone, Default)]
struct Disk(std::sync::Arc<StdMutex<(Vec<u8>, Vec<u8>)>>);

impl Disk {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>) -> T) -> T {
        let mut both = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (now, durable) = &mut *both;
        act(now, durable)
    }

    fn write(&self, bytes: &[u8], offset: u64) {
        self.with(|now, _| {
            let end = offset as usize + bytes.len();
            now.resize(now.len().max(end), 0);
            now[offset as usize..end].copy_from_slice(bytes);
        });
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> bool {
        self.with(|now, _| {
            let there = now.get(offset as usize..offset as usize + buffer.len());
            there.map(|there| buffer.copy_from_slice(there)).is_some()
        })
    }

    fn sync(&self) {
        shuttle::thread::yield_now();
        self.with(|now, durable| durable.clone_from(now));
        shuttle::thread::yield_now();
    }

    /// What a loss of power leaves.
    fn after_crash(&self) -> Disk {
        let durable = self.with(|_, durable| durable.clone());
        Disk(std::sync::Arc::new(StdMutex::new((durable.clone(), durable))))
    }
}

impl Storage for Disk {
    fn block_bytes(&self) -> usize {
        4096
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.with(|now, _| now.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if Disk::read(self, buffer, offset) {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        Disk::write(self, blocks, offset);
        self.sync();
        Ok(())
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        Disk::write(self, blocks, offset);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.sync();
        Ok(())
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.with(|now, _| now.resize(size_bytes as usize, 0));
        self.sync();
        Ok(())
    }
}

impl Below for Disk {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        if Disk::read(self, buffer, offset) { Ok(()) } else { Err(Code::SHORT_READ) }
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        Disk::write(self, data, offset);
        Ok(())
    }

    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        self.with(|now, _| now.resize(size_bytes as usize, 0));
        Ok(())
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        Disk::sync(self);
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        Ok(self.with(|now, _| now.len() as u64))
    }

    fn lock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        Ok(())
    }

    fn sector_size(&self) -> i32 {
        512
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(0)
    }
}

/// The board, or SQLite's write lock, as one process sees it. The kernel knows the holder of the
/// lock.
struct Handle {
    shared: Arc<Private>,
    has_lock: StdMutex<bool>,
    /// The holder of the lock is stopped.
    is_stopped: std::sync::Arc<AtomicBool>,
    kernel: std::sync::Arc<StdMutex<Kernel>>,
    has: StdMutex<Has>,
    /// A check of the check: this process joins beside nobody.
    sees_what_is_not_there: bool,
}

/// The locks on the log, as the kernel has them.
#[derive(Default)]
struct Kernel {
    using: u32,
    alone: bool,
    shown: u32,
}

/// The locks that one process has.
#[derive(Clone, Copy, Default, PartialEq)]
struct Has {
    using: bool,
    alone: bool,
    shown: bool,
}

impl Handle {
    fn new(shared: &Arc<Private>) -> Handle {
        Handle::with(shared, &std::sync::Arc::default(), &std::sync::Arc::default())
    }

    fn with(
        shared: &Arc<Private>,
        is_stopped: &std::sync::Arc<AtomicBool>,
        kernel: &std::sync::Arc<StdMutex<Kernel>>,
    ) -> Handle {
        Handle {
            shared: Arc::clone(shared),
            has_lock: StdMutex::default(),
            is_stopped: is_stopped.clone(),
            kernel: kernel.clone(),
            has: StdMutex::default(),
            sees_what_is_not_there: false,
        }
    }

    /// Changes this process's locks on the log, in one step of the checker.
    fn change<T>(&self, act: impl FnOnce(&mut Kernel, &mut Has) -> T) -> T {
        shuttle::thread::yield_now();
        let result = {
            let mut kernel = self.kernel.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let mut has = self.has.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            act(&mut kernel, &mut has)
        };
        shuttle::thread::yield_now();
        result
    }

    /// Releases the locks of a dead process, as the kernel does.
    fn die(&self) {
        if std::mem::take(
            &mut *self.has_lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
        ) {
            self.shared.unlock(0..0);
        }
        self.leave();
    }
}

impl Common for Handle {
    fn words(&self) -> &[std::sync::atomic::AtomicU64] {
        self.shared.words()
    }

    fn lock_unless(
        &self,
        frame: u32,
        patience: Duration,
        done: &dyn Fn() -> bool,
    ) -> Result<bool, Code> {
        loop {
            if done() {
                return Ok(false);
            }
            if self.shared.lock_unless(frame, Duration::ZERO, &|| false).is_ok() {
                *self.has_lock.lock().unwrap() = true;
                return Ok(true);
            }
            // A process that waits for a stopped one gives up at some time. The checker's time does
            // not pass.
            if self.is_stopped.load(SeqCst) && !patience.is_zero() {
                return Err(Code::BUSY);
            }
            shuttle::thread::yield_now();
        }
    }

    fn unlock(&self, logged: std::ops::Range<u32>) {
        *self.has_lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = false;
        self.shared.unlock(logged);
    }

    fn tickets(&self) -> &tickets::Tickets {
        self.shared.tickets()
    }

    fn batching(&self) -> &ProcessBatching {
        self.shared.batching()
    }

    fn holder(&self) -> Option<board::Holder> {
        None
    }

    fn is_locked(&self) -> bool {
        self.shared.is_locked()
    }

    fn wait_for_unlock(&self, _: Duration) {}

    fn be_alone(&self) -> Result<bool, Code> {
        self.change(|kernel, has| {
            has.alone = kernel.using == 0 && !kernel.alone;
            kernel.alone |= has.alone;
            Ok(has.alone)
        })
    }

    fn begin_use(&self) -> Result<(), Code> {
        // Two steps, as the manual of `flock` says.
        self.change(|kernel, has| kernel.alone &= !std::mem::take(&mut has.alone));
        self.change(|kernel, has| {
            if kernel.alone {
                return Err(Code::BUSY);
            }
            kernel.using += 1;
            has.using = true;
            Ok(())
        })
    }

    fn show_use(&self) {
        self.change(|kernel, has| {
            kernel.shown += 1;
            has.shown = true;
        });
    }

    fn is_shown(&self) -> bool {
        self.sees_what_is_not_there || self.change(|kernel, _| kernel.shown > 0)
    }

    fn is_there(&self) -> bool {
        true
    }

    fn leave(&self) {
        self.change(|kernel, has| {
            let Has { using, alone, shown } = std::mem::take(has);
            kernel.alone &= !alone;
            kernel.using -= u32::from(using);
            kernel.shown -= u32::from(shown);
        });
    }

    fn identity(&self, _: &str) -> u64 {
        0
    }
}

/// What SQLite knows under its write lock: the last published frame, and the chain and the shared
/// page's number up to it.
#[derive(Clone, Copy)]
struct Published {
    frame: u32,
    chain: Chain,
    total: u32,
}

struct World {
    log: Disk,
    image: Disk,
    database: Disk,
    board: Arc<Private>,
    /// SQLite's write lock. It is no mutex: unwinding would drop the mutex's guard, and the checker
    /// would forget its waiters.
    write_lock: Arc<Private>,
    published: StdMutex<Published>,
    /// The stopped process has the board's lock; the write lock.
    stopped: [std::sync::Arc<AtomicBool>; 2],
    kernel: std::sync::Arc<StdMutex<Kernel>>,
    /// Processes that commit and have not ended.
    running: AtomicU32,
}

/// A process: what it has open, and its locks.
struct Process {
    eager: EagerLog,
    board: std::sync::Arc<Handle>,
    write_lock: Handle,
}

impl Process {
    fn die(&self) {
        self.board.die();
        self.write_lock.die();
    }
}

fn page(value: u32) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES];
    page[..4].copy_from_slice(&value.to_be_bytes());
    page
}

fn value(page: &[u8]) -> u32 {
    u32::from_be_bytes([page[0], page[1], page[2], page[3]])
}

impl World {
    fn new() -> World {
        let (log, image, database) = (Disk::default(), Disk::default(), Disk::default());
        Disk::write(&database, &vec![0; PAGE_BYTES * PAGES as usize], 0);
        Disk::sync(&database);
        let board = Arc::new(Private::default());
        let on_image = WalFile { file: &image, page_bytes: PAGE_BYTES };
        let chain = on_image.write_header([1, 2]).unwrap();
        let (made, head) =
            Log::create(LogFile(Box::new(log.clone())), Uuid([7; 16]), PAGE_BYTES as u32, 1 << 18)
                .unwrap();
        let mut open = OpenLog::new(made, head, 1 << 19);
        let first = Board::new(std::sync::Arc::new(Handle::new(&board)));
        first.begin(Uuid([7; 16]), PAGE_BYTES);
        open.log_page_one(&database).unwrap();
        open.show(&first);
        let published = StdMutex::new(Published { frame: 0, chain, total: 0 });
        World {
            log,
            image,
            database,
            board,
            write_lock: Arc::default(),
            published,
            stopped: Default::default(),
            kernel: Default::default(),
            running: AtomicU32::new(0),
        }
    }

    fn process(&self) -> Process {
        let [board_stopped, write_stopped] = &self.stopped;
        let board = std::sync::Arc::new(Handle::with(&self.board, board_stopped, &self.kernel));
        let eager = EagerLog::new("/model.db", std::sync::Arc::new(NoLogs));
        let log = Log::open(LogFile(Box::new(self.log.clone()))).unwrap();
        let head = log.empty_head().unwrap();
        eager.state().open = Some(OpenLog::new(log, head, 1 << 19));
        *lock(&eager.board) = Board::new(board.clone());
        Process {
            eager,
            board,
            write_lock: Handle::with(&self.write_lock, write_stopped, &Default::default()),
        }
    }

    /// Stops this process until all others have ended.
    fn stops(&self, process: &Process) {
        let [board_stopped, write_stopped] = &self.stopped;
        board_stopped.store(*process.board.has_lock.lock().unwrap(), SeqCst);
        write_stopped.store(*process.write_lock.has_lock.lock().unwrap(), SeqCst);
        while self.running.load(SeqCst) > 1 {
            shuttle::thread::yield_now();
        }
        board_stopped.store(false, SeqCst);
        write_stopped.store(false, SeqCst);
    }

    /// Writes `number` to the process's page, adds one to the shared page, and returns when both
    /// are durable. An error: the commit is not acknowledged.
    fn commit(
        &self,
        process: &Process,
        own_page: u32,
        number: u32,
        early: bool,
    ) -> Result<(), Code> {
        let Process { eager, write_lock, .. } = process;
        write_lock.lock_unless(0, FOR_EVER, &|| false)?;
        let written = self.write(process, own_page, number, early);
        write_lock.unlock(0..0);
        written?;
        if !early {
            eager.append(&self.database, &self.image, For::Commit)?;
        }
        Ok(())
    }

    fn write(
        &self,
        process: &Process,
        own_page: u32,
        number: u32,
        early: bool,
    ) -> Result<(), Code> {
        let eager = &process.eager;
        let on_image = WalFile { file: &self.image, page_bytes: PAGE_BYTES };
        let mut next = *self.published.lock().unwrap();
        next.total += 1;
        eager.before_frame(&self.image, &[], on_image.offset_of(next.frame + 1))?;
        for (page_no, ends, value) in [(own_page, 0, number), (SHARED_PAGE, PAGES, next.total)] {
            next.frame += 1;
            next.chain =
                on_image.write_frame(next.frame, next.chain, page_no, ends, &page(value)).unwrap();
        }
        eager.note_commit(on_image.offset_of(next.frame), &mut Frames::default());
        if early {
            // The sync is inside the write lock.
            eager.append(&self.database, &self.image, For::Commit)?;
        }
        *self.published.lock().unwrap() = next;
        Ok(())
    }

    /// The number that a recovery finds on each page, if power is lost now.
    fn recovered(&self) -> BTreeMap<u32, u32> {
        let (log, image, database) =
            (self.log.after_crash(), self.image.after_crash(), self.database.after_crash());
        let log = Log::open(LogFile(Box::new(log))).unwrap();
        let head = log.empty_head().unwrap();
        let mut open = OpenLog::new(log, head, 1 << 19);
        recover::run(&mut open, &database, &image, [3, 4], &|_| {}).unwrap();
        let on_image = WalFile { file: &image, page_bytes: PAGE_BYTES };
        let mut content = Vec::new();
        let of = |(&page_no, page): (&u32, &log::Page)| {
            on_image.page(page.frame, &mut content).unwrap();
            (page_no, value(&content))
        };
        open.pages.iter().map(of).collect()
    }
}

/// What becomes of the first process.
#[derive(Clone, Copy, PartialEq)]
enum First {
    Lives,
    Dies,
    /// A check of the check: it dies, and leaves the board as if it had not.
    DiesHidden,
    /// It is stopped until all others have ended.
    IsStopped,
}

/// Runs three processes that commit a few times.
fn run(first: First) {
    let world = Arc::new(World::new());
    world.running.store(3, SeqCst);
    let threads: Vec<_> = (0..3)
        .map(|at| {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || {
                let process = std::sync::Arc::new(world.process());
                let own_page = 3 + at;
                match first {
                    First::Dies | First::DiesHidden if at == 0 => {
                        Died::after(thread_rng().gen_range(1..24))
                    }
                    First::IsStopped if at == 0 => {
                        let (world, process) =
                            (Arc::clone(&world), std::sync::Arc::clone(&process));
                        Stopped::after(
                            thread_rng().gen_range(1..24),
                            Box::new(move || world.stops(&process)),
                        );
                    }
                    _ => {}
                }
                let lived = catch_unwind(AssertUnwindSafe(|| {
                    for number in 1..=2 {
                        let early = thread_rng().gen_range(0..2) == 0;
                        if let Err(code) = world.commit(&process, own_page, number, early) {
                            assert!(first == First::IsStopped && at != 0, "{code:?}");
                            assert!([Code::BUSY, Code::IOERR_FSYNC].contains(&code), "{code:?}");
                            return;
                        }
                        let found = world.recovered();
                        assert!(
                            found.get(&own_page) >= Some(&number),
                            "acknowledged and not durable: {found:?}"
                        );
                        // Commits are whole, and in order.
                        let commits: u32 = (3..6).filter_map(|page_no| found.get(&page_no)).sum();
                        assert_eq!(
                            found.get(&SHARED_PAGE).copied().unwrap_or_default(),
                            commits,
                            "{found:?}"
                        );
                    }
                }));
                world.running.fetch_sub(1, SeqCst);
                match lived {
                    Ok(()) => {}
                    Err(reason) if reason.is::<Died>() => {
                        if first == First::DiesHidden {
                            process.eager.board().set_busy(false);
                        }
                        process.die();
                    }
                    Err(reason) => std::panic::resume_unwind(reason),
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn processes_that_share_a_log_acknowledge_nothing_that_is_not_durable() {
    shuttle::check_random(|| run(First::Lives), 1_000);
    shuttle::check_pct(|| run(First::Lives), 1_000, 3);
}

#[test]
fn nor_do_they_when_one_of_them_dies() {
    shuttle::check_random(|| run(First::Dies), 3_000);
    shuttle::check_pct(|| run(First::Dies), 3_000, 3);
}

#[test]
#[should_panic(expected = "assert")]
fn a_death_that_nobody_repairs_is_caught() {
    shuttle::check_random(|| run(First::DiesHidden), 3_000);
}

#[test]
fn nor_do_they_when_one_of_them_is_stopped_and_the_others_give_up() {
    shuttle::check_random(|| run(First::IsStopped), 3_000);
    shuttle::check_pct(|| run(First::IsStopped), 3_000, 3);
}

/// Who uses the log, by what each process believes.
#[derive(Default)]
struct Users {
    joined: AtomicU32,
    recovers: AtomicBool,
    /// Whatever the last start of the system left was recovered.
    recovered: AtomicBool,
}

/// Joins in one of the two ways, uses the log for a moment, and leaves it.
fn joins_and_leaves(handle: &std::sync::Arc<Handle>, users: &Users, uuid: Uuid) {
    let board = Board::new(handle.clone());
    if thread_rng().gen_range(0..2) == 0 {
        if board.join_beside(uuid).unwrap() {
            assert!(!users.recovers.load(SeqCst) && users.recovered.load(SeqCst), "invariant 8");
            users.joined.fetch_add(1, SeqCst);
        } else {
            return;
        }
    } else {
        handle.lock_unless(0, FOR_EVER, &|| false).unwrap();
        let alone = match board.join() {
            Ok(alone) => alone,
            Err(code) => {
                assert_eq!(code, Code::BUSY);
                handle.unlock(0..0);
                return;
            }
        };
        if alone {
            users.recovers.store(true, SeqCst);
            assert_eq!(users.joined.load(SeqCst), 0, "invariant 8");
            shuttle::thread::yield_now();
            board.begin(uuid, PAGE_BYTES);
            shuttle::thread::yield_now();
            assert_eq!(users.joined.load(SeqCst), 0, "invariant 8");
            users.recovered.store(true, SeqCst);
            users.recovers.store(false, SeqCst);
            board.set_open();
        } else if !board.is_open() {
            handle.leave();
            handle.unlock(0..0);
            return;
        }
        users.joined.fetch_add(1, SeqCst);
        handle.unlock(0..0);
    }
    // A process that dies here is not counted from now on. After that the kernel takes its locks
    // back.
    let dies = catch_unwind(AssertUnwindSafe(|| KillPoint::Noted.reached()));
    users.joined.fetch_sub(1, SeqCst);
    dies.unwrap_or_else(|reason| std::panic::resume_unwind(reason));
    handle.leave();
}

/// Runs processes that come and go. One of them dies. At first there is the board of an earlier
/// start of the system, with `Open` set.
fn come_and_go(sees_what_is_not_there: bool) {
    let uuid = Uuid([7; 16]);
    let shared = Arc::new(Private::default());
    let kernel = std::sync::Arc::<StdMutex<Kernel>>::default();
    let first =
        Board::new(std::sync::Arc::new(Handle::with(&shared, &Default::default(), &kernel)));
    first.begin(uuid, PAGE_BYTES);
    first.set_open();
    let users = Arc::new(Users::default());
    let threads: Vec<_> = (0..4)
        .map(|at| {
            let (shared, kernel, users) = (Arc::clone(&shared), kernel.clone(), Arc::clone(&users));
            shuttle::thread::spawn(move || {
                let handle = Handle::with(&shared, &Default::default(), &kernel);
                let handle = std::sync::Arc::new(Handle { sees_what_is_not_there, ..handle });
                if at == 0 {
                    Died::after(thread_rng().gen_range(1..8));
                }
                let before = AssertUnwindSafe(|| {
                    (0..3).for_each(|_| joins_and_leaves(&handle, &users, uuid))
                });
                if let Err(reason) = catch_unwind(before) {
                    if !reason.is::<Died>() {
                        std::panic::resume_unwind(reason);
                    }
                    handle.die();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn nobody_recovers_while_another_uses_the_log_however_they_joined() {
    shuttle::check_random(|| come_and_go(false), 5_000);
    shuttle::check_pct(|| come_and_go(false), 5_000, 3);
}

#[test]
#[should_panic(expected = "invariant 8")]
fn who_joins_beside_nobody_is_caught() {
    shuttle::check_random(|| come_and_go(true), 5_000);
}
