//! The ground of a file: whether its file system keeps what a sync promises, and locks as one
//! kernel does.
//!
//! | file system | fault |
//! |---|---|
//! | NFS, CIFS and SMB, AFS, Ceph, Lustre | another host may change the file |
//! | 9p, virtiofs, vboxsf | the host may keep syncs, and change the file |
//! | sshfs, GlusterFS, rclone and others by FUSE | as NFS |
//! | other FUSE, but for `fuse.oneflush` | its program decides what a sync does |
//! | overlay | as its upper directory |
//! | ext3, ext4 with `data=writeback` | a crash may show a block's old data |
//! | any with `nobarrier` or `barrier=0` | a sync does not flush the cache |
//! | tmpfs, ramfs | nothing outlives a loss of power |
//!
//! The judgement is by the mount of the file's directory in `/proc/thread-self/mountinfo`. The
//! mount is found by its number (`STATX_MNT_ID`, Linux 5.8). What cannot be looked at is not
//! refused. `sync=disabled` of ZFS does not show there. A sync that does nothing cannot be told
//! from one that does, so the type of the file system decides. What is refused there, each who
//! opens a database decides: `ground.rs` of the VFS, and the C functions of LS-MVBT.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// Overlays may lie on overlays.
const DEPTH_MAX: u32 = 8;

/// More than the mounts of most machines need.
const MOUNTS_BYTES: usize = 16 << 10;

/// The mounts of this thread: a process may have threads with mounts of their own.
///
/// The kernel says no size, so the room is made before. Each open of a database comes here.
pub fn mounts() -> io::Result<String> {
    let mut mounts = String::with_capacity(MOUNTS_BYTES);
    File::open("/proc/thread-self/mountinfo")?.read_to_string(&mut mounts)?;
    Ok(mounts)
}

/// What FUSE says of the file systems that several hosts may mount.
const FUSE_SHARED: [&str; 18] = [
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.mount-s3",
    "fuse.goofys",
    "fuse.gcsfuse",
    "fuse.blobfuse",
    "fuse.blobfuse2",
    "fuse.juicefs",
    "fuse.JuiceFS",
    "fuse.davfs",
    "fuse.mfs",
    "fuse.moosefs",
    "fuse.saunafs",
    "fuse.seaweedfs",
];

/// What is wrong with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Locks, the page cache and syncs may not hold.
    Shared,
    /// FUSE: a sync may do nothing.
    Fuse,
    Writeback,
    NoBarrier,
    /// Nothing outlives a loss of power.
    Memory,
}

/// What a file stands on, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// The type as in `/proc/thread-self/mountinfo`.
    pub file_system: String,
    pub fault: Option<Fault>,
}

impl Ground {
    /// The ground of a directory, or of a file, which need not exist. None: it cannot be known.
    pub fn of(path: &Path) -> Option<Ground> {
        let directory = if path.is_dir() { path } else { path.parent()? };
        of_directory(directory, &mounts().ok()?, DEPTH_MAX)
    }

    /// Why a durable write cannot be trusted there. None: it can.
    pub fn refuses_durable(&self, promises_full: bool) -> Option<Fault> {
        self.fault.filter(|&fault| fault != Fault::Memory || promises_full)
    }

    /// True if processes that share the database may have no kernel in common, or a program may
    /// handle its files.
    pub fn is_shared(&self) -> bool {
        matches!(self.fault, Some(Fault::Shared | Fault::Fuse))
    }
}

impl Fault {
    /// The reason and the way out. It is short: SQLite's error log cuts a line at 210 bytes, with
    /// the database's name.
    pub fn why(self) -> &'static str {
        match self {
            Fault::Shared => {
                "other hosts may change the files, and a sync be lost; use a local disk"
            }
            Fault::Fuse => "a program decides what a sync does; use a local disk",
            Fault::Writeback => {
                "with data=writeback a crash may show old blocks; mount it with data=ordered"
            }
            Fault::NoBarrier => {
                "without barriers a sync does not flush the device; mount it with barriers"
            }
            Fault::Memory => "nothing in memory outlives a loss of power; use a disk",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why())
    }
}

