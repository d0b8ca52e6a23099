//! Database files that another program writes over in place: `cp backup.db app.db`, `rsync
//! --inplace`, `dd`.
//!
//! The name and the number of such a file stay. In WAL mode only checkpoints write to a database
//! file, and the WAL index says how far they have come. If the file's time or size changes while no
//! checkpoint gets further, something else may have written there, or only `touch`ed it. Then the
//! content tells: the file must have the pages that were copied from the WAL, and its header.
//! Pages of the WAL and pages of another file would make one database.
//!
//! | [`Copied`] before and after the look at the file | what is concluded |
//! |---|---|
//! | different, of no WAL, or of a checkpoint that has not ended | nothing: looks begin anew |
//! | as at the last look | the file must be as at the last look, or have its content |
//! | another, and at rest | this look is the last one |
//!
//! SQLite sets `nBackfillAttempted` before a checkpoint writes (3.11 and newer), so a checkpoint
//! that was killed counts as one that has not ended. A last close copies without a lock of the
//! index, so a look does not outlive the process's last WAL.

use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::FxHashSet;

use super::connection::WalConnection;
use super::harm::Harm;
use super::store::Store;
use crate::error::{Code, Error};
use crate::port::{Below, Copied, MainFile, Stamp};
use crate::role::Role;
use crate::sync::lock;
use crate::wal_file::{FRAME_HEADER_BYTES, FrameHeader, WalFile};

/// "Database File Format", section 1.3.
const DATABASE_HEADER_BYTES: usize = 100;
/// So many frames that were copied are compared, the newest ones, and as many may be behind them.
const FRAMES_MAX: u32 = 1000;

type DatabaseHeader = [u8; DATABASE_HEADER_BYTES];

/// A database file at the last look, while no checkpoint was under way.
#[derive(Default)]
pub struct Contents(Option<(Stamp, Copied, DatabaseHeader)>);

/// What a look has found.
#[derive(Debug, PartialEq, Eq)]
enum Looked {
    /// All is as it was.
    Same,
    /// There is nothing to compare with.
    First,
    /// A checkpoint got further.
    Further,
    /// The stamp is another. This was the header.
    Changed(DatabaseHeader),
}

impl Contents {
    fn look(&self, stamp: Stamp, copied: Copied) -> Looked {
        match &self.0 {
            None => Looked::First,
            Some((was, before, _)) if (*was, *before) == (stamp, copied) => Looked::Same,
            Some((_, before, header)) if *before == copied => Looked::Changed(*header),
            Some(_) => Looked::Further,
        }
    }

    fn note(&mut self, stamp: Stamp, copied: Copied, header: DatabaseHeader) {
        self.0 = Some((stamp, copied, header));
    }

    pub fn forget(&mut self) {
        self.0 = None;
    }
}

impl Copied {
    /// No checkpoint is under way, or was killed. A WAL without a header has no salts, and is like
    /// any other without one.
    fn is_at_rest(&self) -> bool {
        self.salt != [0, 0] && self.frames == self.attempted
    }
}

/// What a database file has of what it must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    All,
    /// Nothing that could be compared was different, and there was too little.
    Unknown,
    Another,
}

impl<S: Store> WalConnection<S> {
    /// Looks where the name of the database file leads, and whether it has its content.
    pub(super) fn look_at_main(
        &self,
        main: &dyn MainFile,
        wal: Option<&dyn Below>,
    ) -> Result<(), Harm> {
        // Who does not share the index must not ask for it: that would make one.
        let copied = || self.shares_index.load(Relaxed).then(|| main.copied()).flatten();
        let before = copied();
        let stamp = main.look_at_name().map_err(Harm::NameLost)?;
        let (Some(stamp), Some(before)) = (stamp, before) else { return Ok(()) };
        let looked = lock(&self.shared.contents).look(stamp, before);
        if looked == Looked::Same {
            return Ok(());
        }
        if !before.is_at_rest() || copied() != Some(before) {
            lock(&self.shared.contents).forget();
            return Ok(());
        }
        let now = self.header_of(main);
        let content = match (looked, &now) {
            // Whether the place is one whose times can be relied on, only others have looked.
            (Looked::First, _) if self.is_checkpointer() => return Ok(()),
            (Looked::Changed(_), None) => Content::Unknown,
            // No checkpoint came since, so page 1 is as it was.
            (Looked::Changed(was), Some(now)) if was != *now => Content::Another,
            (Looked::Changed(_), Some(_)) => self.compare_pages(main, wal, before),
            _ => Content::All,
        };
        // A checkpoint that began meanwhile explains what was seen.
        match now.filter(|_| copied() == Some(before)) {
            None => lock(&self.shared.contents).forget(),
            Some(_) if content == Content::Another => return Err(Harm::WrittenOver("it")),
            Some(header) => lock(&self.shared.contents).note(stamp, before, header),
        }
        if content == Content::Unknown {
            self.shared.checkpointer.warn(&format!(
                "oneflush: {}: its time or size has changed, and no checkpoint did that. If \
                    another program has written over it, run PRAGMA integrity_check [OF-152]",
                self.shared.path
            ));
        }
        Ok(())
    }

