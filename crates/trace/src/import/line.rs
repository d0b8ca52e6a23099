//! The result of an importer for one line or record, and the store of its names.

use std::collections::HashMap;
use std::fmt::Write;

use crate::model::{DeviceId, Event, NameId, Names};

/// What one line or record of a trace is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Event(Event),
    /// A whole call: its begin and its end.
    Two(Event, Event),
    /// A write that is durable when its call returns: begin, write, end.
    Three(Event, Event, Event),
    /// An event of a kind that means nothing here.
    Ignored,
    /// A comment, a heading, an empty line.
    Nothing,
    /// The trace says that events are missing here. `None`: it does not say how many.
    Lost(Option<u64>),
    NotUnderstood,
}

/// Limit of the text of names that is kept. It keeps an endless trace (a marker with a number in
/// it, say) from filling the memory.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// The cost of a name beside its text. For a short name, it is as much again.
const NAME_COST_BYTES: usize = 32;

/// [`Names`] with a bound, and whatever bytes a name has.
#[derive(Debug, Default)]
pub(super) struct Interner {
    pub names: Names,
    bytes: usize,
    /// Names that are missing in events because there is no room for them.
    pub left_out: u64,
    scratch: String,
    /// Files whose names the trace says, by device and inode.
    files: HashMap<(DeviceId, u64), Named>,
}

#[derive(Clone, Copy, Debug)]
struct Named {
    name: NameId,
    is_deleted: bool,
}

impl Interner {
    pub fn id(&mut self, text: &[u8]) -> Option<NameId> {
        match std::str::from_utf8(text) {
            Ok(text) => self.keep(text),
            Err(_) => self.keep(&String::from_utf8_lossy(text)),
        }
    }

    /// From here on this inode is a file of this name. An empty name: the name is unknown.
    pub fn name_inode(&mut self, device: DeviceId, inode: u64, name: &[u8]) {
        let key = (device, inode);
        // A file whose new name cannot be kept must not go on under its old one.
        let is_known = self.files.remove(&key).is_some();
        if !name.is_empty()
            && (is_known || self.has_room(0))
            && let Some(name) = self.id(name)
        {
            self.bytes += if is_known { 0 } else { NAME_COST_BYTES };
            self.files.insert(key, Named { name, is_deleted: false });
        }
    }

    /// The name is gone. The inode keeps it until it has another, for what is still to come of it.
    pub fn delete_inode(&mut self, device: DeviceId, inode: u64) {
        if let Some(file) = self.files.get_mut(&(device, inode)) {
            file.is_deleted = true;
        }
    }

    /// Whether a file whose name the trace has said was deleted. Its blocks may be freed much
    /// later, when there is already a new file of that name.
    pub fn is_deleted(&self, device: DeviceId, inode: u64) -> bool {
        self.files.get(&(device, inode)).is_some_and(|file| file.is_deleted)
    }

    /// A file by its number: its name if the trace has said it, else "ino 12 on 8,1".
    pub fn inode(&mut self, device: DeviceId, inode: u64) -> Option<NameId> {
        if let Some(file) = self.files.get(&(device, inode)) {
            return Some(file.name);
        }
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
        if !self.has_room(text.len()) {
            self.left_out += 1;
            return None;
        }
        self.bytes += text.len() + NAME_COST_BYTES;
        Some(self.names.id(text))
    }

    fn has_room(&self, text_bytes: usize) -> bool {
        self.bytes + text_bytes + NAME_COST_BYTES <= NAMES_BYTES_MAX
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
    fn an_inode_has_the_name_that_it_was_given_last() {
        let mut names = Interner::default();
        let (here, there) = (DeviceId { major: 7, minor: 0 }, DeviceId { major: 7, minor: 1 });
        let name = |names: &mut Interner, device| {
            names.inode(device, 12).map(|id| names.names.text(id).to_owned())
        };
        names.name_inode(here, 12, b"/d/a-journal");
        assert_eq!(name(&mut names, here).as_deref(), Some("/d/a-journal"));
        assert_eq!(name(&mut names, there).as_deref(), Some("ino 12 on 7,1"));
        names.name_inode(here, 12, b"/d/b-journal");
        assert_eq!(name(&mut names, here).as_deref(), Some("/d/b-journal"));
        names.name_inode(here, 12, b"");
        assert_eq!(name(&mut names, here).as_deref(), Some("ino 12 on 7,0"));
    }

    #[test]
    fn a_name_that_is_no_text_is_still_a_name() {
        let mut names = Interner::default();
        let id = names.id(b"a\xffb").unwrap();
        assert_eq!(names.names.text(id), "a\u{fffd}b");
    }
}
