//! Super-journals in memory: a transaction over several databases whose journals are absorbed needs
//! no file (rule 3 of `maw`).
//!
//! | call of SQLite's | what becomes of it |
//! |---|---|
//! | `xOpen` to create it, `xWrite` of the journals' names | kept in memory |
//! | `xSync` | it is decided: absorbed, or a real file |
//! | `xDelete` with a sync of the directory | the commit point |
//! | any other `xDelete`, `xAccess`, `xOpen` to read it | a rollback, answered from memory |
//!
//! It is absorbed if all journals in it are, and their databases have logs. Otherwise each database
//! goes its own way, with files, and one that absorbs journals writes its own out.
//!
//! SQLite also names the journals of databases that it has reserved and not changed. It never makes
//! these. Such a database counts only if it has a journal at the commit.
//!
//! From then on none of these journals becomes a file before the super-journal is one.
//!
//! A rollback plays back each journal that names a super-journal only while that one exists, and
//! deletes it after the first. So it exists until no journal in it is left.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::connection::Connection;
use crate::error::{Code, Error};
use crate::mutant::{self, Mutant};
use crate::port::{Below, Deletion, DeviceCharacteristics, LockLevel, SyncRequest};
use crate::strategy::{AbsorbsJournal, LogFiles, Maw, commit_together, materialise_together};
use crate::super_journal::set_absorbed;
use crate::sync::{Mutex, StaticMutex, lock, ranks};

/// Those in memory, by name.
static ABSORBED: LazyLock<StaticMutex<HashMap<String, Arc<Super>>>> =
    LazyLock::new(StaticMutex::default);

pub struct Super {
    path: String,
    files: Arc<dyn LogFiles>,
    state: Mutex<State, { ranks::SUPER_JOURNAL }>,
}

#[derive(Default)]
struct State {
    contents: Vec<u8>,
    /// The real file, if one was made.
    real: Option<Box<dyn Below>>,
    /// The connections of its journals, once it is absorbed.
    connections: Vec<Arc<Connection>>,
    /// It is absorbed, and there is a file nevertheless: a commit by files was begun.
    is_file: bool,
}

/// Opens a super-journal that SQLite creates. `None`: no database of this process absorbs journals.
pub fn create(path: &str, files: &Arc<dyn LogFiles>) -> Option<Box<dyn Below>> {
    set_absorbed(false);
    if !Connection::any_absorbs() {
        return None;
    }
    forget_unused();
    let state = Mutex::default();
    let new = Arc::new(Super { path: path.to_owned(), files: Arc::clone(files), state });
    Some(Box::new(SuperFile(new)))
}

/// Opens one that is in memory, to read it.
pub fn open(path: &str) -> Option<Box<dyn Below>> {
    let found = find(path)?;
    Some(Box::new(SuperFile(found)))
}

/// True if there is one of this name in memory.
pub fn exists(path: &str) -> bool {
    find(path).is_some()
}

/// SQLite deletes the file of this name. `None`: it is none of those in memory.
pub fn deleting(path: &str, syncs_directory: bool) -> Result<Option<Deletion>, Error> {
    let Some(found) = find(path) else { return Ok(None) };
    if syncs_directory {
        found.commit()?;
    }
    if syncs_directory || !found.has_journals() {
        ABSORBED.lock().remove(path);
        if lock(&found.state).is_file {
            found.files.delete(path, false)?;
        }
    }
    Ok(Some(Deletion::Done))
}

/// Forgets those of transactions that have failed before a journal named them. Nobody deletes them.
fn forget_unused() {
    let all: Vec<_> = ABSORBED.lock().values().map(Arc::clone).collect();
    for unused in all.iter().filter(|one| !one.has_journals()) {
        ABSORBED.lock().remove(&unused.path);
    }
}

fn find(path: &str) -> Option<Arc<Super>> {
    ABSORBED.lock().get(path).map(Arc::clone)
}

fn maws(connections: &[Arc<Connection>]) -> Vec<&Maw> {
    connections.iter().filter_map(|connection| connection.strategy().maw()).collect()
}

