//! Which writes into the page cache are printed as those of a WAL.
//!
//! SQLite writes the header of a frame alone, and its page behind it. `plain` writes a frame by one
//! call, and the kernel may tell that call in pieces, a page of memory each. So three things are
//! printed: the header of a WAL, the header of a frame, and where a run of frames begins. What goes
//! on where the write before it ended is not printed, unless somebody took or gave back SQLite's
//! lock for writing since: there another commit may begin.

use crate::model::{FRAME_HEADER_BYTES, WAL_HEADER_BYTES};

/// Endings of a WAL's name; the second is that of a WAL that `plain` keeps.
const NAMES: [&[u8]; 2] = [b"-wal", b"-oneflush-kept"];

pub(super) fn is_wal(name: &[u8]) -> bool {
    NAMES.iter().any(|ending| name.ends_with(ending))
}

/// The end of the last write.
#[derive(Default)]
pub(super) struct Frames(Option<(usize, u64, u64)>);

impl Frames {
    /// A commit may begin.
    pub(super) fn ended(&mut self) {
        self.0 = None;
    }

    /// `file`: the file's place and inode.
    pub(super) fn begins(
        &mut self,
        (place, inode): (usize, u64),
        position: u64,
        length: u64,
        is_wal: impl FnOnce() -> bool,
    ) -> bool {
        let is_header = [WAL_HEADER_BYTES, FRAME_HEADER_BYTES].contains(&length);
        let end = (place, inode, position.saturating_add(length));
        let goes_on = self.0.replace(end) == Some((place, inode, position));
        is_header || !goes_on && is_wal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(writes: &[(u64, u64)]) -> Vec<u64> {
        let mut frames = Frames::default();
        let begins = |&(position, length): &(u64, u64)| {
            frames.begins((0, 12), position, length, || true).then_some(position)
        };
        writes.iter().filter_map(begins).collect()
    }

    #[test]
    fn of_sqlites_own_frames_the_headers_are_printed_and_no_pages() {
        // The kernel tells a page that crosses a page of memory in two pieces.
        let writes = [(32, 24), (56, 4040), (4096, 56), (4152, 24), (4176, 4016), (8192, 80)];
        assert_eq!(printed(&writes), [32, 4152]);
    }

    /// A frame of `plain` is one write, and its commits were not in the recording at all.
    #[test]
    fn of_a_run_of_whole_frames_the_begin_is_printed() {
        assert_eq!(printed(&[(32, 4064), (4096, 56), (4152, 4040), (8192, 80)]), [32]);
        assert_eq!(printed(&[(32, 4064), (4096, 56), (32, 4064), (4096, 56)]), [32, 32]);
    }

    #[test]
    fn the_next_commit_begins_where_the_one_before_it_ended_and_is_printed() {
        let mut frames = Frames::default();
        assert!(frames.begins((0, 12), 32, 4120, || true));
        frames.ended();
        assert!(frames.begins((0, 12), 4152, 4120, || true));
        assert!(!frames.begins((0, 12), 8272, 4120, || true));
    }

    #[test]
    fn other_files_are_not_printed() {
        assert!(!Frames::default().begins((0, 12), 32, 4120, || false));
        assert!(is_wal(b"/d/a.db-wal") && is_wal(b"/d/a.db-oneflush-kept") && !is_wal(b"/d/a.log"));
    }
}
