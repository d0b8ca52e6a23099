//! How programs reach the daemon: by extended attributes of the root that are read.
//!
//! Reading one needs nothing but a way to the mount point: the kernel leaves `system.` attributes
//! to the file system. An `ioctl` would need an open descriptor, and so the right to list the root.
//! A write would not work through a mount for reading only.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::{INodeNo, ReplyXattr};

use super::answer::errno;
use super::file_system::Served;

const PREFIX: &[u8] = b"system.oneflush.";
pub const STATS: &str = "system.oneflush.stats";
/// Everything is durable in the lower when the answer comes, which is empty.
pub const SYNC: &str = "system.oneflush.sync";

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

pub fn answer(served: &Arc<Served>, question: Question, size: u32, reply: ReplyXattr) {
    match question {
        Question::Unknown => reply.error(fuser::Errno::ENODATA),
        Question::Stats => {
            let text = stats(served).into_bytes();
            match size as usize {
                0 => reply.size(text.len() as u32),
                size if size >= text.len() => reply.data(&text),
                _ => reply.error(fuser::Errno::ERANGE),
            }
        }
        // Who only asks how long the answer is has not asked for it yet.
        Question::Sync if size == 0 => reply.size(1),
        Question::Sync => {
            served.run(
                |served| &served.syncing,
                move |served| match sync(served) {
                    Ok(()) => reply.data(&[]),
                    Err(error) => reply.error(errno(&error)),
                },
            );
        }
    }
}

/// Not on a thread that answers the kernel.
pub fn sync(served: &Served) -> io::Result<()> {
    served.nodes.written().into_iter().for_each(|number| served.fetch(number));
    served.tree.sync_all()
}

/// A name and a value a line.
fn stats(served: &Served) -> String {
    let tree = &served.tree;
    let (position, waits) = tree.log_state();
    let others = [
        ("written_bytes", served.written_bytes.load(Ordering::Relaxed)),
        ("epoch_bytes", position),
        ("unreleased", u64::from(waits)),
        ("objects", tree.objects_known() as u64),
        ("poisoned", u64::from(tree.is_poisoned())),
    ];
    let mut text = String::new();
    let pid = ("pid", u64::from(std::process::id()));
    for (name, number) in [pid].into_iter().chain(tree.counts.all()).chain(others) {
        text.push_str(&format!("{name} {number}\n"));
    }
    text.push_str(&format!("lower {}\n", served.place.lower.display()));
    text.push_str(&format!("log {}\n", served.place.log.display()));
    text
}
