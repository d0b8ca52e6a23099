//! The mark in the lower (T9), an extended attribute of the directory itself.
//!
//! Root's is a `trusted.` attribute, which other users neither see nor change. Others have only
//! `user.` attributes. Whoever reads looks for both, because root may recover what another has
//! mounted.

use std::fs::File;
use std::io;

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr, fstatfs};
use rustix::io::Errno;

use crate::lower::Mark;

const OF_ROOT: &str = "trusted.oneflush.mark";
const OF_OTHERS: &str = "user.oneflush.mark";

const EXT4: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;

/// True for the names of marks.
pub fn is_mark(name: &[u8]) -> bool {
    name == OF_ROOT.as_bytes() || name == OF_OTHERS.as_bytes()
}

/// The name of the mark that this process may set. `None`: it has no way to leave one.
pub fn own_name(top: &File) -> Option<&'static str> {
    // Removing what was never there changes nothing and tells who may.
    let may = |name: &str| matches!(fremovexattr(top, name), Err(Errno::NODATA));
    [(OF_ROOT, "trusted.oneflush.none"), (OF_OTHERS, "user.oneflush.none")]
        .into_iter()
        .find_map(|(own, none)| may(none).then_some(own))
}

/// The journals of ext4 and XFS are written in the order of the changes.
pub fn keeps_order(top: &File) -> io::Result<bool> {
    Ok([EXT4, XFS].contains(&(fstatfs(top)?.f_type as u64)))
}

pub fn read(top: &File) -> io::Result<Option<Mark>> {
    for name in [OF_ROOT, OF_OTHERS] {
        let mut mark = Mark::default();
        match fgetxattr(top, name, &mut mark) {
            Ok(length) if length == mark.len() => return Ok(Some(mark)),
            // Somebody else's.
            Ok(_) | Err(Errno::NODATA | Errno::RANGE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// `own`: the name of this process's mark. `None`: it can leave none.
pub fn set(top: &File, own: Option<&str>, mark: Option<&Mark>) -> io::Result<()> {
    let Some(own) = own else {
        return if mark.is_none() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) };
    };
    if let Some(mark) = mark {
        return Ok(fsetxattr(top, own, mark, XattrFlags::empty())?);
    }
    for name in [OF_ROOT, OF_OTHERS] {
        match fremovexattr(top, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            // Another's, whom this user cannot speak for.
            Err(Errno::PERM | Errno::ACCESS) if name != own => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
