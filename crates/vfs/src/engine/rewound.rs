//! A WAL index that another program has written over in place with an older copy: `cp backup-shm
//! app.db-shm`.
//!
//! The index says where the next frame goes. By an older one a writer would write over frames of
//! acknowledged commits. So each process remembers how far it has seen the index, and compares when
//! it has the write lock. The WAL decides. An older index is marked, the writer is told "busy", and
//! SQLite makes the index anew from the WAL.
//!
//! | index now | it is older if |
//! |---|---|
//! | the same salt, no fewer frames | never |
//! | the same salt, fewer frames | the WAL still has the commit that was seen |
//! | another salt, some frames | the header of the WAL has yet another one, or there is none |
//! | another salt, no frame | the salt is not a later one, and the WAL has what was seen |
//!
//! The last row: a WAL is to begin anew and is not written yet. The salt is the next number then
//! ("WAL file format").

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::connection::WalConnection;
use super::store::Store;
use crate::error::Code;
use crate::port::{Published, WalIndex, with_write_lock};
use crate::role::Role;
use crate::sync::lock;
use crate::wal_file::{Chain, FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES, WalFile};

/// Where this process has last seen the index. 0: nowhere. Whoever has the write lock changes it.
#[derive(Default)]
pub struct LastSeen(AtomicU64);

/// What the WAL is asked about an index.
#[derive(Debug, PartialEq, Eq)]
enum Doubt {
    None,
    /// Whether it has this commit.
    Has(Published),
    /// Whether its header has this salt.
    Begins(u32),
}

impl LastSeen {
    pub fn forget(&self) {
        self.0.store(0, Relaxed);
    }

    fn get(&self) -> Published {
        let seen = self.0.load(Acquire);
        // Two halves.
        Published { salt: (seen >> 32) as u32, frame: seen as u32 }
    }

    /// What was seen before stays, if the index was written over since.
    fn note(&self, at: Published) {
        let seen = self.get();
        if at.salt != seen.salt || at.frame >= seen.frame {
            self.0.store(u64::from(at.salt) << 32 | u64::from(at.frame), Release);
        }
    }
}

impl Published {
    fn doubt(self, seen: Published) -> Doubt {
        let is_later = (1..=u32::MAX / 2).contains(&self.salt.wrapping_sub(seen.salt));
        match self.salt == seen.salt {
            _ if seen == (Published { salt: 0, frame: 0 }) => Doubt::None,
            true if self.frame >= seen.frame => Doubt::None,
            true => Doubt::Has(seen),
            false if self.frame > 0 => Doubt::Begins(self.salt),
            false if is_later || seen.frame == 0 => Doubt::None,
            false => Doubt::Has(seen),
        }
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
        // Twice: without the write lock the index may change between two of its words.
        if !self.is_rewound(index) || !self.is_rewound(index) {
            return Ok(());
        }
        with_write_lock(index, || self.check_index(index))
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
        if !self.options.has_seatbelt() {
            return false;
        }
        // First: another thread may publish a commit between the two.
        let seen = self.shared.last_seen.get();
        match index.published().map_or(Doubt::None, |now| now.doubt(seen)) {
            Doubt::None => false,
            _ if index.is_torn() => false,
            Doubt::Has(seen) => self.wal_salts_of(Some(seen.frame)) == Some(seen.salt),
            Doubt::Begins(salt) => self.wal_salts_of(None) != Some(salt),
        }
    }

    /// The first salt of the WAL. With a frame: if that one is a commit of it.
    #[cold]
    fn wal_salts_of(&self, frame: Option<u32>) -> Option<u32> {
        let wal = lock(&self.wal);
        let wal = wal.as_deref()?;
        let read = |buffer: &mut [u8], offset| {
            self.store().read(self, wal, Role::Wal, buffer, offset).ok()
        };
        let mut header = [0; HEADER_BYTES as usize];
        read(&mut header, 0)?;
        let (page_bytes, Chain { salt, .. }) = WalFile::header(&header)?;
        if let Some(frame) = frame {
            let (file, mut header) = (WalFile { file: wal, page_bytes }, [0; FRAME_HEADER_BYTES]);
            read(&mut header, file.offset_of(frame))?;
            let header = FrameHeader::decode(&header);
            let is_commit = header.page_no > 0 && header.database_pages > 0;
            return (header.chain.salt == salt && is_commit).then_some(salt[0]);
        }
        Some(salt[0])
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn an_older_index_is_told_from_one_that_goes_on_or_of_a_wal_begun_anew() {
        let seen = LastSeen::default();
        let at = |salt, frame| Published { salt, frame };
        assert_eq!(at(7, 0).doubt(seen.get()), Doubt::None, "nothing was seen");
        for salt in [7, u32::MAX] {
            seen.note(at(salt, 20));
            let doubt = |now: Published| now.doubt(seen.get());
            assert_eq!(doubt(at(salt, 20)), Doubt::None);
            assert_eq!(doubt(at(salt, 21)), Doubt::None);
            assert_eq!(doubt(at(salt.wrapping_add(1), 0)), Doubt::None, "begins anew");
            for other in [salt.wrapping_add(1), salt.wrapping_sub(1), salt ^ 0x4000_0000] {
                assert_eq!(doubt(at(other, 3)), Doubt::Begins(other));
            }
            for older in [at(salt, 19), at(salt, 0), at(salt.wrapping_sub(1), 0)] {
                assert_eq!(doubt(older), Doubt::Has(at(salt, 20)), "{older:?}");
            }
            seen.note(at(salt, 3));
            assert_eq!(seen.get(), at(salt, 20), "it was written over meanwhile");
        }
        seen.note(at(8, 0));
        assert_eq!(at(7, 20).doubt(seen.get()), Doubt::Begins(7), "the WAL was cut");
        seen.forget();
        assert_eq!(at(6, 0).doubt(seen.get()), Doubt::None);
    }
}
