//! A disk as a running process sees it: a page cache that shows every write at once, and a log of
//! what was done.
//!
//! Nothing here knows about SQLite. Files are read, written, cut, synced, created, unlinked and
//! renamed by name or number.
//!
//! The log gives what would be there after a loss of power (`timeline.rs`). This half only keeps
//! what a process can see. It fails operations where a [`FaultPlan`] says so, and lies where a
//! [`Sabotage`] says so.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::content::{Content, Image};
use crate::fault::{Fault, FaultPlan, Operation};
use crate::log::{Data, Ino, Mark, Op};
use crate::mix::mix;
use crate::sabotage::{Kind, Sabotage};
use crate::timeline::{Reading, Timeline};

/// The size of a block to a sabotage.
const BLOCK_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    #[error("I/O error")]
    Io,
    #[error("no space left")]
    NoSpace,
    #[error("a part was written, then the space was used up")]
    ShortWrite,
    #[error("the code that asked is to panic")]
    Panic,
    #[error("no such file")]
    NotFound,
    #[error("the file exists")]
    Exists,
}

pub struct Disk {
    /// What it held when the faults were planned. None: something was in flight then.
    before_faults: Option<Image>,
    names: BTreeMap<String, Ino>,
    files: BTreeMap<Ino, File>,
    next: Ino,
    log: Vec<Op>,
    faults: Option<FaultPlan>,
    sabotage: Sabotage,
    /// Syncs that a sabotage owes.
    owed: Vec<Ino>,
    /// A commit was acknowledged while a sync was owed.
    acknowledged_unsynced: bool,
    powered: bool,
    tells_all: bool,
}

struct File {
    content: Content,
    kind: Kind,
    sync_failures: SyncFailures,
    /// It is read past the page cache.
    is_direct: bool,
}

/// How many syncs of a file have failed. An open file is told of the failures since it was opened,
/// once, by its next sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncFailures(u32);

impl Disk {
    /// A disk that holds exactly these files, all durable.
    pub fn from_image(image: &Image) -> Disk {
        let mut disk = Disk {
            before_faults: None,
            names: BTreeMap::new(),
            files: BTreeMap::new(),
            next: 1,
            log: Vec::new(),
            faults: None,
            sabotage: Sabotage::None,
            owed: Vec::new(),
            acknowledged_unsynced: false,
            powered: true,
            tells_all: false,
        };
        for (name, content) in &image.files {
            let ino = disk.add(name);
            if let Some(file) = disk.files.get_mut(&ino) {
                file.content = content.clone();
            }
        }
        disk
    }

