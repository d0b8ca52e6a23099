//! How worn a device says it is: a file that the user names, or the device that is recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oneflush_trace::advise::Wear;
use oneflush_trace::record::Targets;

use crate::failure::Failure;

/// Such a file is a line or some KB of JSON.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// `--life-time FILE`, with `pre_eol_info` beside it.
pub fn read(path: &Path) -> Result<Wear, Failure> {
    let name = path.display();
    let way_out = "give an eMMC's life_time or an NVMe's SMART log with --life-time";
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format!("{name}: cannot be read: {error}; {way_out}"))
    };
    if path.metadata().is_ok_and(|file| file.is_file() && file.len() > FILE_BYTES_MAX) {
        return Err(failed(&"it is too long"));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let wear = Wear::parse(&name.to_string(), &text)
        .map_err(|error| Failure::failed(format!("{name}: {error}; --life-time takes either")))?;
    Ok(with_pre_eol(wear, path))
}

fn with_pre_eol(wear: Wear, life_time: &Path) -> Wear {
    match fs::read_to_string(life_time.with_file_name("pre_eol_info")) {
        Ok(text) => wear.with_pre_eol(&text),
        Err(_) => wear,
    }
}

/// What the first recorded device says, or the one that it lies on. Many say nothing.
pub fn of(targets: &Targets) -> Option<Wear> {
    let (major, minor) = targets.named().first()?.volume.disk;
    let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    of_sys(&lowest(device))
}

/// Through LVM, LUKS and such, as long as there is one device below.
fn lowest(mut device: PathBuf) -> PathBuf {
    // More layers than anybody has.
    for _ in 0..16 {
        if device.join("partition").exists()
            && let Some(disk) = device.parent()
        {
            device = disk.to_owned();
        }
        let slaves: Vec<PathBuf> = fs::read_dir(device.join("slaves"))
            .into_iter()
            .flatten()
            .filter_map(|entry| fs::canonicalize(entry.ok()?.path()).ok())
            .collect();
        match slaves.as_slice() {
            [slave] => device = slave.clone(),
            _ => break,
        }
    }
    device
}

fn of_sys(device: &Path) -> Option<Wear> {
    let name = device.file_name()?.to_str()?;
    let life_time = device.join("device/life_time");
    if let Ok(text) = fs::read_to_string(&life_time) {
        let wear = Wear::parse(&format!("/sys/block/{name}/device/life_time"), &text).ok()?;
        return Some(with_pre_eol(wear, &life_time));
    }
    if !name.starts_with("nvme") {
        return None;
    }
    let controller = format!("/dev/{}", controller(name)?);
    let log = Command::new("nvme")
        .args(["smart-log", "--output-format=json", &controller])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&log.stdout);
    Wear::parse(&format!("nvme smart-log {controller}"), &text).ok()
}

/// `nvme0` of `nvme0n1`.
fn controller(name: &str) -> Option<&str> {
    let digits = name.strip_prefix("nvme")?.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| &name[..4 + digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel shows an eMMC with a partition, and a mapped device on it.
    #[test]
    fn an_emmcs_own_words_are_found_below_a_mapped_partition() {
        let sys = tempfile::tempdir().unwrap();
        let disk = sys.path().join("mmcblk0");
        let partition = disk.join("mmcblk0p2");
        let mapped = sys.path().join("dm-0");
        fs::create_dir_all(&partition).unwrap();
        fs::create_dir_all(disk.join("device")).unwrap();
        fs::create_dir_all(mapped.join("slaves")).unwrap();
        fs::write(partition.join("partition"), "2\n").unwrap();
        fs::write(disk.join("device/life_time"), "0x02 0x01\n").unwrap();
        fs::write(disk.join("device/pre_eol_info"), "0x02\n").unwrap();
        std::os::unix::fs::symlink(&partition, mapped.join("slaves/mmcblk0p2")).unwrap();
        let found = lowest(mapped);
        assert_eq!(found, disk.canonicalize().unwrap());
        let wear = of_sys(&found).unwrap();
        assert_eq!((wear.used_share_min, wear.used_share_max), (Some(0.1), Some(0.2)));
        assert_eq!(wear.source, "/sys/block/mmcblk0/device/life_time");
        assert!(wear.warning.is_some());
    }

    #[test]
    fn a_namespace_belongs_to_its_controller() {
        assert_eq!(controller("nvme0n1"), Some("nvme0"));
        assert_eq!(controller("nvme12n3"), Some("nvme12"));
        assert_eq!(controller("sda"), None);
    }
}
