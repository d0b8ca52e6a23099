//! A simulated machine: one disk, and what its processes share in memory. The registry finds it by
//! the first part of a path.
//!
//! All processes live in this one. `/machine7/a.db` and `/machine7.2/a.db` are one file, as the
//! processes 0 and 2 name it. A strategy keeps things for a database by its path. So each of these
//! processes has its own.
//!
//! Locks and WAL indexes live here and not on the disk: a loss of power ends them.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use oneflush_mvbt::Memory;

use super::locks::{FileLocks, Owner, SlotLocks};
use crate::content::Image;
use crate::disk::Disk;
use crate::lock::locked;
use crate::log::Mark;
use crate::machine::Machine;
use crate::sabotage::Kind;

/// `vfs=crashlab` in a URI: SQLite alone on a simulated disk.
pub const VFS_NAME: &str = "crashlab";

static VOLUMES: LazyLock<Mutex<HashMap<String, Arc<Volume>>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static CURRENT: RefCell<Option<Arc<Volume>>> = const { RefCell::new(None) };
    /// The process of this thread dies after so many calls to the disk.
    static CALLS_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// How long a sync takes, where it takes time. It is about as long as a commit up to its sync, so
/// that others come meanwhile.
const SYNC_TIME: Duration = Duration::from_micros(300);

pub struct Volume {
    disk: Mutex<Disk>,
    syncs_take_time: AtomicBool,
    shared: Mutex<HashMap<String, Arc<Shared>>>,
    dead: Mutex<Dead>,
    dead_changed: Condvar,
    /// Someone makes a database of the second B-tree.
    is_making: Arc<AtomicBool>,
}

/// Ends the making when it is dropped.
pub struct Making(Arc<AtomicBool>);

impl Drop for Making {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// Threads of processes that have died. They wait in the call to the disk in which they died, until
/// the machine ends.
#[derive(Default)]
struct Dead {
    calls: u32,
    is_over: bool,
    threads: Vec<JoinHandle<()>>,
}

/// What the connections to one database share.
pub struct Shared {
    pub locks: Mutex<FileLocks>,
    pub index: Mutex<Index>,
    /// What handles of the second B-tree share.
    pub memory: Arc<Memory>,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared { locks: Mutex::default(), index: Mutex::default(), memory: Memory::new() }
    }
}

/// The shared memory of a WAL index. It is emptied when nobody has it mapped any more.
#[derive(Default)]
pub struct Index {
    pub slots: SlotLocks,
    /// By the files that have it open, each once.
    pub mapped_by: Vec<Owner>,
    /// Regions never move: SQLite keeps their addresses.
    pub regions: Vec<Region>,
    /// What was emptied while threads of dead processes still have its addresses.
    abandoned: Vec<Region>,
}

pub type Region = Box<[AtomicU64]>;

impl Index {
    /// Owners who are gone hold no slot, and have the index mapped no more.
    pub fn release(&mut self, is_gone: impl Fn(Owner) -> bool) {
        self.slots.release(&is_gone);
        self.mapped_by.retain(|&owner| !is_gone(owner));
        if self.mapped_by.is_empty() {
            self.abandoned.append(&mut self.regions);
        }
    }
}

impl Volume {
    /// The disk, for a call of a process. A process that is to die does not come back.
    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        match CALLS_LEFT.get() {
            None => {}
            Some(0) => self.die(),
            Some(left) => CALLS_LEFT.set(Some(left - 1)),
        }
        locked(&self.disk)
    }

    #[cold]
    fn die(&self) {
        let mut dead = locked(&self.dead);
        dead.calls += 1;
        self.dead_changed.notify_all();
        while !dead.is_over {
            dead = self.dead_changed.wait(dead).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for as long as a sync takes. Answers how much of the log the sync covers: what was
    /// there before the wait. `None`: all.
    pub fn sync_begins(&self) -> Option<u32> {
        self.syncs_take_time.load(Relaxed).then(|| {
            let covers = self.disk().log_len();
            std::thread::sleep(SYNC_TIME);
            covers as u32
        })
    }

    /// `None`: someone else is making one.
    pub fn begin_making(&self) -> Option<Making> {
        (!self.is_making.swap(true, Relaxed)).then(|| Making(Arc::clone(&self.is_making)))
    }

    pub fn shared(&self, path: &str) -> Arc<Shared> {
        Arc::clone(locked(&self.shared).entry(path.to_owned()).or_default())
    }

    /// The machine that a path names, and the path on its disk.
    ///
    /// A super-journal holds the full names of its journals, and so the name of the machine that it
    /// was written on. A name of a machine that is gone is looked for on the machine of this
    /// thread.
    pub fn of_path(path: &str) -> Option<(Arc<Volume>, &str)> {
        let rest = path.strip_prefix('/')?;
        let (name, _) = rest.split_once('/')?;
        let volume = locked(&VOLUMES).get(machine_of(name)).cloned();
        let volume = volume.or_else(|| CURRENT.with_borrow(Clone::clone))?;
        Some((volume, &rest[name.len()..]))
    }
}

/// The process that a path names.
pub fn process_of(path: &str) -> u16 {
    let name = path.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    let process = name.and_then(|(name, _)| name.split_once('.'));
    process.and_then(|(_, process)| process.parse().ok()).unwrap_or(0)
}

/// The owner with this number, in a process.
pub fn owner(number: u64, process: u16) -> Owner {
    number << u16::BITS | u64::from(process)
}

fn machine_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(machine, _process)| machine)
}

