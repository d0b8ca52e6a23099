//! The model check of processes that share a log. The checker tries orders of steps. In some runs
//! one process dies at a place of the checker's choice, or is stopped there until all others have
//! ended. In each order these claims hold:
//!
//! - A recovery from only what was durable when a commit returned finds that commit ([`commits`]).
//! - A process that joins the users of a log, with the board's lock or without, uses it with no
//!   process that believes to be alone ([`joining`]).
//!
//! Log, board, records and recovery are the real ones. A process is a thread of the checker with
//! its own [`EagerLog`]. Disk, image and SQLite's write lock are a few lines each. A thread dies by
//! unwinding, and the "kernel" then releases its locks.

mod commits;
mod joining;

use std::io;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use oneflush_blocklog::Storage;
use shuttle::sync::Arc;

use super::*;
use crate::engine::ProcessBatching;
use crate::port::{DeviceCharacteristics, LockLevel, SyncRequest};
use crate::strategy::board::{Common, Holder, Private};
use crate::strategy::tickets::Tickets;

const PAGE_BYTES: usize = 512;
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

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

    fn alignment_bytes(&self) -> usize {
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

    fn zero(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        Disk::write(self, &vec![0; (range.end - range.start) as usize], range.start);
        Ok(())
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.with(|now, _| now.truncate(size_bytes as usize));
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

    fn tickets(&self) -> &Tickets {
        self.shared.tickets()
    }

    fn batching(&self) -> &ProcessBatching {
        self.shared.batching()
    }

    fn holder(&self) -> Option<Holder> {
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

    fn read_frames(&self) -> Result<bool, Code> {
        unreachable!("frames of the image are always there")
    }

    fn hold_frames(&self) -> Result<bool, Code> {
        unreachable!("frames of the image are always there")
    }

    fn show_frames(&self) {}

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
