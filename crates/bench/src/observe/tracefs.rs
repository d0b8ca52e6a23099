//! A tracefs instance of our own: nobody else's tracing is touched, nobody else's events are seen.
//!
//! An instance outlives its process. It is removed by `Drop`, by a guard process if we are killed, and by
//! the next run if that was killed too: removing an instance that is in use fails, so every
//! `oneflush-…` of a dead process may be tried.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::{MountFlags, mount};

use super::ObserveError;
use super::attribute::Event;
use super::decode::Decoder;
use super::drain::Drain;
use crate::place::guard::Guard;
use crate::place::{Device, enter_private_namespace};

const NAME_PREFIX: &str = "oneflush-";

/// Memory for events, all processors together; a slice of 10,000 commits needs about 5 MiB.
const BUFFER_KIB_TOTAL: usize = 64 << 10;
const BUFFER_KIB_PER_CPU_MIN: usize = 1 << 10;
const BUFFER_KIB_PER_CPU_MAX: usize = 16 << 10;

/// Reading begins when a processor's buffer is so full: early enough to lose nothing, and never in a short slice.
const WAKE_PERCENT: u32 = 25;

#[derive(Debug)]
pub(super) struct Trace {
    /// Above `instance`, so dropped before it: an instance in use cannot be removed.
    drain: Option<Drain>,
    decoder: Decoder,
    instance: Instance,
}

/// What a slice left in the buffers.
pub(super) struct Recorded {
    /// In the order of time.
    pub(super) events: Vec<Event>,
    pub(super) lost: u64,
}

impl Trace {
    /// `inode_dev`: the device number that the file system's inodes carry, which at btrfs is not the device's.
    pub(super) fn open(device: &Device, inode_dev: u64) -> Result<Trace, ObserveError> {
        let root = mount_point().map_err(|reason| ObserveError::NoTracefs { reason })?;
        let instances = root.join("instances");
        remove_stale(&instances);
        let instance = Instance::make(&instances).map_err(|reason| ObserveError::NoTracefs { reason })?;
        let cpus = instance.cpus()?;
        let kib = (BUFFER_KIB_TOTAL / cpus.len().max(1)).clamp(BUFFER_KIB_PER_CPU_MIN, BUFFER_KIB_PER_CPU_MAX);
        instance.write("tracing_on", "0")?;
        // One clock for all processors: events of a thread that moves must stay in order.
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &kib.to_string())?;
        instance.write("buffer_percent", &WAKE_PERCENT.to_string())?;
        let decoder = Decoder::enable(&instance, device, inode_dev)?;
        Ok(Trace { drain: None, decoder, instance })
    }

    pub(super) fn start(&mut self) -> Result<(), ObserveError> {
        self.drain = None;
        // Opening for writing with O_TRUNC empties all buffers and resets their counters.
        self.instance.write("trace", "")?;
        let pipes = self.instance.cpus()?.iter().map(|cpu| self.instance.open_pipe(cpu)).collect::<Result<_, _>>()?;
        self.drain = Some(Drain::start(pipes, self.instance.sub_buffer_bytes(), self.decoder.clone())?);
        self.instance.write("tracing_on", "1")
    }

    pub(super) fn stop(&mut self) -> Result<Recorded, ObserveError> {
        self.instance.write("tracing_on", "0")?;
        let drain = self.drain.take().ok_or(ObserveError::NotStarted)?;
        let mut events = drain.finish()?;
        events.sort_by_key(|event| event.time_ns);
        Ok(Recorded { events, lost: self.instance.lost()? })
    }
}

/// A directory in `instances`; removed when dropped.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    guard: Option<Guard>,
}

impl Instance {
    fn make(instances: &Path) -> io::Result<Instance> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = instances.join(format!("{NAME_PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let mut instance = Instance { path, guard: None };
        instance.guard = Some(Guard::of_trace_instance(&instance.path)?);
        Ok(instance)
    }

    pub(super) fn event_dir(&self, event: &str) -> PathBuf {
        self.path.join("events").join(event)
    }

    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), ObserveError> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|reason| ObserveError::Write { path, reason })
    }

    fn cpus(&self) -> Result<Vec<PathBuf>, ObserveError> {
        let path = self.path.join("per_cpu");
        let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|reason| ObserveError::Read { path, reason })?;
        Ok(entries.into_iter().map(|entry| entry.path()).collect())
    }

    fn open_pipe(&self, cpu: &Path) -> Result<File, ObserveError> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = cpu.join("trace_pipe_raw");
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        opened.map_err(|reason| ObserveError::Read { path, reason })
    }

    /// A page, unless the kernel was told otherwise (Linux 6.8).
    fn sub_buffer_bytes(&self) -> usize {
        let kib = fs::read_to_string(self.path.join("buffer_subbuf_size_kb")).ok();
        let kib = kib.and_then(|text| text.trim().parse::<usize>().ok());
        kib.map_or_else(rustix::param::page_size, |kib| kib * 1024)
    }

    /// Events that found no room since the buffers were emptied.
    fn lost(&self) -> Result<u64, ObserveError> {
        let mut lost = 0;
        for cpu in self.cpus()? {
            let path = cpu.join("stats");
            let text = fs::read_to_string(&path).map_err(|reason| ObserveError::Read { path, reason })?;
            lost += text
                .lines()
                .filter_map(|line| line.split_once(": "))
                .filter(|(name, _)| matches!(*name, "overrun" | "commit overrun" | "dropped events"))
                .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
                .sum::<u64>();
        }
        Ok(lost)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nobody is left to tell; the guard or the next run tries again.
        let _ = fs::remove_dir(&self.path);
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// Where tracefs is, or, in a mount namespace of our own, is now.
fn mount_point() -> io::Result<PathBuf> {
    let usual = Path::new("/sys/kernel/tracing");
    for path in [usual, Path::new("/sys/kernel/debug/tracing")] {
        if path.join("instances").is_dir() {
            return Ok(path.to_owned());
        }
    }
    enter_private_namespace().map_err(io::Error::other)?;
    mount("tracefs", usual, "tracefs", MountFlags::empty(), None)?;
    if usual.join("instances").is_dir() {
        Ok(usual.to_owned())
    } else {
        Err(io::Error::new(ErrorKind::NotFound, "this kernel's tracefs has no instances"))
    }
}

fn remove_stale(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        if let Some(pid) = owner(&entry.file_name().to_string_lossy())
            && !Path::new("/proc").join(pid.to_string()).exists()
        {
            // Busy: it belongs to a process that we do not see, in another PID namespace.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that an instance's name speaks of.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(NAME_PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_have_an_owner() {
        assert_eq!(owner("oneflush-12-0"), Some(12));
        assert_eq!(owner("oneflush-x"), None);
        assert_eq!(owner("other-12"), None);
    }
}
