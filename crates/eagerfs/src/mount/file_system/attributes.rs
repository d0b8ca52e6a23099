//! Attributes: mode, owner, size, times.

use std::io;
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, INodeNo, TimeOrNow};

use super::super::answer;
use super::super::nodes::{RealObject, number_of};
use super::served::{Caller, Served};
use crate::lower::{Attribute, Kind, Time};

/// What is to be changed.
#[derive(Debug)]
pub struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size_bytes: Option<u64>,
    pub accessed: Option<TimeOrNow>,
    pub modified: Option<TimeOrNow>,
    /// When the kernel has made these changes.
    pub changed: Option<SystemTime>,
}

/// The kernel tells a time when it writes a file back and when a program sets it, and does not wait
/// with one for the other. So an older one may come behind a newer one. A larger distance is a
/// clock that was set.
const OUT_OF_ORDER: Duration = Duration::from_secs(1);

fn is_outdated(changed: Option<SystemTime>, last: Option<SystemTime>) -> bool {
    let distance = changed.zip(last).map(|(changed, last)| last.duration_since(changed));
    distance.is_some_and(|since| since.is_ok_and(|since| !since.is_zero() && since < OUT_OF_ORDER))
}

impl Served {
    /// The size comes first and the times last, since each change touches a time.
    pub fn change_attributes(
        &self,
        caller: Caller,
        number: INodeNo,
        changes: &Changes,
    ) -> io::Result<FileAttr> {
        let object = self.nodes.get(number)?;
        if let Some(size_bytes) = changes.size_bytes {
            self.tree.truncate(object.id, size_bytes)?;
            // Who may keep these bits (`CAP_FSETID`) the kernel does not say here.
            if caller.uid != 0 {
                self.take_special_bits(caller, &object)?;
            }
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            self.change_owner(caller, &object, changes.uid, changes.gid)?;
        }
        if let Some(mode) = changes.mode {
            self.tree.set(object.id, Attribute::Mode(mode & 0o7777))?;
        }
        if let Some(accessed) = changes.accessed {
            self.tree.set(object.id, Attribute::Accessed(time(accessed)))?;
        }
        if let Some(modified) = changes.modified {
            self.set_modified(&object, modified, changes.changed)?;
        }
        self.attributes(&object)
    }

    fn set_modified(
        &self,
        object: &RealObject,
        modified: TimeOrNow,
        changed: Option<SystemTime>,
    ) -> io::Result<()> {
        let mut told = object.node.told.lock();
        if is_outdated(changed, *told) {
            return Ok(());
        }
        *told = changed.or(*told);
        let set = self.tree.set(object.id, Attribute::Modified(time(modified)));
        // Who may write another's file but not set its times leaves them to the lower. The kernel
        // has looked whether a caller may set them.
        set.or_else(|error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Ok(()),
            _ => Err(error),
        })
    }

    /// The lower takes bits of the mode away by itself then. The log must have that, too: otherwise
    /// recovery would give them to the new owner.
    fn change_owner(
        &self,
        caller: Caller,
        object: &RealObject,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()> {
        let before = self.tree.lower().stat(&object.node)?;
        let uid = uid.unwrap_or(before.stx_uid);
        let gid = gid.unwrap_or(before.stx_gid);
        self.tree.set(object.id, Attribute::Owner { uid, gid })?;
        if before.stx_mode & 0o6000 != 0 && object.kind != Kind::Symlink {
            let after = self.tree.lower().stat(&object.node)?;
            let mut mode = u32::from(after.stx_mode) & 0o7777;
            // It knows this process only, which may keep set-group-ID.
            if object.kind != Kind::Directory && !caller.is_in(before.stx_gid) {
                mode &= !libc::S_ISGID;
            }
            self.tree.set(object.id, Attribute::Mode(mode))?;
        }
        Ok(())
    }

    /// What takes bits from a program as a write does, though the kernel neither asks for it nor
    /// looks at the mode again. Who may keep the bits (`CAP_FSETID`) it does not say here.
    pub fn take_special_bits_unasked(&self, caller: Caller, object: &RealObject) -> io::Result<()> {
        if caller.uid != 0 && self.take_special_bits(caller, object)? {
            self.forget_attributes(number_of(object));
        }
        Ok(())
    }

    /// What a write takes from a program: set-user-ID, and set-group-ID where the group may execute
    /// it or the writer is not of the group. Answers whether it had them.
    pub fn take_special_bits(&self, caller: Caller, object: &RealObject) -> io::Result<bool> {
        if object.kind != Kind::File {
            return Ok(false);
        }
        let stat = self.tree.lower().stat(&object.node)?;
        let mode = u32::from(stat.stx_mode) & 0o7777;
        let mut taken = mode & libc::S_ISUID;
        if mode & libc::S_ISGID != 0 && (mode & libc::S_IXGRP != 0 || !caller.is_in(stat.stx_gid)) {
            taken |= libc::S_ISGID;
        }
        if taken == 0 {
            return Ok(false);
        }
        self.tree.set(object.id, Attribute::Mode(mode & !taken))?;
        Ok(true)
    }
}

fn time(time: TimeOrNow) -> Time {
    answer::time(match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file had the time that it had before a program cut it, once in some thousand cuts.
    #[test]
    fn a_time_that_comes_too_late_is_left_out() {
        let now = SystemTime::now();
        let before = |milliseconds| Some(now - Duration::from_millis(milliseconds));
        assert!(is_outdated(before(3), Some(now)));
        assert!(!is_outdated(Some(now), before(3)));
        assert!(!is_outdated(Some(now), Some(now)));
        assert!(!is_outdated(Some(now), None));
        assert!(!is_outdated(None, Some(now)));
        assert!(!is_outdated(before(3_600_000), Some(now)), "a clock that was set back");
    }
}