    /// The header of the database file. What a cut file lacks is zeros. None: it cannot be read.
    fn header_of(&self, main: &dyn MainFile) -> Option<DatabaseHeader> {
        let mut header = [0; DATABASE_HEADER_BYTES];
        match self.store().read(self, main, Role::Db, &mut header, 0) {
            Ok(()) | Err(Error::Below(Code::SHORT_READ)) => Some(header),
            Err(_) => None,
        }
    }

    /// Compares the database file with the pages that were copied to it from the WAL.
    fn compare_pages(
        &self,
        main: &dyn MainFile,
        wal: Option<&dyn Below>,
        copied: Copied,
    ) -> Content {
        let (Ok(size_bytes), Some(wal), Some(tail)) = (main.size_bytes(), wal, main.tail()) else {
            return Content::Unknown;
        };
        if tail.frame.saturating_sub(copied.frames) > FRAMES_MAX {
            return Content::Unknown;
        }
        let read = |file: &dyn Below, role, buffer: &mut [u8], offset| {
            self.store().read(self, file, role, buffer, offset).is_ok()
        };
        let frames = WalFile { file: wal, page_bytes: tail.page_bytes as usize };
        let [mut in_wal, mut in_file] = [(); 2].map(|()| vec![0; frames.page_bytes]);
        let (mut seen, mut content) = (FxHashSet::default(), Content::Unknown);
        let first = copied.frames.saturating_sub(FRAMES_MAX) + 1;
        for frame in (first..=tail.frame).rev() {
            let mut header = [0; FRAME_HEADER_BYTES];
            if !read(wal, Role::Wal, &mut header, frames.offset_of(frame)) {
                return Content::Unknown;
            }
            let page_no = FrameHeader::decode(&header).page_no;
            let end = u64::from(page_no) * u64::from(tail.page_bytes);
            // A checkpoint leaves out pages that have a newer frame behind what it may copy. A
            // later commit may have cut the page off.
            let is_newest = seen.insert(page_no) && frame <= copied.frames;
            if !is_newest || page_no == 0 || end > size_bytes {
                continue;
            }
            let in_frame = frames.offset_of(frame) + FRAME_HEADER_BYTES as u64;
            if !read(wal, Role::Wal, &mut in_wal, in_frame)
                || !read(main, Role::Db, &mut in_file, end - u64::from(tail.page_bytes))
            {
                return Content::Unknown;
            }
            if in_wal != in_file {
                return Content::Another;
            }
            content = Content::All;
        }
        content
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const AT: Stamp = Stamp { size_bytes: 8192, modified: (100, 5) };
    const REST: Copied = Copied { salt: [1, 2], frames: 7, attempted: 7 };
    const HEADER: DatabaseHeader = [7; DATABASE_HEADER_BYTES];

    #[test]
    fn a_change_without_a_checkpoint_is_told_from_one_with() {
        let mut contents = Contents::default();
        assert_eq!(contents.look(AT, REST), Looked::First);
        contents.note(AT, REST, HEADER);
        assert_eq!(contents.look(AT, REST), Looked::Same);
        for other in [Stamp { modified: (99, 0), ..AT }, Stamp { size_bytes: 4096, ..AT }] {
            assert_eq!(contents.look(other, REST), Looked::Changed(HEADER), "{other:?}");
        }
        let anew = Copied { salt: [2, 9], frames: 0, attempted: 0 };
        let further = Copied { frames: 9, attempted: 9, ..REST };
        for copied in [anew, further] {
            let later = Stamp { size_bytes: 4096, modified: (101, 0) };
            assert_eq!(contents.look(later, copied), Looked::Further);
        }
        contents.forget();
        assert_eq!(contents.look(AT, REST), Looked::First);
    }

    #[test]
    fn a_checkpoint_that_was_killed_and_an_index_of_no_wal_are_not_at_rest() {
        assert!(REST.is_at_rest());
        assert!(!Copied { attempted: 9, ..REST }.is_at_rest());
        // The journal mode may have changed twice meanwhile.
        assert!(!Copied { salt: [0, 0], frames: 0, attempted: 0 }.is_at_rest());
    }
}
