//! What a conversion has before it, and the rules by which one is refused.

use std::io;
use std::path::{Path, PathBuf};

use oneflush_vfs::Survey;
use rustix::fs::{Access, access, statvfs};

use super::error::{ConvertError, USABLE_MIN};

/// What the checksum VFS of SQLite takes for its own.
const CKSUMVFS_BYTES: u8 = 8;
/// A frame of a WAL has its page and this; a record of a rollback journal has less.
const FRAME_HEADER_BYTES: u64 = 24;
/// Headers, and blocks that are used in part.
const SLACK_BYTES: u64 = 256 << 10;

/// The pages of a database.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    pub page_bytes: u32,
    pub reserved: u8,
    pub count: u64,
    pub free: u64,
}

impl Pages {
    /// As the database file says. None: it has no page yet.
    pub fn of(survey: &Survey) -> Option<Pages> {
        Some(Pages {
            page_bytes: survey.page_bytes,
            reserved: survey.reserved_bytes?,
            count: survey.pages.into(),
            free: survey.free_pages.into(),
        })
    }

    /// About how many pages there will be. B-trees that lie close in their pages may need more.
    pub fn converted(self, wanted: u8) -> u64 {
        let usable = |reserved: u8| u64::from(self.page_bytes - u32::from(reserved));
        let used = self.count.saturating_sub(self.free);
        (used * usable(self.reserved)).div_ceil(usable(wanted))
    }

    /// Room for a copy of so many pages in place of these: WAL or journal, and the file's growth.
    fn write_bytes(self, pages: u64) -> u64 {
        let page_bytes = u64::from(self.page_bytes);
        pages.max(self.count) * (page_bytes + FRAME_HEADER_BYTES)
            + pages.saturating_sub(self.count) * page_bytes
            + SLACK_BYTES
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub reserved: u8,
    /// The user knows that nothing uses the reserved bytes.
    pub is_forced: bool,
}

/// A conversion that the rules allow.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub needed_bytes: u64,
    pub free_bytes: u64,
}

/// None: as many bytes as wanted are reserved already.
pub fn plan(database: &Path, pages: Pages, wish: Wish) -> Result<Option<Plan>, ConvertError> {
    if pages.reserved == wish.reserved {
        return Ok(None);
    }
    let database = || database.to_owned();
    if u32::from(wish.reserved) + USABLE_MIN > pages.page_bytes {
        let page_bytes = pages.page_bytes;
        return Err(ConvertError::TooMany { database: database(), page_bytes });
    }
    if pages.reserved > 0 && !wish.is_forced {
        let reserved = pages.reserved;
        return Err(ConvertError::Reserved { database: database(), reserved });
    }
    if wish.reserved == CKSUMVFS_BYTES && !wish.is_forced {
        return Err(ConvertError::Checksums(database()));
    }
    let copied = pages.converted(wish.reserved);
    let needed_bytes = copied * u64::from(pages.page_bytes) + pages.write_bytes(copied);
    let free_bytes = check_room(&database(), needed_bytes)?;
    Ok(Some(Plan { needed_bytes, free_bytes }))
}

/// Room for a copy of so many bytes in the other engine, whose pages may be less full.
pub fn copy_bytes(bytes: u64) -> u64 {
    bytes + bytes / 2 + SLACK_BYTES
}

/// The copy is made, so what is still needed is known.
pub fn check_room_to_write(database: &Path, pages: Pages, copied: u64) -> Result<(), ConvertError> {
    check_room(database, pages.write_bytes(copied)).map(drop)
}

pub fn check_room(database: &Path, needed_bytes: u64) -> Result<u64, ConvertError> {
    let folder = folder_of(database);
    let room = statvfs(&folder)
        .map_err(|errno| ConvertError::File { path: folder.clone(), source: errno.into() })?;
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if free_bytes < needed_bytes {
        let database = database.to_owned();
        return Err(ConvertError::NoRoom { database, needed_bytes, free_bytes });
    }
    Ok(free_bytes)
}

/// The database file is written, and files beside it are made.
pub fn check_rights(database: &Path) -> Result<(), ConvertError> {
    check_access(database.to_owned(), Access::READ_OK | Access::WRITE_OK)?;
    check_rights_of_folder(database)
}

/// Files are made there.
pub fn check_rights_of_folder(file: &Path) -> Result<(), ConvertError> {
    check_access(folder_of(file), Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
}

fn check_access(path: PathBuf, wanted: Access) -> Result<(), ConvertError> {
    access(&path, wanted)
        .map_err(|errno| ConvertError::ReadOnly { path, source: io::Error::from(errno) })
}

pub fn folder_of(database: &Path) -> PathBuf {
    database.parent().unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_for_a_copy_a_journal_of_all_pages_and_the_growth() {
        let pages = Pages { page_bytes: 512, reserved: 0, count: 480_000, free: 0 };
        assert_eq!(pages.converted(32), 512_000);
        let write = 512_000 * 536 + 32_000 * 512 + SLACK_BYTES;
        assert_eq!(pages.write_bytes(512_000), write);
        let emptied = Pages { free: 479_000, ..pages };
        assert_eq!(emptied.converted(0), 1000);
        assert!(emptied.write_bytes(1000) > 480_000 * 512, "the journal has the pages that go");
    }
}
