//! A file of the VFS below, by its raw `sqlite3_file`.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use libsqlite3_sys as sqlite;
use oneflush_blocklog::record_lock::{record_lock_at, record_lock_in};
use rustix::fs::fstat;
use rustix::io::Errno;

use super::apart::Apart;
use super::carried::arrived;
use super::seatbelt::{Belt, OpenDatabase, look_at};
use super::wal_reset::{Index, WalReset};
use crate::canary::Canary;
use crate::error::Code;
use crate::ground::WalMode;
use crate::lock_bytes::{SAVES, SHARED_BUT_IN_USE, TURN_TO_CLOSE};
use crate::port::{
    Below, Copied, DeviceCharacteristics, LockLevel, Published, ShmLock, Stamp, SyncRequest, Tail,
    WalIndex,
};

/// "WAL-Index File Format": the size of the first region, and the place of `mxFrame` in the first
/// copy of the header. Its numbers are in the byte order of the machine.
const WAL_INDEX_REGION_BYTES: c_int = 32 << 10;
const MX_FRAME: usize = 16;
/// The places of `szPage` with the two bytes before it, and of `aFrameCksum`, in the same copy.
const PAGE_SIZE: usize = 12;
const CHECKSUM: usize = 24;
const HEADER_COPY_BYTES: usize = 48;
/// The place of `aSalt` in the same copy.
const SALTS: usize = 32;
/// The place of `nBackfill`, behind the two copies of the header.
const N_BACKFILL: usize = 96;
/// The place of `nBackfillAttempted`, behind the read marks and the lock bytes.
const N_BACKFILL_ATTEMPTED: usize = 128;

/// The open file that the VFS below made inside our `sqlite3_file`. It is used only between `xOpen`
/// and `xClose` (invariant 4), and by one thread at a time, as SQLite promises for every file.
#[derive(Clone)]
pub struct BelowFile {
    file: *mut sqlite::sqlite3_file,
    /// Of a database file or a WAL of the "unix" VFS.
    descriptor: Option<RawFd>,
    apart: Option<Apart>,
    /// SQLite allocates this structure for each file, so what few files have is elsewhere.
    seatbelt: Option<Arc<Seatbelt>>,
}

/// What a database or its WAL has with `seatbelt=on`.
#[derive(Default)]
struct Seatbelt {
    /// Device and inode.
    id: Option<(u64, u64)>,
    /// The name that is to lead to the file.
    name: Option<CString>,
    /// Of a database, where its descriptor is known.
    belt: Option<Belt>,
    /// Of a database.
    wal_reset: Option<WalReset>,
    wal_mode: WalMode,
    /// The first region of the WAL index, while this connection has it mapped.
    region: AtomicPtr<c_void>,
}

// SAFETY: a `sqlite3_file` may move between threads; SQLite serialises the calls on one file by its
// connection's mutex.
unsafe impl Send for BelowFile {}
// SAFETY: as above; `&BelowFile` gives no access beyond those calls.
unsafe impl Sync for BelowFile {}

/// Calls a method of the file below that every version of `sqlite3_io_methods` has.
macro_rules! call {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file = $file.file;
        // SAFETY: the file is open, so its methods are there (contract of xOpen), and the arguments
        // keep the method's contract.
        unsafe {
            match (*(*file).pMethods).$method {
                Some(method) => method(file $(, $argument)*),
                None => sqlite::SQLITE_IOERR,
            }
        }
    }};
}

/// Offsets and sizes come from SQLite as `i64`, or are derived from such. A larger one would be a
/// full disk anyway.
fn to_i64(bytes: u64) -> Result<i64, Code> {
    i64::try_from(bytes).map_err(|_| Code(sqlite::SQLITE_FULL))
}

fn to_int(len: usize) -> Result<c_int, Code> {
    c_int::try_from(len).map_err(|_| Code(sqlite::SQLITE_TOOBIG))
}

impl BelowFile {
    /// # Safety
    /// `file` was opened by the VFS below, successfully, and is not used after `xClose`.
    pub unsafe fn new(file: *mut sqlite::sqlite3_file) -> BelowFile {
        BelowFile { file, descriptor: None, apart: None, seatbelt: None }
    }

    /// The same file, whose descriptor is known. SQLite locks a database.
    pub fn with_descriptor(self, descriptor: Option<RawFd>, is_database: bool) -> BelowFile {
        let known = BelowFile { descriptor, ..self };
        if !is_database {
            return known;
        }
        let Some(id) = known.id() else { return known };
        let seatbelt = Arc::new(Seatbelt { id: Some(id), ..Seatbelt::default() });
        BelowFile { apart: Some(Apart::of(id)), seatbelt: Some(seatbelt), ..known }
    }