impl Super {
    /// Decides what it becomes. SQLite has written all names and not yet named it in any journal.
    fn decide(self: &Arc<Super>) -> Result<(), Code> {
        let mut state = lock(&self.state);
        if state.real.is_some() || !state.connections.is_empty() {
            return Ok(());
        }
        let names = state.contents.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        // A database whose name is not UTF-8 has its own journal.
        let names = || names.clone().map(|name| std::str::from_utf8(name).ok());
        // A journal that is a file must not name a super-journal that is none: to whoever finds it
        // after a death, its database has committed.
        let found: Option<Vec<Arc<Connection>>> = names()
            .map(|name| {
                Connection::that_absorbs(name?, |journals| match journals.holds_journal() {
                    true => journals.is_absorbing() && journals.commits_together(),
                    false => journals.may_create_journal() && !journals.has_journal_file(),
                })
            })
            .collect();
        if let Some(found) = found {
            state.connections = found;
            drop(state);
            set_absorbed(true);
            ABSORBED.lock().insert(self.path.clone(), Arc::clone(self));
            return Ok(());
        }
        // While another database is linked to its log, a log cannot be retired.
        let mixed: Vec<Arc<Connection>> = names()
            .filter_map(|name| Connection::that_absorbs(name?, |one| one.may_create_journal()))
            .collect();
        for maw in maws(&mixed) {
            maw.leave_link().map_err(code)?;
        }
        let real = self.files.create_journal(&self.path)?;
        real.write(&state.contents, 0)?;
        real.sync(SyncRequest::ALL)?;
        state.real = Some(real);
        Ok(())
    }

    /// Commits the databases together.
    fn commit(&self) -> Result<(), Error> {
        if mutant::is(Mutant::CommitsOneByOne) {
            return Ok(());
        }
        let mut connections = lock(&self.state).connections.clone();
        connections.retain(holds_journal);
        if connections.is_empty() || commit_together(&maws(&connections))? {
            return Ok(());
        }
        // One by one, with files, as SQLite alone would.
        linked_first(&mut connections);
        for maw in maws(&connections) {
            maw.before_ordinary()?;
        }
        let real = self.files.create_journal(&self.path)?;
        // After an error it stays until SQLite has played back all journals.
        lock(&self.state).is_file = true;
        real.write(&lock(&self.state).contents, 0)?;
        real.sync(SyncRequest::ALL)?;
        materialise_together(&maws(&connections))?;
        drop(real);
        self.files.delete(&self.path, true)?;
        lock(&self.state).is_file = false;
        Ok(())
    }

    /// A journal that names it is still there.
    fn has_journals(&self) -> bool {
        lock(&self.state).connections.iter().any(holds_journal)
    }
}

fn holds_journal(connection: &Arc<Connection>) -> bool {
    connection.strategy().call(|strategy| {
        strategy.absorbs_journal().is_some_and(|journals| journals.holds_journal())
    })
}

/// A linked database goes first: the log that it is linked to cannot be ended before.
fn linked_first(connections: &mut [Arc<Connection>]) {
    connections.sort_by_key(|connection| {
        !connection.strategy().call(|strategy| {
            strategy.absorbs_journal().is_some_and(|journals| journals.is_linked())
        })
    });
}

fn code(error: Error) -> Code {
    Code(error.code())
}

/// The file as SQLite has it open.
struct SuperFile(Arc<Super>);

impl Below for SuperFile {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let state = lock(&self.0.state);
        if let Some(real) = &state.real {
            return real.read(buffer, offset);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(state.contents.len());
        let there = buffer.len().min(state.contents.len() - from);
        buffer[..there].copy_from_slice(&state.contents[from..from + there]);
        buffer[there..].fill(0);
        if there == buffer.len() { Ok(()) } else { Err(Code::SHORT_READ) }
    }

    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        let mut state = lock(&self.0.state);
        if let Some(real) = &state.real {
            return real.write(data, offset);
        }
        let offset = usize::try_from(offset).map_err(|_| Code::FULL)?;
        let end = offset.checked_add(data.len()).ok_or(Code::FULL)?;
        if end > state.contents.len() {
            state.contents.resize(end, 0);
        }
        state.contents[offset..end].copy_from_slice(data);
        Ok(())
    }

    fn truncate(&self, _: u64) -> Result<(), Code> {
        Err(Code::IOERR_WRITE)
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        self.0.decide()
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        let state = lock(&self.0.state);
        match &state.real {
            Some(real) => real.size_bytes(),
            None => Ok(state.contents.len() as u64),
        }
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

    /// Without `SQLITE_IOCAP_SEQUENTIAL`, so SQLite syncs it.
    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(0)
    }
}
