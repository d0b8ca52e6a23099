//! Contents and attributes of objects.

use std::io;

use super::Replay;
use crate::entry::ROOT;
use crate::fold::Object;
use crate::lower::{Kind, Lower};

impl<L: Lower> Replay<'_, L> {
    /// Brings all objects that were found to their contents. Also those whose names are later than
    /// the log: their contents were synced all the same. `is_later`: the lower has later
    /// attributes.
    pub(super) fn write_contents(&mut self, is_later: bool) -> io::Result<()> {
        let wanted = self.wanted;
        for (&id, object) in &wanted.objects {
            let is_removed = object.names.is_empty() && id != ROOT;
            if let Some(node) = self.nodes.get(&id).cloned().filter(|_| !is_removed) {
                self.write(&node, object, is_later)?;
            }
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        node: &L::Node,
        object: &Object,
        is_later: bool,
    ) -> io::Result<()> {
        if object.kind == Kind::File {
            let contents = &object.contents;
            let there = self.lower.look(node)?.size_bytes;
            if let Some(cut_to) = contents.cut_to.filter(|cut_to| *cut_to < there) {
                self.lower.truncate(node, cut_to)?;
            }
            for (offset, bytes) in contents.bytes() {
                self.lower.write(node, offset, bytes)?;
                self.done.bytes += bytes.len() as u64;
            }
            if let Some(size_bytes) = contents.size_bytes {
                self.lower.truncate(node, size_bytes)?;
            }
        }
        if is_later {
            return Ok(());
        }
        object.attributes.all().iter().try_for_each(|attribute| self.lower.set(node, attribute))
    }
}