/// The full path of a file. A database's path says which process uses it. Any other file's path
/// does not.
pub fn full_path(path: &str) -> Cow<'_, str> {
    let parts = path.strip_prefix('/').and_then(|rest| rest.split_once('/'));
    match parts.filter(|_| Kind::of(path) != Kind::Database) {
        Some((name, file)) if machine_of(name) != name => {
            format!("/{}/{file}", machine_of(name)).into()
        }
        _ => path.into(),
    }
}

/// A machine that paths can name. Dropping this ends it. A thread that still has a file open keeps
/// the disk.
pub struct Mounted {
    name: String,
    volume: Arc<Volume>,
}

impl Mounted {
    /// Mounts a machine under a name that none had before. So what a strategy remembers of a
    /// database ends with its machine.
    pub fn new(image: &Image) -> Mounted {
        let name = format!("machine{}", NEXT.fetch_add(1, Relaxed));
        let volume = Arc::new(Volume {
            disk: Mutex::new(Disk::from_image(image)),
            syncs_take_time: AtomicBool::new(false),
            shared: Mutex::default(),
            dead: Mutex::default(),
            dead_changed: Condvar::new(),
            is_making: Arc::default(),
        });
        locked(&VOLUMES).insert(name.clone(), Arc::clone(&volume));
        CURRENT.set(Some(Arc::clone(&volume)));
        Mounted { name, volume }
    }

    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        locked(&self.volume.disk)
    }
}

impl Machine for Mounted {
    const BASE_VFS: &'static str = VFS_NAME;

    fn path(&self, process: usize, file: &str) -> String {
        match process {
            0 => format!("/{}{file}", self.name),
            _ => format!("/{}.{process}{file}", self.name),
        }
    }

    fn mark(&self, mark: Mark) {
        self.disk().mark(mark);
    }

    /// A sync takes time then, in which others go on. Not with faults: Linux tells a failed sync to
    /// all that have the file open, also to those that sync it at the same time.
    fn threads_commit(&self, at_once: bool) {
        let take_time = at_once && !self.disk().plans_faults();
        self.volume.syncs_take_time.store(take_time, Relaxed);
    }

    fn strategy_changes(&self, is_sqlites: bool) {
        self.disk().spare_from_faults(is_sqlites);
    }

    /// `Some`: the process died while it dropped what it has, or after that.
    fn last_call<R: Send + 'static, H>(
        &self,
        process: usize,
        files: &[String],
        at: u32,
        call: impl FnOnce() -> (R, H) + Send + 'static,
    ) -> Option<R> {
        let volume = Arc::clone(&self.volume);
        let died_before = locked(&volume.dead).calls;
        let (answer, answered) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            CURRENT.set(Some(volume));
            CALLS_LEFT.set(Some(at));
            let (result, has) = call();
            let _ = answer.send(result);
            drop(has);
        });
        let mut dead = locked(&self.volume.dead);
        while dead.calls == died_before && !thread.is_finished() {
            const LOOK_AGAIN: Duration = Duration::from_micros(100);
            let waited = self.volume.dead_changed.wait_timeout(dead, LOOK_AGAIN);
            dead = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        dead.threads.push(thread);
        drop(dead);
        for shared in locked(&self.volume.shared).values() {
            let has_died = |of: Owner| of == owner(of >> u16::BITS, process as u16);
            locked(&shared.locks).release(has_died);
            locked(&shared.index).release(has_died);
        }
        files.iter().for_each(|file| oneflush_vfs::process_died(&self.path(process, file)));
        answered.try_recv().ok()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.disk().power_off();
        let threads = {
            let mut dead = locked(&self.volume.dead);
            dead.is_over = true;
            std::mem::take(&mut dead.threads)
        };
        self.volume.dead_changed.notify_all();
        for thread in threads {
            let _ = thread.join();
        }
        locked(&VOLUMES).remove(&self.name);
        CURRENT.with_borrow_mut(|current| {
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &self.volume)) {
                *current = None;
            }
        });
    }
}