    pub fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = sabotage;
    }

    /// Tells every open file of a sync that fails, as Linux does since 4.13. Otherwise only the
    /// caller of the sync hears of it, which is harder on a process among several.
    pub fn tell_all_of_failed_syncs(&mut self) {
        self.tells_all = true;
    }

    pub fn plan_faults(&mut self, plan: FaultPlan) {
        self.before_faults = self.log.is_empty().then(|| self.image());
        self.faults = Some(plan);
    }

    /// From now on no operation fails, or they fail as planned again.
    pub fn spare_from_faults(&mut self, spared: bool) {
        if let Some(plan) = &mut self.faults {
            plan.is_suspended = spared;
        }
    }

    /// Ends the faults. Answers what became of the plan.
    pub fn take_faults(&mut self) -> Option<FaultPlan> {
        self.faults.take()
    }

    /// Every file, as the process sees it.
    pub fn image(&self) -> Image {
        let content =
            |ino: &Ino| self.files.get(ino).map(|file| file.content.clone()).unwrap_or_default();
        Image { files: self.names.iter().map(|(name, ino)| (name.clone(), content(ino))).collect() }
    }

    /// The log since the last call.
    pub fn take_log(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.log)
    }

    pub fn plans_faults(&self) -> bool {
        self.faults.is_some()
    }

    pub fn log_len(&self) -> usize {
        self.log.len()
    }

    pub fn mark(&mut self, mark: Mark) {
        if !self.powered {
            return;
        }
        self.acknowledged_unsynced |=
            !self.owed.is_empty() && matches!(mark, Mark::Acknowledged { .. });
        self.log.push(Op::Mark(mark));
    }

    /// From now on every operation fails and nothing is logged. Users of the disk are dead already.
    pub fn power_off(&mut self) {
        self.powered = false;
    }

    pub fn is_powered(&self) -> bool {
        self.powered
    }

    fn add(&mut self, name: &str) -> Ino {
        let ino = self.next;
        self.next += 1;
        self.names.insert(name.to_owned(), ino);
        self.files.insert(
            ino,
            File {
                content: Content::default(),
                kind: Kind::of(name),
                sync_failures: SyncFailures(0),
                is_direct: false,
            },
        );
        ino
    }

    pub fn lookup(&self, name: &str) -> Option<Ino> {
        self.names.get(name).copied()
    }

    /// Names with this beginning.
    pub fn names_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.names.keys().filter(move |name| name.starts_with(prefix)).map(String::as_str)
    }

    /// From now on nobody uses the file but by direct I/O. After a failed sync a reader finds what
    /// is on the medium, and no page cache hides it.
    pub fn use_directly(&mut self, ino: Ino) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.is_direct = true;
        }
    }

    /// What a failed sync has left of a file.
    fn show_medium(&mut self, ino: Ino) {
        let Some(file) = self.files.get_mut(&ino).filter(|file| file.is_direct) else { return };
        let before = self.before_faults.as_ref().expect("the log tells all since then");
        let mut medium = Timeline::new(before, Reading::Weak);
        self.log.iter().for_each(|op| medium.apply(op));
        if let Some(node) = medium.nodes.remove(&ino) {
            file.content = node.durable;
        }
    }

    pub fn size(&self, ino: Ino) -> u64 {
        self.files.get(&ino).map_or(0, |file| file.content.size())
    }

    /// Fills the buffer, with zeros behind the end. Answers how many bytes were there.
    pub fn read(&mut self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.may(Operation::Read)?;
        Ok(self.files.get(&ino).map_or(0, |file| file.content.read(offset, buffer)))
    }

    pub fn create(&mut self, name: &str) -> Result<Ino, DiskError> {
        self.may(Operation::Create)?;
        if self.names.contains_key(name) {
            return Err(DiskError::Exists);
        }
        let ino = self.add(name);
        self.log.push(Op::Create { name: name.to_owned(), ino });
        Ok(ino)
    }

    pub fn write(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), DiskError> {
        match self.may(Operation::Write) {
            Ok(()) => {
                self.put(ino, offset, data);
                Ok(())
            }
            Err(DiskError::ShortWrite) => {
                self.put(ino, offset, &data[..data.len() / 2]);
                Err(DiskError::ShortWrite)
            }
            Err(error) => Err(error),
        }
    }

    fn put(&mut self, ino: Ino, offset: u64, data: &[u8]) {
        if let Some(file) = self.files.get_mut(&ino) {
            let (mut offset, mut data) = (offset, shared(data));
            if (self.sabotage, file.kind) == (Sabotage::RewrittenTail, Kind::Log)
                && offset <= file.content.size()
            {
                let mut tail = vec![0; offset.min(BLOCK_BYTES) as usize];
                offset -= tail.len() as u64;
                file.content.read(offset, &mut tail);
                data = [&tail[..], &data].concat().into();
            }
            file.content.write(offset, &data);
            self.log.push(Op::Write { ino, offset, data: Data(data) });
        }
    }

    /// A write to a file that no state after a loss of power has. It only may fail.
    pub fn write_temporary(&mut self) -> Result<(), DiskError> {
        self.may(Operation::Write)
    }

    /// Makes these writes durable, all or none, with all that was written to the file before. After
    /// an error they may be there, too.
    pub fn write_atomically(
        &mut self,
        ino: Ino,
        writes: Vec<(u64, Vec<u8>)>,
    ) -> Result<(), DiskError> {
        self.may(Operation::Write)?;
        let synced = self.may(Operation::Sync);
        if let Err(DiskError::Panic) = synced {
            return synced;
        }
        let seed = self.faults.as_ref().map_or(0, |plan| plan.seed) ^ self.log.len() as u64;
        let is_nothing_done = synced.is_err() && mix(seed).is_multiple_of(2);
        let Some(file) = self.files.get_mut(&ino).filter(|_| self.powered && !is_nothing_done)
        else {
            return synced;
        };
        for (offset, data) in &writes {
            file.content.write(*offset, data);
        }
        match (self.sabotage, file.kind) {
            (Sabotage::NoDatabaseSync | Sabotage::LateDatabaseSync, Kind::Database) => {
                if self.sabotage == Sabotage::LateDatabaseSync {
                    self.owed.push(ino);
                }
                let write = |(offset, data): (u64, Vec<u8>)| Op::Write {
                    ino,
                    offset,
                    data: Data(data.into()),
                };
                self.log.extend(writes.into_iter().map(write));
            }
            _ => {
                let shared = |(offset, data): (u64, Vec<u8>)| (offset, Data(data.into()));
                let writes = writes.into_iter().map(shared).collect();
                self.log.push(Op::Atomic { ino, writes });
            }
        }
        synced
    }

    /// The place in the log of the file's last write since its last sync. Without such a write, the
    /// end.
    fn before_last_write(&self, ino: Ino) -> usize {
        let is_of_file = |op: &Op| {
            matches!(
                op,
                Op::Write { ino: other, .. } | Op::Sync { ino: other, .. } if *other == ino
            )
        };
        let of_file = self.log.iter().rposition(is_of_file);
        of_file.filter(|&at| matches!(self.log[at], Op::Write { .. })).unwrap_or(self.log.len())
    }

    pub fn truncate(&mut self, ino: Ino, size: u64) -> Result<(), DiskError> {
        self.may(Operation::Truncate)?;
        if let Some(file) = self.files.get_mut(&ino) {
            file.content.set_size(size);
            self.log.push(Op::Truncate { ino, size });
        }
        Ok(())
    }

    pub fn sync_failures(&self, ino: Ino) -> SyncFailures {
        self.files.get(&ino).map_or(SyncFailures(0), |file| file.sync_failures)
    }

    /// `known` belongs to the open file that asks. `covers` and `forced` are as in [`Op::Sync`].
    pub fn sync(
        &mut self,
        ino: Ino,
        known: &mut SyncFailures,
        covers: Option<u32>,
        forced: bool,
    ) -> Result<(), DiskError> {
        let all = self.sync_failures(ino);
        if std::mem::replace(known, all) != all && self.tells_all {
            return Err(DiskError::Io);
        }
        match self.may(Operation::Sync) {
            Ok(()) => {}
            // The disk was not asked.
            Err(DiskError::Panic) => return Err(DiskError::Panic),
            Err(error) => {
                if let Some(file) = self.files.get_mut(&ino) {
                    file.sync_failures.0 += 1;
                    *known = file.sync_failures;
                }
                if self.powered {
                    let seed =
                        self.faults.as_ref().map_or(0, |plan| plan.seed) ^ self.log.len() as u64;
                    self.log.push(Op::SyncFailed { ino, seed });
                    self.show_medium(ino);
                }
                return if self.sabotage == Sabotage::HiddenSyncFailure {
                    Ok(())
                } else {
                    Err(error)
                };
            }
        }
        let Some(file) = self.files.get(&ino) else { return Ok(()) };
        match (self.sabotage, file.kind) {
            (Sabotage::NoFlush, Kind::Log) | (Sabotage::NoDatabaseSync, Kind::Database) => {}
            (Sabotage::LateFlush, Kind::Log) | (Sabotage::LateDatabaseSync, Kind::Database) => {
                self.owed.push(ino)
            }
            (Sabotage::FlushBeforeWrite, Kind::Log) => {
                self.log.insert(
                    self.before_last_write(ino),
                    Op::Sync { ino, covers: None, forced: false },
                );
            }
            _ => self.log.push(Op::Sync { ino, covers, forced }),
        }
        Ok(())
    }

    pub fn unlink(&mut self, name: &str) -> Result<(), DiskError> {
        self.may(Operation::Unlink)?;
        self.names.remove(name).ok_or(DiskError::NotFound)?;
        self.log.push(Op::Unlink { name: name.to_owned() });
        Ok(())
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.may(Operation::Rename)?;
        let ino = self.names.remove(from).ok_or(DiskError::NotFound)?;
        self.names.insert(to.to_owned(), ino);
        self.log.push(Op::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    pub fn sync_dir(&mut self, dir: &str) -> Result<(), DiskError> {
        self.may(Operation::SyncDir).inspect_err(|_| {
            if self.powered {
                self.log.push(Op::SyncDirFailed);
            }
        })?;
        if self.sabotage != Sabotage::NoDirectorySync {
            self.log.push(Op::SyncDir { dir: dir.to_owned() });
        }
        Ok(())
    }

    /// Fails if the operation must fail. Pays first what a sabotage owes.
    fn may(&mut self, operation: Operation) -> Result<(), DiskError> {
        if !self.powered {
            return Err(DiskError::Io);
        }
        if self.acknowledged_unsynced && operation != Operation::Read {
            self.acknowledged_unsynced = false;
            self.log.extend(self.owed.drain(..).map(|ino| Op::Sync {
                ino,
                covers: None,
                forced: false,
            }));
        }
        match self.faults.as_mut().and_then(|plan| plan.strikes(operation)) {
            None => Ok(()),
            Some(Fault::NoSpace) => Err(DiskError::NoSpace),
            Some(Fault::ShortWrite) => Err(DiskError::ShortWrite),
            Some(Fault::Io | Fault::Sync) => Err(DiskError::Io),
            Some(Fault::Panic) => Err(DiskError::Panic),
        }
    }
}

/// A copy of the bytes. Zeros that extend a file ahead are copied once for all: they are most of
/// what a recovery writes.
fn shared(data: &[u8]) -> Arc<[u8]> {
    static ZEROS: LazyLock<Arc<[u8]>> = LazyLock::new(|| Arc::from([0; 64 << 10]));
    if *data == **ZEROS { Arc::clone(&ZEROS) } else { Arc::from(data) }
}
