//! What is recorded: a block device, and the file system on it.
//!
//! With it come the devices that it lies on, unless nobody wants them ([`Targets::with_below`]).

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::RecordError;
use super::stack::{self, Backing};
use crate::kernel::{FileSystem, MountInfo, Volume};
use crate::model::SECTOR_BYTES;

#[derive(Clone, Debug)]
pub struct Target {
    pub volume: Volume,
    /// As mount(2) names it; none where the device is not mounted.
    pub file_system: Option<String>,
    /// Files below these get names. Empty if the device is not mounted, or if nobody has asked for
    /// it.
    pub directories: Vec<PathBuf>,
    /// Another device lies on it. Its events carry the numbers that the kernel gives them.
    pub(super) is_below: bool,
    /// The device has no requests of its own, but those of devices below.
    pub(super) is_mapped: bool,
}

/// All devices of one recording, each once.
#[derive(Clone, Debug)]
pub struct Targets {
    /// Never empty. The devices that were asked for come first.
    all: Vec<Target>,
    named_count: usize,
    /// Loop devices, and where their files are.
    pub(super) on_file: Vec<(Number, Backing)>,
    /// Loop devices whose files are on a device that is not recorded.
    left_out: Vec<(Number, Backing)>,
}

type Number = (u32, u32);

impl From<Target> for Targets {
    /// This one alone.
    fn from(target: Target) -> Targets {
        Targets { all: vec![target], named_count: 1, on_file: Vec::new(), left_out: Vec::new() }
    }
}

impl Targets {
    /// `named`: at least one. Two directories of one device are one target.
    pub fn new(named: Vec<Target>) -> Result<Targets, RecordError> {
        let mut all: Vec<Target> = Vec::new();
        for target in named {
            match all.iter_mut().find(|known| known.number() == target.number()) {
                None => all.push(target),
                Some(known) if known.volume.inode_dev == target.volume.inode_dev => {
                    let new = target
                        .directories
                        .into_iter()
                        .filter(|new| !known.directories.contains(new));
                    known.directories.extend(new.collect::<Vec<_>>());
                }
                Some(known) => {
                    let [one, other] = [known, &target].map(Target::describe);
                    return Err(RecordError::Subvolumes { one, other });
                }
            }
        }
        let named_count = all.len();
        Ok(Targets { all, named_count, on_file: Vec::new(), left_out: Vec::new() })
    }

    /// Adds the devices that the targets lie on: those below the device mapper and md, which hand
    /// their requests on. The device of a loop device's file does much else. It is only recorded if
    /// it is asked for, or if `follows_files`.
    pub fn with_below(mut self, follows_files: bool) -> Result<Targets, RecordError> {
        let mut open: VecDeque<Number> = self.all.iter().map(|target| target.volume.disk).collect();
        let mut seen: Vec<Number> = Vec::new();
        while let Some(upper) = open.pop_front() {
            if seen.contains(&upper) {
                continue;
            }
            seen.push(upper);
            for lower in stack::mapped(upper) {
                let target = self.add_below(lower)?;
                open.push_back(target.volume.disk);
            }
            let Some(backing) = stack::backing(upper) else { continue };
            if follows_files || self.all.iter().any(|known| known.number() == backing.device) {
                let target = self.add_below(backing.device)?;
                open.push_back(target.volume.disk);
                self.on_file.push((upper, backing));
            } else {
                self.left_out.push((upper, backing));
            }
        }
        Ok(self)
    }

    /// Adds only the devices below the device mapper and md, where a request is known again.
    pub fn with_mapped(self) -> Result<Targets, RecordError> {
        let mut targets = self.with_below(false)?;
        targets.on_file.clear();
        targets.left_out.clear();
        Ok(targets)
    }

    fn add_below(&mut self, lower: Number) -> Result<&Target, RecordError> {
        let at = match self.all.iter().position(|known| known.number() == lower) {
            Some(at) => at,
            None => {
                let mut target = Target { directories: Vec::new(), ..Target::of_number(lower)? };
                // Their events are read by what the superblock says.
                let needs_superblock =
                    matches!(target.volume.file_system, FileSystem::Btrfs | FileSystem::F2fs);
                if needs_superblock && !target.volume.is_readable() {
                    target.volume.file_system = FileSystem::Other;
                }
                self.all.push(target);
                self.all.len() - 1
            }
        };
        self.all[at].is_below = true;
        Ok(&self.all[at])
    }

    /// Loop devices whose files are on a device that is not recorded, in words.
    pub fn left_out(&self) -> Vec<String> {
        let said = |(upper, backing): &(Number, Backing)| {
            let [upper, lower] =
                [*upper, backing.device].map(|(major, minor)| format!("{major},{minor}"));
            format!("device {upper} is a file on device {lower}")
        };
        self.left_out.iter().map(said).collect()
    }

    /// The devices that were asked for.
    pub fn named(&self) -> &[Target] {
        &self.all[..self.named_count]
    }

    pub(super) fn is_named(&self, number: usize) -> bool {
        number < self.named_count
    }

    pub(super) fn all(&self) -> &[Target] {
        &self.all
    }

