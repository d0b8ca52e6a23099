//! A WAL index that another program has written over in place with an older copy: `cp backup-shm
//! app.db-shm`.
//!
//! The index says where the next frame goes. By an older one a writer would write over frames of
//! acknowledged commits. So each process remembers up to where it last saw the index, and compares
//! when it has the write lock. The WAL decides: where it still has the remembered commit, the index
//! is the older one. It is marked, the writer is told "busy", and SQLite makes the index anew from
//! the WAL.
//!
//! | index now | what is concluded |
//! |---|---|
//! | the same salt, no fewer frames | nothing |
//! | the same salt, fewer frames | the WAL is asked |
//! | a later salt | another process has begun the WAL anew |
//! | an earlier salt | the WAL is asked |
//!
//! A WAL that begins anew gets the next number as its first salt ("WAL file format").

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::connection::WalConnection;
use super::store::Store;
use crate::error::Code;
use crate::port::{Published, ShmLock, WalIndex};
use crate::role::Role;
use crate::sync::lock;
use crate::wal_file::{Chain, FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, WalFile};

/// Where this process has last seen the index. 0: nowhere. Whoever has the write lock changes it.
#[derive(Default)]
pub struct LastSeen(AtomicU64);

impl LastSeen {
    pub fn forget(&self) {
        self.0.store(0, Relaxed);
    }

    fn note(&self, at: Published) {
        self.0.store(u64::from(at.salt) << 32 | u64::from(at.frame), Relaxed);
    }

    /// A commit that this process has seen, and an index that is where this one is does not know.
    fn ahead_of(&self, now: Published) -> Option<Published> {
        let seen = self.0.load(Relaxed);
        // Two halves.
        let seen = Published { salt: (seen >> 32) as u32, frame: seen as u32 };
        let is_later = (1..=u32::MAX / 2).contains(&now.salt.wrapping_sub(seen.salt));
        let is_older = if now.salt == seen.salt { now.frame < seen.frame } else { !is_later };
        (seen.frame > 0 && is_older).then_some(seen)
    }
}

impl<S: Store> WalConnection<S> {
    /// This connection has the write lock. "Busy": the index is an older one, and is to be made
    /// anew.
    pub(super) fn check_index(&self, index: &dyn WalIndex) -> Result<(), Code> {
        if !self.is_rewound(index) {
            return Ok(());
        }
        // Once: SQLite may find less in the WAL than was looked at here.
        self.shared.last_seen.forget();
        index.make_anew();
        self.shared.checkpointer.warn(&format!(
            "oneflush: {}-shm: another program has written an older one over it. It is made anew \
                from the WAL [OF-243]",
            self.shared.path
        ));
        Err(Code::BUSY)
    }

    /// The same with the checkpoint lock.
    pub(super) fn check_index_before_checkpoint(&self, index: &dyn WalIndex) -> Result<(), Code> {
        if !self.is_rewound(index) {
            return Ok(());
        }
        index.shm_lock(ShmLock::of_writer(true))?;
        let checked = self.check_index(index);
        index.shm_lock(ShmLock::of_writer(false))?;
        checked
    }

    /// This connection is about to release the write lock.
    #[inline]
    pub(super) fn note_index(&self, index: &dyn WalIndex) {
        if let Some(at) = index.published().filter(|_| self.options.has_seatbelt()) {
            self.shared.last_seen.note(at);
        }
    }

    #[inline]
    pub(super) fn is_rewound(&self, index: &dyn WalIndex) -> bool {
        let seen = index.published().and_then(|now| self.shared.last_seen.ahead_of(now));
        seen.is_some_and(|seen| self.wal_has(seen))
    }

    /// The WAL has this commit, and did not begin anew since.
    #[cold]
    fn wal_has(&self, at: Published) -> bool {
        let wal = lock(&self.wal);
        let Some(wal) = wal.as_deref() else { return false };
        let read = |buffer: &mut [u8], offset| {
            self.store().read(self, wal, Role::Wal, buffer, offset).is_ok()
        };
        let (mut header, mut frame) = ([0; HEADER_BYTES as usize], [0; FRAME_HEADER_BYTES]);
        let begins = read(&mut header, 0).then(|| WalFile::header(&header)).flatten();
        let Some((page_bytes, Chain { salt, .. })) = begins else { return false };
        let frames = WalFile { file: wal, page_bytes };
        if salt[0] != at.salt || !read(&mut frame, frames.offset_of(at.frame)) {
            return false;
        }
        let frame = FrameHeader::decode(&frame);
        frame.chain.salt == salt && frame.page_no > 0 && frame.database_pages > 0
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn an_older_index_is_told_from_one_that_goes_on_or_of_a_wal_begun_anew() {
        let seen = LastSeen::default();
        let at = |salt, frame| Published { salt, frame };
        assert_eq!(seen.ahead_of(at(7, 0)), None, "nothing was seen");
        for salt in [7, u32::MAX] {
            seen.note(at(salt, 20));
            assert_eq!(seen.ahead_of(at(salt, 20)), None);
            assert_eq!(seen.ahead_of(at(salt, 21)), None);
            assert_eq!(seen.ahead_of(at(salt.wrapping_add(1), 0)), None, "begun anew");
            for older in [at(salt, 19), at(salt, 0), at(salt.wrapping_sub(1), 900)] {
                assert_eq!(seen.ahead_of(older), Some(at(salt, 20)), "{older:?}");
            }
        }
        seen.forget();
        assert_eq!(seen.ahead_of(at(6, 0)), None);
    }
}
