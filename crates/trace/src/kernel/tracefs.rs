//! A tracefs instance of our own: other tracing is not touched, and other events are not seen.
//!
//! An instance outlives its process. `Drop` removes it, or a guard process if we are killed, or the
//! next run if the guard was killed too. Removing an instance that is in use fails. Every
//! `oneflush-…` of a dead process may therefore be tried.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::{MountFlags, mount};

use super::{Guard, KernelError, enter_private_namespace, ring};

const NAME_PREFIX: &str = "oneflush-";

const BUFFER_KIB_PER_CPU_MIN: usize = 1 << 10;

/// A directory in `instances`; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    guard: Option<Guard>,
}

impl Instance {
    /// A new instance, with recording off, whose clock is CLOCK_MONOTONIC.
    pub fn make() -> Result<Instance, KernelError> {
        let root = find_or_mount_tracefs().map_err(|reason| KernelError::NoTracefs { reason })?;
        let instances = root.join("instances");
        remove_stale(&instances);
        let instance =
            Instance::directory(&instances).map_err(|reason| KernelError::NoTracefs { reason })?;
        instance.write("tracing_on", "0")?;
        // One clock for all processors: events of a thread that moves must stay in order.
        instance.write("trace_clock", "mono")?;
        Ok(instance)
    }

    fn directory(instances: &Path) -> io::Result<Instance> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = instances.join(format!("{NAME_PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        let mut instance = Instance { path, guard: None };
        instance.guard = Some(Guard::of_trace_instance(&instance.path)?);
        Ok(instance)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Memory for events: `kib_total` for all processors together, at least 1 and at most
    /// `kib_per_cpu_max` for each. Reading wakes when a processor's buffer is full to
    /// `wake_percent`.
    pub fn size(
        &self,
        kib_total: usize,
        kib_per_cpu_max: usize,
        wake_percent: u32,
    ) -> Result<(), KernelError> {
        let kib =
            (kib_total / self.cpus()?.len().max(1)).clamp(BUFFER_KIB_PER_CPU_MIN, kib_per_cpu_max);
        self.write("buffer_size_kb", &kib.to_string())?;
        self.write("buffer_percent", &wake_percent.to_string())
    }

    pub fn event_dir(&self, event: &str) -> PathBuf {
        self.path.join("events").join(event)
    }

    pub fn write(&self, file: &str, text: &str) -> Result<(), KernelError> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|reason| KernelError::Write { path, reason })
    }

    /// Empties all buffers and sets their counters back.
    pub fn clear(&self) -> Result<(), KernelError> {
        // Opening for writing with O_TRUNC empties the file.
        self.write("trace", "")
    }

    fn cpus(&self) -> Result<Vec<PathBuf>, KernelError> {
        let path = self.path.join("per_cpu");
        let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|reason| KernelError::Read { path, reason })?;
        Ok(entries.into_iter().map(|entry| entry.path()).collect())
    }

    /// The buffers of all processors, to read. They must be closed before the instance can go away.
    pub fn buffers(&self) -> Result<Buffers, KernelError> {
        let pipes = self.cpus()?.iter().map(|cpu| self.open_pipe(cpu)).collect::<Result<_, _>>()?;
        Ok(Buffers { pipes, sub_buffer: vec![0; self.sub_buffer_bytes()] })
    }

    fn open_pipe(&self, cpu: &Path) -> Result<(u32, File), KernelError> {
        use std::os::unix::fs::OpenOptionsExt;
        let number = cpu
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix("cpu")?.parse().ok())
            .unwrap_or(0);
        let path = cpu.join("trace_pipe_raw");
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        Ok((number, opened.map_err(|reason| KernelError::Read { path, reason })?))
    }

    /// A page, unless the kernel was told otherwise (Linux 6.8).
    fn sub_buffer_bytes(&self) -> usize {
        let kib = fs::read_to_string(self.path.join("buffer_subbuf_size_kb")).ok();
        let kib = kib.and_then(|text| text.trim().parse::<usize>().ok());
        kib.map_or_else(rustix::param::page_size, |kib| kib * 1024)
    }

    /// Events that found no room since the buffers were emptied.
    pub fn lost(&self) -> Result<u64, KernelError> {
        let mut lost = 0;
        for cpu in self.cpus()? {
            let path = cpu.join("stats");
            let text =
                fs::read_to_string(&path).map_err(|reason| KernelError::Read { path, reason })?;
            lost += text
                .lines()
                .filter_map(|line| line.split_once(": "))
                .filter(|(name, _)| {
                    matches!(*name, "overrun" | "commit overrun" | "dropped events")
                })
                .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
                .sum::<u64>();
        }
        Ok(lost)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The error has no one to report to. The guard or the next run tries again.
        let _ = fs::remove_dir(&self.path);
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// The binary buffers of an instance, one for each processor.
#[derive(Debug)]
pub struct Buffers {
    pipes: Vec<(u32, File)>,
    sub_buffer: Vec<u8>,
}

impl Buffers {
    /// The files that become readable when a buffer is full enough.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.pipes.iter().map(|(_, file)| file)
    }

    /// Calls `each(processor, time_ns, record)` for all that is there. The order is that of time
    /// for each processor.
    pub fn read(&mut self, mut each: impl FnMut(u32, u64, &[u8])) -> io::Result<()> {
        for (cpu, pipe) in &mut self.pipes {
            loop {
                match pipe.read(&mut self.sub_buffer) {
                    Ok(0) => break,
                    Ok(length) => ring::records(&self.sub_buffer[..length], |time_ns, record| {
                        each(*cpu, time_ns, record)
                    }),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

/// The place of tracefs. If there is none, mounts it in a mount namespace of our own.
pub fn find_or_mount_tracefs() -> io::Result<PathBuf> {
    let usual = Path::new("/sys/kernel/tracing");
    for path in [usual, Path::new("/sys/kernel/debug/tracing")] {
        if path.join("instances").is_dir() {
            return Ok(path.to_owned());
        }
    }
    enter_private_namespace()?;
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
            // Busy: the instance belongs to a process in another PID namespace, which is not
            // visible here.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that the name of an instance names.
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
