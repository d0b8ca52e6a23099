//! Database files that another program writes over in place: `cp backup.db app.db`, `rsync
//! --inplace`, `dd`.
//!
//! The name and the number of such a file stay. In WAL mode only checkpoints write to a database
//! file, and the WAL index says how far they have come. So a file whose time or size has changed
//! while no checkpoint got further was written by something else. Pages of the WAL and pages of the
//! other file would make one database.
//!
//! | [`Copied`] before and after the look at the file | what is concluded |
//! |---|---|
//! | different, of no WAL, or a checkpoint has begun and not ended | nothing: the next look begins anew |
//! | as at the last look | the file must be as at the last look |
//! | another, and at rest | this look is the last one |
//!
//! SQLite sets `nBackfillAttempted` before a checkpoint writes (3.11 and newer), so a checkpoint
//! that was killed counts as one that has not ended.

use crate::port::{Copied, Stamp};

/// A database file at the last look, while no checkpoint was under way.
#[derive(Default)]
pub struct Contents(Option<(Stamp, Copied)>);

impl Contents {
    /// Notes a look. True: the file was written over since the last one. Only who `begins` makes the
    /// first look.
    pub fn note(&mut self, before: Copied, stamp: Stamp, after: Copied, begins: bool) -> bool {
        // A WAL without a header has no salts, and is like any other without one.
        let has_header = before.salts != [0, 0];
        let is_at_rest = has_header && before == after && before.frames == before.attempted;
        let is_known = is_at_rest && (begins || self.0.is_some());
        let last = std::mem::replace(&mut self.0, is_known.then_some((stamp, before)));
        let same = last.filter(|(_, copied)| is_at_rest && *copied == before);
        same.is_some_and(|(last, _)| !stamp.may_follow(last))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const AT: Stamp = Stamp { size_bytes: 8192, modified: (100, 5), is_touched: false };
    const REST: Copied = Copied { salts: [1, 2], frames: 7, attempted: 7 };

    #[test]
    fn a_change_without_a_checkpoint_is_another_programs() {
        let others = [
            Stamp { modified: (100, 6), ..AT },
            Stamp { modified: (99, 0), ..AT },
            Stamp { size_bytes: 4096, ..AT },
            Stamp { size_bytes: 4096, is_touched: true, modified: (101, 0) },
        ];
        for other in others {
            let mut contents = Contents::default();
            assert!(!contents.note(REST, AT, REST, true), "the first look");
            assert!(!contents.note(REST, AT, REST, true));
            assert!(contents.note(REST, other, REST, true), "{other:?}");
        }
    }

    #[test]
    fn a_checkpoint_may_change_all_and_so_may_one_that_was_killed() {
        let later = Stamp { size_bytes: 4096, modified: (101, 0), is_touched: false };
        let begun = Copied { attempted: 9, ..REST };
        let anew = Copied { salts: [2, 9], frames: 0, attempted: 0 };
        let further = Copied { frames: 9, attempted: 9, ..REST };
        for (before, after) in
            [(further, further), (anew, anew), (begun, begun), (REST, further), (begun, further)]
        {
            let mut contents = Contents::default();
            assert!(!contents.note(REST, AT, REST, true));
            assert!(!contents.note(before, later, after, true), "{before:?} {after:?}");
            assert!(!contents.note(after, later, after, true), "it is known from now on");
        }
    }

    /// The journal mode may have changed twice meanwhile.
    #[test]
    fn an_index_of_no_wal_tells_nothing() {
        let nothing = Copied { salts: [0, 0], frames: 0, attempted: 0 };
        let later = Stamp { modified: (101, 0), ..AT };
        let mut contents = Contents::default();
        assert!(!contents.note(nothing, AT, nothing, true));
        assert!(!contents.note(nothing, later, nothing, true));
    }

    #[test]
    fn who_does_not_begin_compares_all_the_same() {
        let other = Stamp { size_bytes: 0, ..AT };
        let mut contents = Contents::default();
        assert!(!contents.note(REST, AT, REST, false) && !contents.note(REST, other, REST, false));
        assert!(!contents.note(REST, AT, REST, true) && contents.note(REST, other, REST, false));
    }

    #[test]
    fn a_file_may_be_touched() {
        let mut contents = Contents::default();
        let touched = Stamp { modified: (101, 0), is_touched: true, ..AT };
        assert!(!contents.note(REST, AT, REST, true) && !contents.note(REST, touched, REST, true));
        assert!(contents.note(REST, AT, REST, true), "the next look is measured by that");
    }
}
