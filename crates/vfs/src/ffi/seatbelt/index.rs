//! The WAL indexes that connections of this process have mapped, and their slots.

use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Weak};

use oneflush_blocklog::record_lock::{holder, record_lock_in};
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

use super::super::descriptor::open_files;
use crate::error::Code;
use crate::lock_bytes::{MAPPED, SLOTS};
use crate::own_file::OwnFile;
use crate::port::ShmLock;
use crate::sync::{Mutex, StaticMutex, lock, ranks};

const SLOTS_LEN: usize = (SLOTS.end - SLOTS.start) as usize;

/// The slots and *mapped*.
const ALL: Range<i64> = SLOTS.start..MAPPED + 1;

/// Device and inode.
pub type Id = (u64, u64);

/// So many files are parked without another look.
const PARKED: usize = 8;

/// A WAL index that connections of this process have mapped.
pub struct Index {
    /// SQLite has one mapping for all connections of the process to a database.
    pub database: Id,
    pub file: OwnFile,
    pub id: Id,
    /// The file system counts the names of files.
    counts_names: bool,
    /// Of each slot, how many connections share it; -1: one has it alone.
    slots: Mutex<[i32; SLOTS_LEN]>,
    /// The file has *mapped*. Changed under the table.
    pub is_marked: AtomicBool,
    /// The address of the slots of the connection that has all, whatever the numbers say; 0: none
    /// has. Changed under `slots`.
    alone: AtomicUsize,
}

/// The slots that a connection has, a bit each.
#[derive(Default)]
pub struct Slots {
    shared: u8,
    exclusive: u8,
}

/// A database that SQLite has open, for one connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OpenDatabase {
    /// SQLite's own. It is open as long as the connection.
    pub descriptor: RawFd,
    pub id: Id,
    /// Which SQLite of the process: the address of its VFS.
    pub library: usize,
}

/// A name, and the SQLite that is about to open it, or that closes it just now.
#[derive(Clone, PartialEq, Eq)]
pub struct Claim {
    pub name: CString,
    pub library: usize,
}

/// What the process has open for its belts.
#[derive(Default)]
pub struct Table {
    /// Each belongs to the connections that have mapped it, and goes with the last of them.
    pub indexes: Vec<Weak<Index>>,
    /// Files that may not be closed yet (invariant 3), and their devices and inodes.
    pub parked: Vec<(OwnFile, Id)>,
    /// Databases with a belt, whose descriptors may have locks of their own.
    pub databases: Vec<OpenDatabase>,
    pub claims: Vec<Claim>,
}

pub static TABLE: LazyLock<StaticMutex<Table, { ranks::BELTS }>> =
    LazyLock::new(StaticMutex::default);

impl Index {
    /// `stat`: of the file, when it was opened. It has *mapped*.
    pub fn new(database: Id, file: OwnFile, stat: &Stat) -> Index {
        Index {
            database,
            file,
            id: (stat.st_dev, stat.st_ino),
            counts_names: stat.st_nlink > 0,
            slots: Mutex::new([0; SLOTS_LEN]),
            is_marked: AtomicBool::new(true),
            alone: AtomicUsize::new(0),
        }
    }

    /// The file was removed while it was in use.
    pub fn is_removed(&self) -> bool {
        self.counts_names && fstat(&self.file).is_ok_and(|file| file.st_nlink == 0)
    }

    /// Changes the slots that a connection has.
    pub fn change(&self, had: &mut Slots, call: ShmLock) -> Result<(), Code> {
        let mask = (((1_u16 << call.count) - 1) << call.first) as u8;
        let alone = self.alone.load(Relaxed);
        if call.acquire && alone != 0 && alone != address(had) {
            return Err(Code::BUSY);
        }
        match (call.acquire, call.exclusive) {
            (false, _) => self.release(had, mask),
            (true, true) => self.take_alone(had, call, mask),
            (true, false) => self.share(had, call, mask),
        }
    }

    /// Takes all slots for a connection, if no other one of this process has any.
    pub fn be_alone(&self, had: &Slots) -> Result<(), Code> {
        let slots = lock(&self.slots);
        let own = had.shared | had.exclusive;
        let is_own = |(slot, &users): (usize, &i32)| users.abs() == i32::from(own >> slot & 1);
        if !slots.iter().enumerate().all(is_own) {
            return Err(Code::BUSY);
        }
        let alone = self.alone.load(Relaxed);
        if alone != 0 && alone != address(had) {
            return Err(Code::BUSY);
        }
        self.set(libc::F_WRLCK, 0..SLOTS_LEN)?;
        self.alone.store(address(had), Relaxed);
        Ok(())
    }

