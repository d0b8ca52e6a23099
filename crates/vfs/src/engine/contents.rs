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

use std::collections::HashSet;
use std::ops::Range;

use crate::error::Code;
use crate::port::{Below, Copied, MainFile, Stamp};
use crate::wal_file::{FRAME_HEADER_BYTES, FrameHeader, HEADER_BYTES};

/// "Database File Format", section 1.3.
const DATABASE_HEADER_BYTES: usize = 100;
const VERSIONS_AND_RESERVED: [Range<usize>; 2] = [18..20, 72..92];
/// So many frames that were copied are compared, the newest ones, and as many may be behind them.
const FRAMES_MAX: u32 = 1000;

pub type DatabaseHeader = [u8; DATABASE_HEADER_BYTES];

/// A database file at the last look, while no checkpoint was under way.
#[derive(Default)]
pub struct Contents(Option<(Stamp, Copied, DatabaseHeader)>);

/// What a look has found.
#[derive(Debug, PartialEq, Eq)]
pub enum Looked {
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
    pub fn look(&self, stamp: Stamp, copied: Copied) -> Looked {
        match &self.0 {
            None => Looked::First,
            Some((was, before, _)) if (*was, *before) == (stamp, copied) => Looked::Same,
            Some((_, before, header)) if *before == copied => Looked::Changed(*header),
            Some(_) => Looked::Further,
        }
    }

    pub fn note(&mut self, stamp: Stamp, copied: Copied, header: DatabaseHeader) {
        self.0 = Some((stamp, copied, header));
    }

    pub fn forget(&mut self) {
        self.0 = None;
    }
}

impl Copied {
    /// No checkpoint is under way, or was killed. A WAL without a header has no salts, and is like
    /// any other without one.
    pub fn is_at_rest(&self) -> bool {
        self.salts != [0, 0] && self.frames == self.attempted
    }
}

/// What a database file has of what it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    All,
    /// Nothing that could be compared was different, and there was too little.
    Unknown,
    Another,
}

/// The header of a database file without what a strategy changes in it. What a cut file lacks is
/// zeros. None: it cannot be read.
pub fn header(main: &dyn Below) -> Option<DatabaseHeader> {
    let mut header = [0; DATABASE_HEADER_BYTES];
    match main.read(&mut header, 0) {
        Ok(()) | Err(Code::SHORT_READ) => {}
        Err(_) => return None,
    }
    for bytes in VERSIONS_AND_RESERVED {
        header[bytes].fill(0);
    }
    Some(header)
}

/// Compares the database file with what checkpoints have copied to it, and with the header that it
/// had. `read_wal`: reads the WAL.
pub fn compare(
    main: &dyn MainFile,
    was: &DatabaseHeader,
    copied: Copied,
    read_wal: &dyn Fn(&mut [u8], u64) -> bool,
) -> Content {
    // No checkpoint came since, so page 1 is as it was.
    match header(main) {
        None => return Content::Unknown,
        Some(now) if now != *was => return Content::Another,
        Some(_) => {}
    }
    let page_bytes = match u16::from_be_bytes([was[16], was[17]]) {
        1 => 1 << 16,
        bytes => u64::from(bytes),
    };
    let (Ok(size_bytes), Some(published)) = (main.size_bytes(), main.published_frames()) else {
        return Content::Unknown;
    };
    if published.saturating_sub(copied.frames) > FRAMES_MAX {
        return Content::Unknown;
    }
    let mut seen = HashSet::new();
    let mut content = Content::Unknown;
    let [mut in_wal, mut in_file] = [(); 2].map(|()| vec![0; page_bytes as usize]);
    let first = copied.frames.saturating_sub(FRAMES_MAX) + 1;
    for frame in (first..=published.max(copied.frames)).rev() {
        let at = HEADER_BYTES + u64::from(frame - 1) * (FRAME_HEADER_BYTES as u64 + page_bytes);
        let mut header = [0; FRAME_HEADER_BYTES];
        if !read_wal(&mut header, at) {
            return Content::Unknown;
        }
        let page_no = FrameHeader::decode(&header).page_no;
        let offset = u64::from(page_no.wrapping_sub(1)) * page_bytes;
        // A checkpoint leaves out pages that have a newer frame behind what it may copy. A later
        // commit may have cut the page off. Page 1 has a guard in the file, and not in the WAL.
        let is_newest = seen.insert(page_no) && frame <= copied.frames;
        if !is_newest || page_no <= 1 || offset + page_bytes > size_bytes {
            continue;
        }
        if !read_wal(&mut in_wal, at + FRAME_HEADER_BYTES as u64)
            || main.read(&mut in_file, offset).is_err()
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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const AT: Stamp = Stamp { size_bytes: 8192, modified: (100, 5) };
    const REST: Copied = Copied { salts: [1, 2], frames: 7, attempted: 7 };
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
        let anew = Copied { salts: [2, 9], frames: 0, attempted: 0 };
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
        assert!(!Copied { salts: [0, 0], frames: 0, attempted: 0 }.is_at_rest());
    }
}
