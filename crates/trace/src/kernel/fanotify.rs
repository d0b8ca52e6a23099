//! Which file got which name, in the order in which it happened: fanotify(7) on a whole file
//! system.
//!
//! Each event names the folder and the new entry, and holds the file's own handle
//! (`FAN_REPORT_TARGET_FID`, Linux 5.17). The inode is therefore known without looking the name up.
//! For a file that is deleted again at once, looking the name up would come too late. Events:
//!
//! ```text
//! 0  u32 length of all │ u8 version │ u8 │ u16 length of this head │ u64 mask │ i32 descriptor
//!    │ i32 process
//! then records:  u8 type │ u8 │ u16 length │ 8 bytes file system │ u32 bytes of the handle
//!    │ i32 its type │ handle │ name, 0
//! ```

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const HEAD_BYTES: usize = 24;
const BUFFER_BYTES: usize = 256 << 10;

/// A file system that is watched.
#[derive(Debug)]
pub struct Watch {
    queue: File,
    buffer: Vec<u8>,
}

/// A new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The inode of the folder.
    pub directory: u64,
    pub inode: u64,
    /// Tells files apart that had the same inode one after the other.
    pub generation: u32,
    pub name: Vec<u8>,
    /// The name was given by rename, not by creation.
    pub moved: bool,
}

impl Watch {
    /// Root only.
    pub fn new(mount_point: &Path) -> io::Result<Watch> {
        let path = CString::new(mount_point.as_os_str().as_bytes())?;
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_REPORT_DFID_NAME_TARGET;
        // SAFETY: the call takes two numbers and gives a descriptor or -1.
        let descriptor = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as libc::c_uint) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open, and no other code has it.
        let queue = unsafe { File::from_raw_fd(descriptor) };
        let mark = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        let mask = libc::FAN_CREATE | libc::FAN_MOVED_TO | libc::FAN_ONDIR;
        // SAFETY: `path` is a string with its end mark, which lives through the call. The rest are
        // numbers.
        let marked = unsafe {
            libc::fanotify_mark(queue.as_raw_fd(), mark, mask, libc::AT_FDCWD, path.as_ptr())
        };
        if marked < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Watch { queue, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Reads all events since the last call.
    pub fn read(&mut self, mut each: impl FnMut(Named)) -> io::Result<()> {
        loop {
            match self.queue.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => events(&self.buffer[..length], &mut each),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn events(mut bytes: &[u8], each: &mut impl FnMut(Named)) {
    while let Some(event) = u32_at(bytes, 0).and_then(|length| bytes.get(..length as usize)) {
        if event.len() < HEAD_BYTES {
            return;
        }
        if let Some(named) = named(event) {
            each(named);
        }
        bytes = &bytes[event.len()..];
    }
}

fn named(event: &[u8]) -> Option<Named> {
    let mask = u64_at(event, 8)?;
    let mut records = event.get(usize::from(u16_at(event, 6)?)..)?;
    let (mut folder, mut file) = (None, None);
    while let Some(length) = u16_at(records, 2).map(usize::from).filter(|&length| length >= 20) {
        let record = records.get(..length)?;
        let handle_bytes = u32_at(record, 12)? as usize;
        let handle = record.get(20..20usize.checked_add(handle_bytes)?)?;
        let inode = inode(u32_at(record, 16)?, handle);
        if record[0] == libc::FAN_EVENT_INFO_TYPE_DFID_NAME {
            let name = record[20 + handle_bytes..].split(|&byte| byte == 0).next()?;
            folder = Some((inode?.0, name.to_vec()));
        } else if record[0] == libc::FAN_EVENT_INFO_TYPE_FID {
            file = inode;
        }
        records = &records[length..];
    }
    let ((directory, name), (inode, generation)) = (folder?, file?);
    Some(Named { directory, inode, generation, name, moved: mask & libc::FAN_MOVED_TO != 0 })
}

/// Inode and generation in a handle: `enum fid_type` in `linux/exportfs.h`, and the own types of
/// XFS and btrfs.
fn inode(handle_type: u32, handle: &[u8]) -> Option<(u64, u32)> {
    const INO32_GEN: u32 = 1;
    const INO32_GEN_PARENT: u32 = 2;
    const XFS_INO64_GEN: u32 = 0x81;
    const XFS_INO64_GEN_PARENT: u32 = 0x82;
    const BTRFS: u32 = 0x4D;
    match handle_type {
        INO32_GEN | INO32_GEN_PARENT => Some((u32_at(handle, 0)?.into(), u32_at(handle, 4)?)),
        XFS_INO64_GEN | XFS_INO64_GEN_PARENT => Some((u64_at(handle, 0)?, u32_at(handle, 8)?)),
        BTRFS => Some((u64_at(handle, 0)?, u32_at(handle, 16)?)),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, inode: u32, generation: u32, name: &[u8]) -> Vec<u8> {
        let mut record = vec![kind, 0, 0, 0];
        record.extend([0; 8]);
        for word in [8, 1, inode, generation] {
            record.extend(word.to_ne_bytes());
        }
        record.extend(name);
        record.resize(record.len().next_multiple_of(4), 0);
        let length = (record.len() as u16).to_ne_bytes();
        record[2..4].copy_from_slice(&length);
        record
    }

    fn event(mask: u64, records: &[Vec<u8>]) -> Vec<u8> {
        let body = records.concat();
        let mut event = ((HEAD_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        event.extend([3, 0]);
        event.extend((HEAD_BYTES as u16).to_ne_bytes());
        event.extend(mask.to_ne_bytes());
        event.extend([0xFF; 8]);
        event.extend(body);
        event
    }

    #[test]
    fn folder_name_and_inode_are_read_and_half_an_event_is_not() {
        let records = [record(2, 7, 1, b"a.db-journal\0"), record(1, 12, 99, b"")];
        let bytes =
            [event(libc::FAN_CREATE, &records), event(libc::FAN_MOVED_TO, &records)].concat();
        let read = |bytes: &[u8]| {
            let mut found = Vec::new();
            events(bytes, &mut |named| found.push(named));
            found
        };
        let named = Named {
            directory: 7,
            inode: 12,
            generation: 99,
            name: b"a.db-journal".to_vec(),
            moved: false,
        };
        assert_eq!(read(&bytes), [named.clone(), Named { moved: true, ..named }]);
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).len() < 2);
        }
    }
}
