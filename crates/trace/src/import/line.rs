//! What an importer makes of one line or record, and what it keeps names in.

use std::fmt::Write;

use crate::model::{DeviceId, Event, NameId, Names};

/// What one line or record of a trace is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Event(Event),
    /// A whole call, from its begin to its end.
    Two(Event, Event),
    /// An event of a kind that means nothing here.
    Ignored,
    /// A comment, a heading, an empty line.
    Nothing,
    /// The trace says that events are missing here; none where it does not say how many.
    Lost(Option<u64>),
    NotUnderstood,
}

/// Text of names that is kept at most, so that a trace that never ends (a marker with a number in it, say) cannot fill the memory.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// [`Names`] with a bound, and whatever bytes a name has.
#[derive(Debug, Default)]
pub(super) struct Interner {
    pub names: Names,
    bytes: usize,
    /// Names that are missing in events since there is no room for them.
    pub left_out: u64,
    scratch: String,
}

impl Interner {
    pub fn id(&mut self, text: &[u8]) -> Option<NameId> {
        match std::str::from_utf8(text) {
            Ok(text) => self.keep(text),
            Err(_) => self.keep(&String::from_utf8_lossy(text)),
        }
    }

    /// A file of which only the number is known: "ino 12 on 8,1".
    pub fn inode(&mut self, device: DeviceId, inode: u64) -> Option<NameId> {
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        let _ = write!(text, "ino {inode} on {},{}", device.major, device.minor);
        let id = self.keep(&text);
        self.scratch = text;
        id
    }

    fn keep(&mut self, text: &str) -> Option<NameId> {
        if let Some(id) = self.names.find(text) {
            return Some(id);
        }
        // A short name costs as much again beside its text.
        let cost = text.len() + 32;
        if self.bytes + cost > NAMES_BYTES_MAX {
            self.left_out += 1;
            return None;
        }
        self.bytes += cost;
        Some(self.names.id(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_up_to_a_bound_and_those_left_out_are_counted() {
        let mut names = Interner::default();
        let long = vec![b'x'; 1 << 20];
        let mut kept = 0;
        for n in 0..100u8 {
            let mut text = long.clone();
            text.push(n);
            kept += u64::from(names.id(&text).is_some());
        }
        assert_eq!(kept, 63);
        assert_eq!(names.left_out, 37);
        let mut known = long.clone();
        known.push(0);
        assert!(names.id(&known).is_some(), "a name that is there already needs no room");
    }

    #[test]
    fn a_name_that_is_no_text_is_still_a_name() {
        let mut names = Interner::default();
        let id = names.id(b"a\xffb").unwrap();
        assert_eq!(names.names.text(id), "a\u{fffd}b");
    }
}
