//! What a number depends on: it is part of every output, so that a result can be judged later.

mod block_device;
mod system;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use block_device::DeviceInfo;
pub(crate) use block_device::device;

use crate::place::Place;
use oneflush_trace::kernel::MountInfo;

/// Kernel, SQLite, file system, device and machine of a run. Empty strings: not known here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub oneflush_version: String,
    /// Cargo's profile that it was compiled with: `release`, or `dist` for what is published.
    #[serde(default)]
    pub profile: String,
    /// RFC 3339, UTC.
    pub date: String,
    pub kernel: String,
    pub sqlite_version: String,
    pub sqlite_source_id: String,
    /// As [`Place::describe`].
    pub place: String,
    pub fs: String,
    pub mount_options: String,
    pub device: Option<DeviceInfo>,
    pub cpu_model: String,
    pub cpu_count: usize,
    pub memory_bytes: u64,
}

/// Looks around; what cannot be found out stays empty, because no run should fail for it.
pub fn collect(place: &Place) -> Environment {
    let mount = MountInfo::of(place.path()).ok();
    let disk = match place.device() {
        Some(device) => Some(device.name.clone()),
        None => mount.as_ref().and_then(MountInfo::disk),
    };
    let (fs, mount_options) = mount.map(|mount| (mount.fs, mount.options)).unwrap_or_default();
    // The kernel's name of one that we made says nothing of its features.
    let fs = place.device().map_or(fs, |device| device.fs.to_string());
    let (sqlite_version, sqlite_source_id) = system::sqlite();
    let (cpu_model, cpu_count) = system::cpu();
    Environment {
        oneflush_version: env!("CARGO_PKG_VERSION").to_owned(),
        profile: env!("ONEFLUSH_PROFILE").to_owned(),
        date: system::date(),
        kernel: system::kernel(),
        sqlite_version,
        sqlite_source_id,
        place: place.describe(),
        fs,
        mount_options,
        device: disk.map(|name| device(&name)),
        cpu_model,
        cpu_count,
        memory_bytes: system::memory_bytes(),
    }
}

/// At most six lines of at most 80 columns.
impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, label: &str, text: &str| {
            let text: String = text.chars().take(70).collect();
            writeln!(f, "{label:<9} {text}")
        };
        let id: String = self.sqlite_source_id.chars().skip(20).take(12).collect();
        let built = if self.profile.is_empty() {
            String::new()
        } else {
            format!(" (profile {})", self.profile)
        };
        line(f, "oneflush", &format!("{}{built}, {}", self.oneflush_version, self.date))?;
        line(
            f,
            "software",
            &format!("SQLite {} ({id}), Linux {}", self.sqlite_version, self.kernel),
        )?;
        line(f, "place", &self.place)?;
        line(f, "mount", &format!("{} {}", self.fs, self.mount_options))?;
        if let Some(device) = &self.device {
            line(f, "device", &device.to_string())?;
        }
        let gib = self.memory_bytes as f64 / (1u64 << 30) as f64;
        let cpu: String = self.cpu_model.chars().take(42).collect();
        line(f, "machine", &format!("{cpu}, {} CPUs, {gib:.1} GiB", self.cpu_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_a_terminal_and_names_what_matters() {
        let place = Place::temporary().unwrap();
        let environment = collect(&place);
        let text = environment.to_string();
        assert!(text.lines().count() <= 6, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("SQLite 3.") && text.contains("Linux "), "{text}");
        assert!(environment.cpu_count > 0 && environment.memory_bytes > 0);
        assert!(!environment.fs.is_empty());
    }
}
