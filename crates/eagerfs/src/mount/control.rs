//! How programs reach the daemon: by extended attributes of the root that are read.
//!
//! Reading one needs nothing but a way to the mount point: the kernel leaves `system.` attributes
//! to the file system. An `ioctl` would need an open descriptor, and so the right to list the root.
//! A write would not work through a mount for reading only.

use std::path::Path;

use fuser::INodeNo;
use rustix::fs::{Mode, OFlags, getxattr, open, syncfs};
use rustix::io::Errno;

use super::error::{MountError, failed};

const PREFIX: &[u8] = b"system.oneflush.";
const STATS: &str = "system.oneflush.stats";
/// Everything is durable in the lower when the answer comes, which is empty.
const SYNC: &str = "system.oneflush.sync";

#[derive(Clone, Copy, Debug)]
pub enum Question {
    Stats,
    Sync,
    Unknown,
}

pub fn is_ours(name: &[u8]) -> bool {
    name.starts_with(PREFIX)
}

pub fn question(number: INodeNo, name: &[u8]) -> Option<Question> {
    if !is_ours(name) || number != INodeNo::ROOT {
        return None;
    }
    Some(match name {
        name if name == STATS.as_bytes() => Question::Stats,
        name if name == SYNC.as_bytes() => Question::Sync,
        _ => Question::Unknown,
    })
}

/// The longest answer to a question.
const ANSWER_BYTES_MAX: usize = 16 << 10;

fn ask(mountpoint: &Path, question: &str) -> Result<Vec<u8>, Errno> {
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    let length = getxattr(mountpoint, question, &mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Everything that was written through the mount is durable on return, without the log.
pub fn sync(mountpoint: &Path) -> Result<(), MountError> {
    // The kernel sends its pages together then, and not each on its own. Who may not open the root
    // does without.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(root) = open(mountpoint, flags, Mode::empty()) {
        // The daemon fetches what is left, and its errors count.
        let _ = syncfs(&root);
    }
    match ask(mountpoint, SYNC) {
        Ok(_) => Ok(()),
        Err(error) if is_no_answer(error) => Err(MountError::NotOurs(mountpoint.to_owned())),
        Err(Errno::NOTCONN) => Err(MountError::dead(mountpoint)),
        Err(error) => {
            Err(MountError::Sync { mountpoint: mountpoint.to_owned(), source: error.into() })
        }
    }
}

/// What the daemon counts: names and values.
pub fn stats(mountpoint: &Path) -> Result<Vec<(String, String)>, MountError> {
    let answer = ask(mountpoint, STATS).map_err(|error| match error {
        error if is_no_answer(error) => MountError::NotOurs(mountpoint.to_owned()),
        Errno::NOTCONN => MountError::dead(mountpoint),
        error => failed("ask", &mountpoint)(error.into()),
    })?;
    let text = String::from_utf8_lossy(&answer);
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn is_no_answer(error: Errno) -> bool {
    [Errno::NODATA, Errno::OPNOTSUPP, Errno::INVAL].contains(&error)
}