    fn id(&self) -> Option<(u64, u64)> {
        fstat(self.borrowed()?).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// The same file, whose name is to lead to it as long as it is open.
    pub fn with_name(self, name: &CStr) -> BelowFile {
        let seatbelt = Seatbelt { id: self.id(), name: Some(name.into()), ..Seatbelt::default() };
        BelowFile { seatbelt: Some(Arc::new(seatbelt)), ..self }
    }

    /// The same for a main database file. It gets locks of the seatbelt too, if SQLite's VFS, which
    /// `library` is the address of, locks as POSIX has it.
    pub fn with_seatbelt(
        self,
        name: &CStr,
        canary: &Arc<Canary>,
        library: Option<usize>,
        wal_mode: WalMode,
    ) -> BelowFile {
        let id = self.seatbelt.as_ref().and_then(|seatbelt| seatbelt.id);
        let known = self.descriptor.zip(id).zip(library);
        let belt = known.map(|((descriptor, id), library)| {
            Belt::new(OpenDatabase { descriptor, id, library }, name, Arc::clone(canary))
        });
        let (name, wal_reset) = (Some(name.into()), Some(WalReset::default()));
        let region = AtomicPtr::default();
        let seatbelt = Seatbelt { id, name, belt, wal_reset, wal_mode, region };
        BelowFile { seatbelt: Some(Arc::new(seatbelt)), ..self }
    }

    fn belt(&self) -> Option<&Belt> {
        self.seatbelt.as_ref()?.belt.as_ref()
    }

    /// The version of the methods of the file below, and whether it may have a WAL index.
    pub fn offers(&self) -> (c_int, bool) {
        let methods = self.methods();
        let refuses_wal =
            self.seatbelt.as_ref().is_some_and(|seatbelt| seatbelt.wal_mode == WalMode::Refused);
        let has_index = methods.iVersion >= 2 && methods.xShmMap.is_some() && !refuses_wal;
        (methods.iVersion, has_index)
    }

    /// The file for a connection that is made anew. SQLite may have mapped the index already.
    pub fn again(&self, level: LockLevel, has_index: bool, canary: &Arc<Canary>) -> BelowFile {
        let anew = |of: &Arc<Seatbelt>| {
            Arc::new(Seatbelt {
                id: of.id,
                name: of.name.clone(),
                belt: of.belt.as_ref().map(|belt| belt.again(Arc::clone(canary))),
                wal_reset: of.wal_reset.as_ref().map(|_| WalReset::default()),
                wal_mode: of.wal_mode,
                region: AtomicPtr::default(),
            })
        };
        let again = BelowFile { seatbelt: self.seatbelt.as_ref().map(anew), ..self.clone() };
        if let Some(belt) = again.belt()
            && level >= LockLevel::Shared
        {
            let _ = belt.share(|| Ok(()));
        }
        if has_index {
            again.map_again();
        }
        again
    }

    /// SQLite keeps the index mapped, and all locks of the seatbelt go.
    pub fn takes_belt_off(&self) {
        if let Some(belt) = self.belt() {
            belt.comes_off();
        }
    }

    /// Takes the locks of the seatbelt where SQLite has mapped the index before.
    pub fn map_again(&self) {
        let map = |at: &mut *mut c_void| call!(self, xShmMap, 0, WAL_INDEX_REGION_BYTES, 0, at);
        let _ = self.map_index(0, &mut std::ptr::null_mut(), map);
    }

    /// Maps a region of the WAL index by `map`, which says where it is.
    pub fn map_index(
        &self,
        region: c_int,
        at: &mut *mut c_void,
        map: impl FnOnce(&mut *mut c_void) -> c_int,
    ) -> Result<(), Code> {
        let map = || arrived(map(at));
        match self.belt() {
            Some(belt) => belt.map(map)?,
            None => map()?,
        }
        if let Some(seatbelt) = self.seatbelt.as_ref().filter(|_| region == 0) {
            seatbelt.region.store(*at, Ordering::Relaxed);
        }
        Ok(())
    }

    pub fn unmap_index(&self, unmap: impl FnOnce() -> c_int) -> Result<(), Code> {
        if let Some(seatbelt) = &self.seatbelt {
            seatbelt.region.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        let unmap = || arrived(unmap());
        match self.belt() {
            Some(belt) => belt.unmap(unmap),
            None => unmap(),
        }
    }

    /// What the seatbelt has to tell in SQLite's error log, once.
    #[inline]
    pub fn take_message(&self) -> Option<String> {
        self.belt()?.take_message()
    }

    /// Another process reads by the WAL index. `None`: SQLite is to answer that.
    pub fn has_reader_elsewhere(&self) -> Option<bool> {
        self.belt()?.has_reader_elsewhere()
    }

    fn borrowed(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: SQLite has the descriptor open as long as the file is.
        self.descriptor.map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// The methods of the file below.
    pub fn methods(&self) -> &sqlite::sqlite3_io_methods {
        // SAFETY: set by a successful xOpen and valid while the file is open.
        unsafe { &*(*self.file).pMethods }
    }

    pub fn raw(&self) -> *mut sqlite::sqlite3_file {
        self.file
    }

    /// Numbers in the first region of the WAL index. None if the region cannot be had.
    fn wal_index<const N: usize>(&self, at: [usize; N]) -> Option<[&AtomicU32; N]> {
        let mut region = std::ptr::null_mut();
        match &self.seatbelt {
            // Not asked for: SQLite's VFS would make an index where there is none.
            Some(seatbelt) => region = seatbelt.region.load(Ordering::Relaxed),
            None => {
                arrived(call!(self, xShmMap, 0, WAL_INDEX_REGION_BYTES, 0, &mut region)).ok()?
            }
        }
        if region.is_null() {
            return None;
        }
        // SAFETY: the region stays mapped while the WAL index is open. It is longer than the place,
        // which is aligned. Others write there too, hence the atomic.
        Some(at.map(|at| unsafe { AtomicU32::from_ptr(region.cast::<u8>().add(at).cast()) }))
    }

    /// What these numbers are.
    fn in_wal_index<const N: usize>(&self, at: [usize; N]) -> Option<[u32; N]> {
        Some(self.wal_index(at)?.map(|word| word.load(Ordering::SeqCst)))
    }

    pub fn close(&self) -> c_int {
        let name = self.seatbelt.as_ref().and_then(|seatbelt| seatbelt.name.as_deref());
        // The close takes away what another SQLite of this process has locked by then.
        let _claim = name.zip(self.belt()).and_then(|(name, belt)| belt.claim(name));
        // SQLite may use the descriptor again.
        if let Some(belt) = self.belt() {
            belt.closing();
        }
        let _apart = self.apart.map(Apart::to_close);
        call!(self, xClose)
    }

    pub fn file_control(&self, op: c_int, argument: *mut c_void) -> c_int {
        call!(self, xFileControl, op, argument)
    }
}

impl Below for BelowFile {
    #[inline]
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Code> {
        let (len, offset) = (to_int(buffer.len())?, to_i64(offset)?);
        arrived(call!(self, xRead, buffer.as_mut_ptr().cast(), len, offset))
    }

    #[inline]
    fn write(&self, data: &[u8], offset: u64) -> Result<(), Code> {
        let (len, offset) = (to_int(data.len())?, to_i64(offset)?);
        arrived(call!(self, xWrite, data.as_ptr().cast(), len, offset))
    }

    #[inline]
    fn truncate(&self, size_bytes: u64) -> Result<(), Code> {
        arrived(call!(self, xTruncate, to_i64(size_bytes)?))
    }

    #[inline]
    fn sync(&self, request: SyncRequest) -> Result<(), Code> {
        let kind = if request.full { sqlite::SQLITE_SYNC_FULL } else { sqlite::SQLITE_SYNC_NORMAL };
        let data_only = if request.data_only { sqlite::SQLITE_SYNC_DATAONLY } else { 0 };
        arrived(call!(self, xSync, kind | data_only))
    }

    #[inline]
    fn size_bytes(&self) -> Result<u64, Code> {
        let mut size_bytes = 0;
        arrived(call!(self, xFileSize, &mut size_bytes))?;
        u64::try_from(size_bytes).map_err(|_| Code(sqlite::SQLITE_IOERR_FSTAT))
    }

    #[inline]
    fn lock(&self, level: LockLevel) -> Result<(), Code> {
        let ask = || {
            let _apart = self.apart.filter(|_| level == LockLevel::Shared).map(Apart::to_lock);
            arrived(call!(self, xLock, level as c_int))
        };
        let Some(belt) = self.belt() else { return ask() };
        match level {
            LockLevel::Shared => belt.share(ask),
            LockLevel::Reserved => {
                ask()?;
                belt.may_write().inspect_err(|_| _ = self.unlock(LockLevel::Shared))
            }
            LockLevel::Exclusive => belt.lock_exclusively(ask, || {
                let _ = arrived(call!(self, xUnlock, LockLevel::Shared as c_int));
            }),
            _ => ask(),
        }
    }

    #[inline]
    fn unlock(&self, level: LockLevel) -> Result<(), Code> {
        let unlock = || arrived(call!(self, xUnlock, level as c_int));
        match self.belt() {
            Some(belt) if level == LockLevel::None => belt.end_sharing(unlock),
            Some(belt) => {
                let answer = unlock();
                belt.has_shared_lock();
                answer
            }
            None => unlock(),
        }
    }

    #[inline]
    fn sector_size(&self) -> i32 {
        match self.methods().xSectorSize {
            // SAFETY: the file is open.
            Some(method) => unsafe { method(self.file) },
            None => 0,
        }
    }

    #[inline]
    fn device_characteristics(&self) -> DeviceCharacteristics {
        DeviceCharacteristics(match self.methods().xDeviceCharacteristics {
            // SAFETY: the file is open.
            Some(method) => unsafe { method(self.file) },
            None => 0,
        })
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    fn is_first_to_save(&self) -> Option<bool> {
        let file = self.borrowed()?;
        match record_lock_at(file, libc::F_OFD_SETLK, libc::F_WRLCK, SAVES) {
            Err(Errno::AGAIN | Errno::ACCESS) => Some(false),
            Err(Errno::BADF) => None,
            // Without such locks each process saves a copy.
            Ok(_) | Err(_) => Some(true),
        }
    }

    fn may_save_again(&self) {
        if let Some(file) = self.borrowed() {
            // What cannot be released is released by the close.
            let _ = record_lock_at(file, libc::F_OFD_SETLK, libc::F_UNLCK, SAVES);
        }
    }

    fn owner(&self) -> Option<(u32, u32, u32)> {
        let stat = fstat(self.borrowed()?).ok()?;
        Some((stat.st_mode & 0o777, stat.st_uid, stat.st_gid))
    }

    fn look_at_name(&self) -> Result<Option<Stamp>, String> {
        let Some(seatbelt) = self.seatbelt.as_deref() else { return Ok(None) };
        let known = seatbelt.name.as_deref().zip(self.borrowed()).zip(seatbelt.id);
        let stamp = known.map_or(Ok(None), |((name, open), id)| look_at(name, open, id));
        let looked =
            stamp.and_then(|stamp| self.belt().map_or(Ok(()), Belt::look_at_index).map(|()| stamp));
        match looked {
            Ok(stamp) => Ok(stamp.filter(|_| seatbelt.wal_mode == WalMode::Works)),
            Err(name) => Err(name.to_string_lossy().into_owned()),
        }
    }

    /// The lock belongs to this connection's open file, so connections of one process exclude each
    /// other as well. It ends with the process at the latest.
    fn turn_to_close(&self, take: bool) -> Result<(), Code> {
        let Some(file) = self.borrowed() else { return Ok(()) };
        let kind = if take { libc::F_WRLCK } else { libc::F_UNLCK };
        match record_lock_at(file, libc::F_OFD_SETLK, kind, TURN_TO_CLOSE) {
            Err(Errno::AGAIN | Errno::ACCESS) => Err(Code::BUSY),
            // Without such locks, or without the right to write, there are no turns.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Asks as the process, so the locks of its own connections are not met.
    fn is_shared_by_others(&self) -> bool {
        let met = |file| record_lock_in(file, libc::F_GETLK, libc::F_WRLCK, SHARED_BUT_IN_USE);
        self.borrowed().is_some_and(|file| met(file).is_ok_and(|kind| kind != libc::F_UNLCK))
    }
}

impl Index for BelowFile {
    fn wal_salts(&self) -> Option<[u32; 2]> {
        self.in_wal_index([SALTS, SALTS + 4])
    }

    fn says_too_much_is_copied(&self) -> bool {
        self.in_wal_index([N_BACKFILL, MX_FRAME]).is_some_and(|[copied, frames]| copied > frames)
    }

    fn lock_slot(&self, lock: ShmLock) -> Result<(), Code> {
        let action = if lock.acquire { sqlite::SQLITE_SHM_LOCK } else { sqlite::SQLITE_SHM_UNLOCK };
        let kind =
            if lock.exclusive { sqlite::SQLITE_SHM_EXCLUSIVE } else { sqlite::SQLITE_SHM_SHARED };
        let (first, count) = (c_int::from(lock.first), c_int::from(lock.count));
        let below = || arrived(call!(self, xShmLock, first, count, action | kind));
        match self.belt() {
            Some(belt) => belt.shm_lock(lock, below),
            None => below(),
        }
    }
}

impl WalIndex for BelowFile {
    #[inline]
    fn shm_lock(&self, lock: ShmLock) -> Result<(), Code> {
        let wal_reset = self.seatbelt.as_ref().and_then(|seatbelt| seatbelt.wal_reset.as_ref());
        let Some(wal_reset) = wal_reset.filter(|_| lock.exclusive) else {
            return self.lock_slot(lock);
        };
        if !lock.acquire {
            wal_reset.releasing(lock);
            return self.lock_slot(lock);
        }
        self.lock_slot(lock)?;
        wal_reset.taken(lock, self).inspect_err(|_| {
            wal_reset.releasing(lock);
            let _ = self.lock_slot(ShmLock { acquire: false, ..lock });
        })
    }

    fn published_frames(&self) -> Option<u32> {
        self.in_wal_index([MX_FRAME]).map(|[frames]| frames)
    }

    fn tail(&self) -> Option<Tail> {
        // Both copies of the header, and of each the page size, `mxFrame`, `aFrameCksum`, `aSalt`.
        let [one, other] = [0, HEADER_COPY_BYTES].map(|copy| {
            let at = [PAGE_SIZE, MX_FRAME, CHECKSUM, CHECKSUM + 4, SALTS, SALTS + 4];
            self.in_wal_index(at.map(|at| copy + at))
        });
        let [size, frame, checksum @ .., salt, salt_2] = one.filter(|_| one == other)?;
        // A 16-bit number behind two bytes; 1 stands for 65536.
        let [_, _, low, high] = size.to_ne_bytes();
        let page_bytes = match u16::from_ne_bytes([low, high]) {
            1 => 1 << 16,
            bytes => u32::from(bytes),
        };
        // The salts are bytes of the WAL.
        let salt = [salt, salt_2].map(|word| u32::from_be_bytes(word.to_ne_bytes()));
        (frame > 0 && size != 0).then_some(Tail { frame, page_bytes, salt, checksum })
    }

    #[inline]
    fn published(&self) -> Option<Published> {
        let [size, frame, salt] = self.in_wal_index([PAGE_SIZE, MX_FRAME, SALTS])?;
        // The salts are bytes of the WAL.
        let salt = u32::from_be_bytes(salt.to_ne_bytes());
        (size != 0).then_some(Published { salt, frame })
    }

    fn is_torn(&self) -> bool {
        let [one, other] = [0, HEADER_COPY_BYTES]
            .map(|copy| self.in_wal_index([PAGE_SIZE, MX_FRAME, SALTS].map(|at| copy + at)));
        one != other
    }

    fn make_anew(&self) {
        // `isInit` is in this word of both copies of the header.
        for word in self.wal_index([PAGE_SIZE, HEADER_COPY_BYTES + PAGE_SIZE]).iter().flatten() {
            word.store(0, Ordering::SeqCst);
        }
    }

    fn copied(&self) -> Option<Copied> {
        let [salt, salt_2, published, frames, attempted] =
            self.in_wal_index([SALTS, SALTS + 4, MX_FRAME, N_BACKFILL, N_BACKFILL_ATTEMPTED])?;
        // A writer that begins the WAL anew sets the header before the rest.
        (frames <= published).then_some(Copied { salt: [salt, salt_2], frames, attempted })
    }

    fn forget_backfill(&self) {
        if let Some([frames]) = self.wal_index([N_BACKFILL]) {
            frames.store(0, Ordering::SeqCst);
        }
    }

    fn believe_backfill(&self, frames: u32) {
        if let Some([backfill]) = self.wal_index([N_BACKFILL]) {
            backfill.fetch_max(frames, Ordering::SeqCst);
        }
    }
}

const _: () = {
    assert!(LockLevel::None as c_int == sqlite::SQLITE_LOCK_NONE);
    assert!(LockLevel::Shared as c_int == sqlite::SQLITE_LOCK_SHARED);
    assert!(LockLevel::Reserved as c_int == sqlite::SQLITE_LOCK_RESERVED);
    assert!(LockLevel::Pending as c_int == sqlite::SQLITE_LOCK_PENDING);
    assert!(LockLevel::Exclusive as c_int == sqlite::SQLITE_LOCK_EXCLUSIVE);
};
