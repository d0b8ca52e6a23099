//! Threads: their names, their processes, and whether they are recorded.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::{RecordError, text};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    /// Empty if unknown.
    comm: Vec<u8>,
    process: Option<u32>,
    /// Made from the name and the process once, for the many lines that begin with it.
    head: Vec<u8>,
}

impl Thread {
    pub(super) fn new(number: u32, comm: &[u8], process: Option<u32>) -> Thread {
        Thread { comm: comm.to_vec(), process, head: text::thread(number, comm, process) }
    }

    /// What the head of a line says of the thread.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }
}

/// More threads than these are looked up again, now and then.
const KNOWN_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Threads {
    known: HashMap<u32, Thread>,
    /// `None`: all are recorded.
    only: Option<HashSet<u32>>,
}

impl Threads {
    /// Only this process, and the processes that it has started or will start.
    pub(super) fn of_process(pid: u32) -> Result<Threads, RecordError> {
        let mut only = HashSet::new();
        let mut processes = vec![pid];
        let children = children();
        while let Some(process) = processes.pop() {
            let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
            only.extend(
                tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()),
            );
            processes.extend(
                children.iter().filter(|(_, parent)| *parent == process).map(|(child, _)| *child),
            );
        }
        if !only.contains(&pid) {
            return Err(RecordError::NoProcess { pid });
        }
        Ok(Threads { known: HashMap::new(), only: Some(only) })
    }

    pub(super) fn are_all(&self) -> bool {
        self.only.is_none()
    }

    /// Whether the acts of this thread are recorded. Those of a file system's journal always are.
    pub(super) fn is_recorded(&mut self, thread: u32) -> bool {
        let Some(only) = &self.only else { return true };
        only.contains(&thread) || self.get(thread, None).comm.starts_with(b"jbd2/")
    }

    pub(super) fn forked(&mut self, parent: u32, child: u32) {
        self.known.remove(&child);
        if let Some(only) = &mut self.only
            && only.contains(&parent)
        {
            only.insert(child);
        }
    }

    pub(super) fn ended(&mut self, thread: u32) {
        self.known.remove(&thread);
        if let Some(only) = &mut self.only {
            only.remove(&thread);
        }
    }

    /// The thread calls itself something else now.
    pub(super) fn renamed(&mut self, thread: u32) {
        self.known.remove(&thread);
    }

    /// Events of a thread may come behind its end, and would keep it known for ever.
    pub(super) fn tidy_up(&mut self) {
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
    }

    /// `comm`: the name of the thread, if the event says it.
    pub(super) fn get(&mut self, thread: u32, comm: Option<&[u8]>) -> &Thread {
        let known = self.known.entry(thread).or_insert_with(|| look_up(thread));
        if let Some(comm) = comm
            && known.comm != comm
        {
            *known = Thread::new(thread, comm, known.process);
        }
        known
    }
}

/// A thread that is gone already has neither.
fn look_up(thread: u32) -> Thread {
    if thread == 0 {
        return Thread::new(thread, b"<idle>", None);
    }
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    let comm = fs::read(format!("/proc/{thread}/comm")).unwrap_or_default();
    Thread::new(thread, comm.trim_ascii_end(), process)
}

/// All processes with their parents.
fn children() -> Vec<(u32, u32)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(entry.path().join("status")).ok()?;
            let parent =
                status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())?;
            Some((process, parent))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_what_it_starts_are_recorded_and_others_are_not() {
        let mut threads = Threads::of_process(std::process::id()).unwrap();
        assert!(threads.is_recorded(std::process::id()));
        assert!(!threads.is_recorded(1));
        let child = u32::MAX - 1;
        assert!(!threads.is_recorded(child));
        threads.forked(std::process::id(), child);
        assert!(threads.is_recorded(child));
        threads.ended(child);
        assert!(!threads.is_recorded(child));
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(matches!(Threads::of_process(u32::MAX - 1), Err(RecordError::NoProcess { .. })));
    }
}
