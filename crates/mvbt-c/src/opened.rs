//! Handles of one process on one file share an open database, and so its memory for pages. Who
//! writes then has at hand what another handle has changed.

use std::collections::HashMap;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mvbt::{Database, Options, Result};

use crate::place::{FileId, Place};

type Slots = Mutex<HashMap<Key, Slot>>;

/// What a process has open.
struct OfProcess {
    process: u32,
    slots: Slots,
    /// That of the process that has forked it.
    _parent: *mut OfProcess,
}

/// What it leads to stays where it is.
static OPENED: AtomicPtr<OfProcess> = AtomicPtr::new(ptr::null_mut());

/// A child of a fork begins with none: a thread that it does not have may hold the lock of its
/// parent's.
fn opened() -> &'static Slots {
    let process = std::process::id();
    let mut there = OPENED.load(SeqCst);
    loop {
        // SAFETY: it was leaked below, and is changed by nobody but the lock.
        match unsafe { there.as_ref() } {
            Some(ours) if ours.process == process => return &ours.slots,
            _ => {}
        }
        let new = OfProcess { process, slots: Slots::default(), _parent: there };
        let new = Box::into_raw(Box::new(new));
        match OPENED.compare_exchange(there, new, SeqCst, SeqCst) {
            Ok(_) => there = new,
            Err(other) => {
                // SAFETY: made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                there = other;
            }
        }
    }
}

/// Handles with the same one share.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    file: FileId,
    switches: [bool; 4],
}

/// Is locked while the file is opened or closed.
type Slot = Arc<Mutex<Weak<Database>>>;

/// One of those who share a database. It is closed by the last of them.
pub struct Opened {
    process: u32,
    /// None: it is being closed.
    database: Option<Arc<Database>>,
    /// None: nobody else gets it.
    shared_as: Option<(Key, Slot)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opened {
    /// Shares what this process has open, or opens it. After a failed write or flush nobody shares
    /// any more.
    pub fn open(place: &dyn Place, path: &Path, options: Options) -> Result<Opened> {
        let Some(file) = place.file_id(path) else {
            // The opening says what is wrong.
            return place.open(path, options).map(Opened::alone);
        };
        let switches = [
            options.read_only,
            options.lazy_split,
            options.metadata_embedding,
            options.redistribution,
        ];
        let key = Key { file, switches };
        let slot = Arc::clone(locked(opened()).entry(key.clone()).or_default());
        let mut shared = locked(&slot);
        let there = shared.upgrade().filter(|database| database.is_usable());
        let database = match there {
            Some(database) => database,
            None => {
                let database = place.open(path, options);
                let database = database.inspect_err(|_| forget(&key, &slot, &shared))?;
                // Another file may have come in its place meanwhile.
                if place.file_id(path).as_ref() != Some(&key.file) {
                    forget(&key, &slot, &shared);
                    return Ok(Opened::alone(database));
                }
                let database = Arc::new(database);
                *shared = Arc::downgrade(&database);
                database
            }
        };
        drop(shared);
        let process = std::process::id();
        Ok(Opened { process, database: Some(database), shared_as: Some((key, slot)) })
    }

    pub fn alone(database: Database) -> Opened {
        let process = std::process::id();
        Opened { process, database: Some(Arc::new(database)), shared_as: None }
    }

    /// The parent of this process has opened it, before a fork.
    pub fn is_inherited(&self) -> bool {
        std::process::id() != self.process
    }

    /// True if the path leads to the file that was opened. Not to know it is no.
    pub fn is_at(&self, place: &dyn Place, path: &Path) -> bool {
        let file = self.shared_as.as_ref().map(|(key, _)| &key.file);
        file.is_some() && file == place.file_id(path).as_ref()
    }

    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("it is not being closed")
    }

    /// The last one of those who share it closes the database. A child of a fork is none of its
    /// users: it only closes its descriptors.
    pub fn close(mut self) -> Result<()> {
        if self.is_inherited() {
            return Ok(());
        }
        let shared_as = self.shared_as.take();
        // Nobody opens it meanwhile.
        let shared = shared_as.as_ref().map(|(_, slot)| locked(slot));
        let Some(Ok(database)) = self.database.take().map(Arc::try_unwrap) else { return Ok(()) };
        if let (Some((key, slot)), Some(shared)) = (&shared_as, &shared) {
            forget(key, slot, shared);
        }
        database.close()
    }
}

/// Nobody shares it from now on, unless someone has it still.
fn forget(key: &Key, slot: &Slot, shared: &Weak<Database>) {
    let mut opened = locked(opened());
    let is_ours = opened.get(key).is_some_and(|other| Arc::ptr_eq(other, slot));
    if is_ours && shared.strong_count() == 0 {
        opened.remove(key);
    }
}