    /// In one line each, for the head of a recording.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let of_below = |target: &Target| {
            format!("/dev/{} {}, below", target.volume.name, target.said_number())
        };
        let (named, below) = self.all.split_at(self.named_count);
        named.iter().map(Target::describe).chain(below.iter().map(of_below))
    }

    /// In one line.
    pub fn describe(&self) -> String {
        self.lines().collect::<Vec<_>>().join("; ")
    }
}

impl Target {
    /// The device that a directory is on. Only files below the directory get names.
    pub fn of_directory(dir: &Path) -> Result<Target, RecordError> {
        let wrong = |reason: String| RecordError::Directory { dir: dir.to_owned(), reason };
        let directory = fs::canonicalize(dir).map_err(|error| wrong(error.to_string()))?;
        if !directory.is_dir() {
            return Err(wrong("is not a directory".to_owned()));
        }
        let mount = MountInfo::of(&directory).map_err(|error| wrong(error.to_string()))?;
        let number = mount.device().ok_or_else(|| RecordError::NoDevice {
            dir: dir.to_owned(),
            file_system: mount.fs.clone(),
        })?;
        let inode_dev = fs::metadata(&directory).map_err(|error| wrong(error.to_string()))?.dev();
        let volume = volume(number, Some((&mount, inode_dev))).map_err(wrong)?;
        Ok(Target::new(volume, Some(mount.fs), vec![directory]))
    }

    /// The device by `/dev/sda1` or `sda1`. If it is mounted, all its files get names.
    pub fn of_device(device: &Path) -> Result<Target, RecordError> {
        let wrong = |reason: String| RecordError::Device { device: device.to_owned(), reason };
        let path = if device.components().count() == 1 {
            Path::new("/dev").join(device)
        } else {
            device.to_owned()
        };
        let metadata = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
        if !metadata.file_type().is_block_device() {
            return Err(wrong("is not a block device".to_owned()));
        }
        Target::of_number((rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev())))
            .map_err(|error| {
                // By the name that was given.
                match error {
                    RecordError::Device { reason, .. } => wrong(reason),
                    error => error,
                }
            })
    }

    fn of_number(number: Number) -> Result<Target, RecordError> {
        let device = || PathBuf::from(format!("{},{}", number.0, number.1));
        let wrong = |reason: String| RecordError::Device { device: device(), reason };
        let mounts = MountInfo::all().map_err(|error| wrong(error.to_string()))?;
        let mount = mounts.into_iter().find(|mount| mount.device() == Some(number));
        let with_inodes = mount
            .as_ref()
            .and_then(|mount| Some((mount, fs::metadata(&mount.mount_point).ok()?.dev())));
        let volume = volume(number, with_inodes).map_err(wrong)?;
        let directories = mount.iter().map(|mount| mount.mount_point.clone()).collect();
        Ok(Target::new(volume, mount.map(|mount| mount.fs), directories))
    }

    fn new(volume: Volume, file_system: Option<String>, directories: Vec<PathBuf>) -> Target {
        let is_mapped = stack::is_mapped(volume.disk);
        Target { volume, file_system, directories, is_below: false, is_mapped }
    }

    fn number(&self) -> Number {
        self.volume.partition.unwrap_or(self.volume.disk)
    }

    fn said_number(&self) -> String {
        let (major, minor) = self.number();
        format!("({major},{minor})")
    }

    /// In one line.
    pub fn describe(&self) -> String {
        let device = format!("/dev/{} {}", self.volume.name, self.said_number());
        match (&self.file_system, self.directories.as_slice()) {
            (Some(file_system), directories @ [_, ..]) => {
                let directories: Vec<_> =
                    directories.iter().map(|path| path.display().to_string()).collect();
                format!("{device}, {file_system}, files below {}", directories.join(" and "))
            }
            _ => format!("{device}, not mounted: no file names"),
        }
    }
}

fn volume(number: (u32, u32), mount: Option<(&MountInfo, u64)>) -> Result<Volume, String> {
    let link = stack::node(number);
    let node = fs::canonicalize(&link).map_err(|error| format!("{}: {error}", link.display()))?;
    let name = node.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut disk, mut partition, mut start_bytes) = (number, None, 0);
    if node.join("partition").exists() {
        let whole = node.parent().ok_or("a partition without a disk")?;
        disk = stack::number(&whole.join("dev")).ok_or("its disk has no number")?;
        partition = Some(number);
        start_bytes =
            read(&node.join("start"))?.parse::<u64>().map_err(|error| error.to_string())?
                * SECTOR_BYTES;
    }
    let file_system = mount.map_or(FileSystem::Other, |(mount, _)| FileSystem::named(&mount.fs));
    let inode_dev =
        mount.map_or(number, |(_, dev)| (rustix::fs::major(dev), rustix::fs::minor(dev)));
    let mount_point =
        mount.map_or_else(|| PathBuf::from("/"), |(mount, _)| mount.mount_point.clone());
    Ok(Volume { name, disk, partition, start_bytes, file_system, mount_point, inode_dev })
}

fn read(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.trim().to_owned())
}