fn of_directory(directory: &Path, mounts: &str, depth: u32) -> Option<Ground> {
    let stat = statx(CWD, directory, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    if stat.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return None;
    }
    let (file_system, options) = mount(mounts, stat.stx_mnt_id)?;
    let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="));
    if let ("overlay", Some(upper), 1..) = (file_system, upper, depth) {
        // In a container the path of the upper directory may lead nowhere. Then nothing is known.
        let below = of_directory(Path::new(upper), mounts, depth - 1)?;
        return Some(Ground { file_system: format!("overlay on {}", below.file_system), ..below });
    }
    Some(Ground { file_system: file_system.to_owned(), fault: fault(file_system, &options) })
}

/// The type and the options of the mount with this number.
fn mount(mounts: &str, id: u64) -> Option<(&str, String)> {
    let id = id.to_string();
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(id.as_str()))?;
    // "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue": proc(5).
    let (front, behind) = line.split_once(" - ")?;
    let mut behind = behind.split(' ');
    let (file_system, options) = (behind.next()?, behind.nth(1).unwrap_or_default());
    Some((file_system, format!("{},{options}", front.split(' ').nth(5)?)))
}

fn fault(file_system: &str, options: &str) -> Option<Fault> {
    let has = |wanted: &str| options.split(',').any(|option| option == wanted);
    match file_system {
        "fuse.oneflush" => None,
        "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "afs" | "ceph" | "lustre" | "9p"
        | "virtiofs" | "vboxsf" => Some(Fault::Shared),
        _ if FUSE_SHARED.contains(&file_system) => Some(Fault::Shared),
        "fuse" | "fuseblk" => Some(Fault::Fuse),
        _ if file_system.starts_with("fuse.") => Some(Fault::Fuse),
        "tmpfs" | "ramfs" => Some(Fault::Memory),
        _ if has("nobarrier") || has("barrier=0") => Some(Fault::NoBarrier),
        "ext3" | "ext4" if has("data=writeback") => Some(Fault::Writeback),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_shared_and_fuse_file_systems_are_unsafe_and_ours_is_not() {
        for shared in ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs"] {
            assert_eq!(fault(shared, "rw"), Some(Fault::Shared), "{shared}");
        }
        for fuse in ["fuse", "fuseblk", "fuse.mergerfs"] {
            assert_eq!(fault(fuse, "rw"), Some(Fault::Fuse), "{fuse}");
        }
        assert_eq!(fault("fuse.oneflush", "rw"), None);
    }

    #[test]
    fn options_that_take_the_meaning_from_a_sync_are_found_and_others_are_not() {
        assert_eq!(fault("ext4", "rw,relatime,rw,data=writeback"), Some(Fault::Writeback));
        for (file_system, options) in
            [("ext4", "rw,nobarrier"), ("ext3", "rw,barrier=0"), ("xfs", "rw,nobarrier")]
        {
            assert_eq!(fault(file_system, options), Some(Fault::NoBarrier), "{file_system}");
        }
        for (file_system, options) in
            [("ext4", "rw,data=ordered"), ("xfs", "rw,attr2"), ("btrfs", "rw,nodatacow")]
        {
            assert_eq!(fault(file_system, options), None, "{file_system}");
        }
    }

    #[test]
    fn memory_is_unsafe_only_where_durability_is_asked_for() {
        let memory = Ground { file_system: "tmpfs".to_owned(), fault: fault("tmpfs", "rw") };
        assert_eq!(memory.refuses_durable(false), None);
        assert_eq!(memory.refuses_durable(true), Some(Fault::Memory));
        assert!(!memory.is_shared());
    }

    #[test]
    fn a_mount_is_found_by_its_number_with_the_options_of_both_sides() {
        let mounts = "1 0 8:1 / / rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                      11 1 0:5 / /mnt ro master:1 - nfs4 host:/export rw,vers=4.2\n";
        assert_eq!(mount(mounts, 1), Some(("ext4", "rw,noatime,rw,errors=remount-ro".to_owned())));
        assert_eq!(mount(mounts, 11), Some(("nfs4", "ro,rw,vers=4.2".to_owned())));
        assert_eq!(mount(mounts, 2), None);
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_judged() {
        assert_eq!(Ground::of(Path::new("/no/such/directory/a.db")), None);
        assert_eq!(of_directory(Path::new("/"), "", DEPTH_MAX), None);
    }
}
