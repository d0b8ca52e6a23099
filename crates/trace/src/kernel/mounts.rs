//! Which file system a path is on: `/proc/self/mountinfo` (proc(5)).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::escape::unescape;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MountInfo {
    /// The name in mount(2): `ext4`.
    pub fs: String,
    /// `/dev/loop0`. Other file systems have what their driver shows.
    pub source: String,
    pub mount_point: PathBuf,
    /// Per mount, then per file system, without repetitions.
    pub options: String,
    /// 0 for a file system without a block device of its own (btrfs, overlay, tmpfs).
    pub major: u32,
    pub minor: u32,
}

impl MountInfo {
    /// The mount that `path` is on.
    pub fn of(path: &Path) -> io::Result<MountInfo> {
        let path = fs::canonicalize(path)?;
        // The longest mount point that contains the path wins. Of several mounts on one point, the
        // last wins: it covers the others.
        MountInfo::all()?
            .into_iter()
            .filter(|mount| path.starts_with(&mount.mount_point))
            .max_by_key(|mount| mount.mount_point.as_os_str().len())
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, "no mount found in /proc/self/mountinfo")
            })
    }

    /// All mounts that this thread sees.
    pub fn all() -> io::Result<Vec<MountInfo>> {
        let table = fs::read("/proc/thread-self/mountinfo")?;
        Ok(table.split(|&byte| byte == b'\n').filter_map(parse).collect())
    }

    /// Major and minor number of the block device; `None` where there is no one block device.
    pub fn device(&self) -> Option<(u32, u32)> {
        if self.major != 0 {
            return Some((self.major, self.minor));
        }
        // btrfs shows an anonymous number, but names the device.
        let rdev = fs::metadata(&self.source)
            .ok()
            .map(|metadata| metadata.rdev())
            .filter(|&rdev| rdev != 0)?;
        Some((rustix::fs::major(rdev), rustix::fs::minor(rdev)))
    }

    /// The whole disk below, by its name in `/sys/block`. `None` where there is no one block
    /// device.
    pub fn disk(&self) -> Option<String> {
        let (major, minor) = self.device()?;
        let node = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        // A partition is a directory inside its disk's.
        let disk = if node.join("partition").exists() { node.parent()? } else { &node };
        Some(disk.file_name()?.to_string_lossy().into_owned())
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse(line: &[u8]) -> Option<MountInfo> {
    let mut fields = line.split(|&byte| byte == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    let device = text(fields.nth(2)?);
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mount_options = text(fields.next()?);
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let fs = text(rest.next()?);
    let source = text(rest.next()?);
    let fs_options = text(rest.next()?);
    let (major, minor) = device.split_once(':')?;
    let mut options: Vec<&str> = mount_options.split(',').collect();
    for option in fs_options.split(',') {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(MountInfo {
        fs,
        source,
        mount_point,
        options: options.join(","),
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_with_optional_fields_and_escapes_is_read() {
        let line = b"36 35 98:5 / /mnt/a\\040b rw,noatime master:1 shared:2 - ext4 \
            /dev/root rw,errors=continue";
        let mount = parse(line).unwrap();
        assert_eq!(mount.mount_point, Path::new("/mnt/a b"));
        assert_eq!((mount.major, mount.minor), (98, 5));
        assert_eq!(mount.fs, "ext4");
        assert_eq!(mount.options, "rw,noatime,errors=continue");
    }

    #[test]
    fn short_line_is_ignored() {
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 98:5 / /mnt rw"), None);
    }

    #[test]
    fn root_has_a_mount() {
        assert!(MountInfo::of(Path::new("/")).unwrap().mount_point.is_absolute());
    }
}
