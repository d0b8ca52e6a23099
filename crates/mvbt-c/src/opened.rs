//! Handles of one process on one file share an open database, and so its memory for pages. Who
//! writes then has at hand what another handle has changed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use mvbt::{Database, Options, Result};

use crate::place::{FileId, Place};

static OPENED: LazyLock<Mutex<HashMap<Key, Slot>>> = LazyLock::new(Mutex::default);

/// Handles with the same one share. A child of a fork opens the file itself.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    process: u32,
    file: FileId,
    switches: [bool; 4],
}

/// Is locked while the file is opened or closed.
type Slot = Arc<Mutex<Weak<Database>>>;

/// One of those who share a database. It is closed by the last of them.
pub struct Opened {
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
        let key = Key { process: std::process::id(), file, switches };
        let slot = Arc::clone(locked(&OPENED).entry(key.clone()).or_default());
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
        Ok(Opened { database: Some(database), shared_as: Some((key, slot)) })
    }

    pub fn alone(database: Database) -> Opened {
        Opened { database: Some(Arc::new(database)), shared_as: None }
    }

    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("it is not being closed")
    }

    /// The last one of those who share it closes the database.
    pub fn close(mut self) -> Result<()> {
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
    let mut opened = locked(&OPENED);
    let is_ours = opened.get(key).is_some_and(|other| Arc::ptr_eq(other, slot));
    if is_ours && shared.strong_count() == 0 {
        opened.remove(key);
    }
}
