//! What is recorded: a block device, and the file system on it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::RecordError;
use crate::kernel::{FileSystem, MountInfo, Volume};
use crate::model::SECTOR_BYTES;

#[derive(Clone, Debug)]
pub struct Target {
    pub volume: Volume,
    /// As mount(2) names it; none where the device is not mounted.
    pub file_system: Option<String>,
    /// Files below it get names; none where the device is not mounted.
    pub directory: Option<PathBuf>,
}

impl Target {
    /// The device that a directory is on; only files below the directory get names.
    pub fn of_directory(dir: &Path) -> Result<Target, RecordError> {
        let wrong = |reason: String| RecordError::Directory { dir: dir.to_owned(), reason };
        let directory = fs::canonicalize(dir).map_err(|error| wrong(error.to_string()))?;
        if !directory.is_dir() {
            return Err(wrong("is not a directory".to_owned()));
        }
        let mount = MountInfo::of(&directory).map_err(|error| wrong(error.to_string()))?;
        let number = mount
            .device()
            .ok_or_else(|| RecordError::NoDevice { dir: dir.to_owned(), file_system: mount.fs.clone() })?;
        let inode_dev = fs::metadata(&directory).map_err(|error| wrong(error.to_string()))?.dev();
        let volume = volume(number, Some((&mount, inode_dev))).map_err(wrong)?;
        Ok(Target { volume, file_system: Some(mount.fs), directory: Some(directory) })
    }

    /// By `/dev/sda1` or `sda1`; where it is mounted, all its files get names.
    pub fn of_device(device: &Path) -> Result<Target, RecordError> {
        let wrong = |reason: String| RecordError::Device { device: device.to_owned(), reason };
        let path = if device.components().count() == 1 { Path::new("/dev").join(device) } else { device.to_owned() };
        let metadata = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
        if !metadata.file_type().is_block_device() {
            return Err(wrong("is not a block device".to_owned()));
        }
        let number = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
        let mounts = MountInfo::all().map_err(|error| wrong(error.to_string()))?;
        let mount = mounts.into_iter().find(|mount| mount.device() == Some(number));
        let with_inodes = mount.as_ref().and_then(|mount| Some((mount, fs::metadata(&mount.mount_point).ok()?.dev())));
        let volume = volume(number, with_inodes).map_err(wrong)?;
        let directory = mount.as_ref().map(|mount| mount.mount_point.clone());
        Ok(Target { volume, file_system: mount.map(|mount| mount.fs), directory })
    }

    /// In one line, for the head of a recording.
    pub fn describe(&self) -> String {
        let (major, minor) = self.volume.partition.unwrap_or(self.volume.disk);
        let device = format!("/dev/{} ({major},{minor})", self.volume.name);
        match (&self.file_system, &self.directory) {
            (Some(file_system), Some(directory)) => {
                format!("{device}, {file_system}, files below {}", directory.display())
            }
            _ => format!("{device}, not mounted: no file names"),
        }
    }
}

fn volume(number: (u32, u32), mount: Option<(&MountInfo, u64)>) -> Result<Volume, String> {
    let link = format!("/sys/dev/block/{}:{}", number.0, number.1);
    let node = fs::canonicalize(&link).map_err(|error| format!("{link}: {error}"))?;
    let name = node.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut disk, mut partition, mut start_bytes) = (number, None, 0);
    if node.join("partition").exists() {
        let whole = node.parent().ok_or("a partition without a disk")?;
        disk = read(&whole.join("dev"))?
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or("its disk has no number")?;
        partition = Some(number);
        start_bytes = read(&node.join("start"))?.parse::<u64>().map_err(|error| error.to_string())? * SECTOR_BYTES;
    }
    let file_system = mount.map_or(FileSystem::Other, |(mount, _)| FileSystem::named(&mount.fs));
    let inode_dev = mount.map_or(number, |(_, dev)| (rustix::fs::major(dev), rustix::fs::minor(dev)));
    let mount_point = mount.map_or_else(|| PathBuf::from("/"), |(mount, _)| mount.mount_point.clone());
    Ok(Volume { name, disk, partition, start_bytes, file_system, mount_point, inode_dev })
}

fn read(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}
