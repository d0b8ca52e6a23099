//! The model check of processes that share a log: in every order of steps that the checker tries, and with one of them dying at a place
//! of the checker's choice, a commit that returned is found by a recovery from nothing but what was durable then.
//!
//! Log, board, records and recovery are the real ones. A process is a thread of the checker with an [`EagerLog`] of its own; disk, image and
//! SQLite's write lock are a few lines each. A thread dies by unwinding, and the "kernel" then releases its locks.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex as StdMutex;

use oneflush_blocklog::{Log, Storage, Uuid};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;

use super::board::{Board, Common, Private};
use super::files::{ImageMemory, LogFile, SideFiles};
use super::*;
use crate::kill_point::Died;
use crate::strategy::wal_file::Chain;
use crate::strategy::{DeviceCharacteristics, LockLevel, ShmLock};

const PAGE_BYTES: usize = 512;
const PAGES: u32 = 6;
/// A page that every commit changes.
const SHARED_PAGE: u32 = 2;

/// Bytes with what of them would survive. Never held over a step of the checker.
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
        if Disk::read(self, buffer, offset) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
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

    fn shm_lock(&self, _: ShmLock) -> Result<(), Code> {
        Ok(())
    }

    fn published_frames(&self) -> Option<u32> {
        None
    }

    fn forget_backfill(&self) {}

    fn believe_backfill(&self, _: u32) {}

    fn sector_size(&self) -> i32 {
        512
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(0)
    }
}

/// The board, or SQLite's write lock, as one process sees it: the kernel knows who has the lock.
struct Handle {
    shared: Arc<Private>,
    has_lock: StdMutex<bool>,
}

impl Handle {
    fn new(shared: &Arc<Private>) -> Handle {
        Handle { shared: Arc::clone(shared), has_lock: StdMutex::default() }
    }

    /// What the kernel does when the process dies.
    fn die(&self) {
        if std::mem::take(&mut *self.has_lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner())) {
            self.shared.unlock(0..0);
        }
    }
}

impl Common for Handle {
    fn words(&self) -> &[std::sync::atomic::AtomicU64] {
        self.shared.words()
    }

    fn lock_unless(&self, frame: u32, done: &dyn Fn() -> bool) -> Result<bool, Code> {
        let locked = self.shared.lock_unless(frame, done)?;
        *self.has_lock.lock().unwrap() = locked;
        Ok(locked)
    }

    fn unlock(&self, logged: std::ops::Range<u32>) {
        *self.has_lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = false;
        self.shared.unlock(logged);
    }

    fn tickets(&self) -> &tickets::Tickets {
        self.shared.tickets()
    }

    fn gathering(&self) -> &gathering::Gathering {
        self.shared.gathering()
    }

    fn join(&self) -> Result<bool, Code> {
        self.shared.join()
    }

    fn leave(&self) {
        self.shared.leave();
    }

    fn identity(&self, _: &str) -> u64 {
        0
    }
}

struct NoFiles;

impl SideFiles for NoFiles {
    fn common(&self, _: &str) -> Result<std::sync::Arc<dyn Common>, Code> {
        Err(Code::CANTOPEN)
    }

    fn open_log(&self, _: &str) -> Result<Option<LogFile>, Code> {
        Ok(None)
    }

    fn create_log(&self, _: &str) -> Result<LogFile, Code> {
        Err(Code::CANTOPEN)
    }

    fn delete(&self, _: &str, _: bool) -> Result<(), Code> {
        Ok(())
    }

    fn claim_image(&self, _: &str) -> Result<(), Code> {
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> Result<(), Code> {
        unreachable!()
    }

    fn exists(&self, _: &str) -> Result<bool, Code> {
        Ok(false)
    }

    fn is_there(&self, _: &str) -> Result<bool, Code> {
        Ok(false)
    }

    fn map_image(&self, _: &str, _: &[u8]) -> Option<Box<dyn ImageMemory>> {
        None
    }

    fn will_read(&self, _: &str, _: &[u32], _: usize) {}

    fn fold_wal(&self, _: &str) -> Result<bool, String> {
        Ok(true)
    }

    fn recover(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn warn(&self, _: &str) {}
}

/// What SQLite knows, under its write lock: the last frame that is published, and the chain and the shared page up to it.
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
    /// SQLite's; a guard would be dropped by the unwinding, and the checker forgets who waits for one then.
    write_lock: Arc<Private>,
    published: StdMutex<Published>,
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
            Log::create(LogFile(Box::new(log.clone())), Uuid([7; 16]), PAGE_BYTES as u32, 1 << 18).unwrap();
        let mut open = OpenLog::new(made, head, 1 << 19);
        let first = Board::new(std::sync::Arc::new(Handle::new(&board)));
        first.begin(Uuid([7; 16]), PAGE_BYTES);
        open.log_page_one(&database).unwrap();
        open.show(&first);
        let published = StdMutex::new(Published { frame: 0, chain, total: 0 });
        World { log, image, database, board, write_lock: Arc::default(), published }
    }