    /// Goes back to what the connections have, if that one is alone.
    pub fn end_alone(&self, had: &Slots) {
        let slots = lock(&self.slots);
        if self.alone.compare_exchange(address(had), 0, Relaxed, Relaxed).is_ok() {
            for (slot, &users) in slots.iter().enumerate() {
                let kind = match users {
                    ..0 => libc::F_WRLCK,
                    0 => libc::F_UNLCK,
                    1.. => libc::F_RDLCK,
                };
                // What is left is less than what there is.
                let _ = self.set(kind, slot..slot + 1);
            }
        }
    }

    fn set(&self, kind: libc::c_int, slots: Range<usize>) -> Result<(), Code> {
        if self.alone.load(Relaxed) != 0 {
            return Ok(());
        }
        let bytes = SLOTS.start + slots.start as i64..SLOTS.start + slots.end as i64;
        match record_lock_in(&self.file, libc::F_OFD_SETLK, kind, bytes) {
            Ok(_) => Ok(()),
            Err(Errno::AGAIN | Errno::ACCESS | Errno::NOLCK) => Err(Code::BUSY),
            Err(_) => Err(Code::IOERR_LOCK),
        }
    }

    /// All slots of the call or none of them.
    fn take_alone(&self, had: &mut Slots, call: ShmLock, mask: u8) -> Result<(), Code> {
        let asked = usize::from(call.first)..usize::from(call.first + call.count);
        let mut slots = lock(&self.slots);
        if slots[asked.clone()].iter().any(|&users| users != 0) {
            return Err(Code::BUSY);
        }
        self.set(libc::F_WRLCK, asked.clone())?;
        slots[asked].fill(-1);
        had.exclusive |= mask;
        Ok(())
    }

    fn share(&self, had: &mut Slots, call: ShmLock, mask: u8) -> Result<(), Code> {
        if had.shared & mask != 0 {
            return Ok(());
        }
        let slot = usize::from(call.first);
        let mut slots = lock(&self.slots);
        match slots[slot] {
            ..0 => return Err(Code::BUSY),
            0 => self.set(libc::F_RDLCK, slot..slot + 1)?,
            1.. => {}
        }
        slots[slot] += 1;
        had.shared |= mask;
        Ok(())
    }

    /// Releases what the connection has of these slots.
    pub fn release(&self, had: &mut Slots, mask: u8) -> Result<(), Code> {
        let mut rest = (had.shared | had.exclusive) & mask;
        if rest == 0 {
            return Ok(());
        }
        had.shared &= !mask;
        had.exclusive &= !mask;
        let mut slots = lock(&self.slots);
        let mut left = rest;
        while left != 0 {
            let users = &mut slots[left.trailing_zeros() as usize];
            let slot = left & left.wrapping_neg();
            if *users > 1 {
                rest &= !slot;
            }
            *users = (*users - 1).max(0);
            left &= !slot;
        }
        // Slots that lie together are released together.
        let mut released = Ok(());
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let count = (rest >> first).trailing_ones() as usize;
            rest &= !((((1_u16 << count) - 1) << first) as u8);
            released = released.and(self.set(libc::F_UNLCK, first..first + count));
        }
        released
    }
}

impl Table {
    pub fn of(&self, database: Id) -> Option<Arc<Index>> {
        self.indexes.iter().filter_map(Weak::upgrade).find(|index| index.database == database)
    }

    pub fn leave(&mut self, index: Arc<Index>) {
        let Some(Index { file, id, .. }) = Arc::into_inner(index) else { return };
        self.indexes.retain(|index| index.strong_count() > 0);
        self.parked.retain(|(file, _)| has_posix_lock(file) != Some(false));
        if self.parked.len() > PARKED {
            self.parked.retain(|(file, id)| has_another_descriptor(file, *id));
        }
        self.retire(file, id);
    }

    /// Gives up a file: closes it, or parks it (invariant 3).
    pub fn retire(&mut self, file: OwnFile, id: Id) {
        if has_posix_lock(&file) != Some(false) {
            let _ = record_lock_in(&file, libc::F_OFD_SETLK, libc::F_UNLCK, ALL);
            self.parked.push((file, id));
        }
    }
}

fn address(slots: &Slots) -> usize {
    std::ptr::from_ref(slots).addr()
}

/// This process has a POSIX lock on the index. `None`: the lock of another is in the way of the
/// answer.
pub fn has_posix_lock(file: &OwnFile) -> Option<bool> {
    match holder(file, ALL) {
        Ok(None) => Some(false),
        Ok(Some(process)) if u32::try_from(process) == Ok(std::process::id()) => Some(true),
        Ok(Some(_)) | Err(_) => None,
    }
}

/// This process has the file open by another descriptor. Without one it has no POSIX lock on it.
pub fn has_another_descriptor(file: &OwnFile, id: Id) -> bool {
    let own = file.as_raw_fd();
    open_files().map_or(true, |mut files| files.any(|(number, one)| one == id && number != own))
}
