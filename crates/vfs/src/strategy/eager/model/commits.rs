//! Processes that commit: a recovery finds each commit that has returned.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;

use oneflush_blocklog::{Log, Uuid};
use shuttle::rand::{Rng, thread_rng};

use super::*;
use crate::kill_point::{Died, Stopped};
use crate::strategy::log_files::LogFile;
use crate::test_stubs::NoLogs;
use crate::wal_file::Chain;

const PAGES: u32 = 6;
/// A page that every commit changes.
const SHARED_PAGE: u32 = 2;

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
        first.set_open();
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
        eager.own_board.set(Board::new(board.clone()));
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
                    // The checker adds its words, which a test may expect, to a `String` alone.
                    Err(reason) => match reason.downcast::<&str>() {
                        Ok(text) => panic!("{text}"),
                        Err(reason) => std::panic::resume_unwind(reason),
                    },
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

/// Which assertion sees it first depends on the order.
#[test]
#[should_panic(expected = "original panic")]
fn a_death_that_nobody_repairs_is_caught() {
    shuttle::check_random(|| run(First::DiesHidden), 3_000);
}

#[test]
fn nor_do_they_when_one_of_them_is_stopped_and_the_others_give_up() {
    shuttle::check_random(|| run(First::IsStopped), 3_000);
    shuttle::check_pct(|| run(First::IsStopped), 3_000, 3);
}