    fn process(&self) -> Process {
        let board = std::sync::Arc::new(Handle::new(&self.board));
        let eager = EagerLog::new("/model.db", std::sync::Arc::new(NoFiles));
        let log = Log::open(LogFile(Box::new(self.log.clone()))).unwrap();
        let head = log.empty_head().unwrap();
        eager.state().open = Some(OpenLog::new(log, head, 1 << 19));
        *lock(&eager.board) = Board::new(board.clone());
        Process { eager, board, write_lock: Handle::new(&self.write_lock) }
    }

    /// Writes `number` to the process's page and one more to the shared page; returns when that is durable.
    fn commit(&self, process: &Process, own_page: u32, number: u32, early: bool) {
        let Process { eager, write_lock, .. } = process;
        write_lock.lock().unwrap();
        let on_image = WalFile { file: &self.image, page_bytes: PAGE_BYTES };
        let mut next = *self.published.lock().unwrap();
        next.total += 1;
        eager.before_frame(&self.image, &[], on_image.offset_of(next.frame + 1)).unwrap();
        for (page_no, ends, value) in [(own_page, 0, number), (SHARED_PAGE, PAGES, next.total)] {
            next.frame += 1;
            next.chain = on_image.write_frame(next.frame, next.chain, page_no, ends, &page(value)).unwrap();
        }
        eager.note_commit(on_image.offset_of(next.frame), &mut Frames::default());
        if early {
            // The sync is inside of the write lock.
            eager.append(&self.database, &self.image, For::Commit).unwrap();
        }
        *self.published.lock().unwrap() = next;
        write_lock.unlock(0..0);
        if !early {
            eager.append(&self.database, &self.image, For::Commit).unwrap();
        }
    }

    /// What a recovery finds of each page after a loss of power now.
    fn recovered(&self) -> BTreeMap<u32, u32> {
        let (log, image, database) = (self.log.after_crash(), self.image.after_crash(), self.database.after_crash());
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

/// Processes that commit a few times, one of which may die, and, as a check of the check, leave the board as if it had not.
fn run(dies: bool, hides_it: bool) {
    let world = Arc::new(World::new());
    let threads: Vec<_> = (0..3)
        .map(|at| {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || {
                let process = world.process();
                let own_page = 3 + at;
                if dies && at == 0 {
                    Died::after(thread_rng().gen_range(1..24));
                }
                let lived = catch_unwind(AssertUnwindSafe(|| {
                    for number in 1..=2 {
                        let early = thread_rng().gen_range(0..2) == 0;
                        world.commit(&process, own_page, number, early);
                        let found = world.recovered();
                        assert!(found.get(&own_page) >= Some(&number), "acknowledged and not durable: {found:?}");
                        // Commits are whole, and in an order.
                        let commits: u32 = (3..6).filter_map(|page_no| found.get(&page_no)).sum();
                        assert_eq!(found.get(&SHARED_PAGE), Some(&commits), "{found:?}");
                    }
                }));
                match lived {
                    Ok(()) => {}
                    Err(reason) if reason.is::<Died>() => {
                        if hides_it {
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
    shuttle::check_random(|| run(false, false), 1_000);
    shuttle::check_pct(|| run(false, false), 1_000, 3);
}

#[test]
fn nor_do_they_when_one_of_them_dies() {
    shuttle::check_random(|| run(true, false), 3_000);
    shuttle::check_pct(|| run(true, false), 3_000, 3);
}

#[test]
#[should_panic(expected = "assert")]
fn a_death_that_nobody_repairs_is_caught() {
    shuttle::check_random(|| run(true, true), 3_000);
}
