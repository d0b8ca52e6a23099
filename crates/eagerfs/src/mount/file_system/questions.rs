//! Questions that programs ask the daemon, answered.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fuser::ReplyXattr;

use super::super::answer::errno;
use super::super::control::Question;
use super::served::Served;

impl Served {
    pub fn answer(self: &Arc<Self>, question: Question, size: u32, reply: ReplyXattr) {
        match question {
            Question::Unknown => reply.error(fuser::Errno::ENODATA),
            Question::Stats => {
                let text = self.stats().into_bytes();
                match size as usize {
                    0 => reply.size(text.len() as u32),
                    size if size >= text.len() => reply.data(&text),
                    _ => reply.error(fuser::Errno::ERANGE),
                }
            }
            // Who only asks how long the answer is has not asked for it yet.
            Question::Sync if size == 0 => reply.size(1),
            Question::Sync => {
                self.run(
                    |served| &served.syncing,
                    move |served| match served.sync_all() {
                        Ok(()) => reply.data(&[]),
                        Err(error) => reply.error(errno(&error)),
                    },
                );
            }
        }
    }

    /// Not on a thread that answers the kernel.
    pub fn sync_all(&self) -> io::Result<()> {
        self.nodes.written().into_iter().for_each(|number| self.fetch(number));
        self.tree.sync_all()
    }

    /// A name and a value a line.
    fn stats(&self) -> String {
        let tree = &self.tree;
        let (position, waits) = tree.log_state();
        let others = [
            ("written_bytes", self.written_bytes.load(Ordering::Relaxed)),
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
        text.push_str(&format!("lower {}\n", self.place.lower.display()));
        text.push_str(&format!("log {}\n", self.place.log.display()));
        text
    }
}
