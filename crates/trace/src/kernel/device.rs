//! Opening a block device's node, and what is missing where that is refused.
//!
//! Root may be refused: a container has control-group rules for devices, fewer capabilities, and
//! often no node at all. The kernel's word for it says none of that.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::KernelError;
use super::volume::Volume;

/// Reads `N` bytes of a device's file system.
pub(super) fn read_at<const N: usize>(volume: &Volume, at: u64) -> Result<[u8; N], KernelError> {
    let path = volume.path();
    let file = File::open(&path).map_err(|reason| KernelError::Device {
        path: path.clone(),
        missing: missing(volume, &reason),
        reason,
    })?;
    let mut bytes = [0; N];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(bytes),
        Err(reason) => Err(KernelError::Read { path, reason }),
    }
}

/// `: ` and the way out, if there is one.
fn missing(volume: &Volume, reason: &io::Error) -> String {
    let path = volume.path();
    let path = path.display();
    let (major, minor) = volume.partition.unwrap_or(volume.disk);
    match reason.raw_os_error().map(Errno::from_raw_os_error) {
        // Capabilities do not help against this.
        Some(Errno::PERM) => format!(
            ": no rule of this control group allows device {major}:{minor}; a container needs \
                --device-cgroup-rule 'b {major}:{minor} r', a unit of systemd \
                DeviceAllow={path} r"
        ),
        Some(Errno::ACCESS) if may_pass_modes() => format!(
            ": it is in a file system that is mounted nodev, as in a user namespace; a container \
                needs --device {path}:{path}:r"
        ),
        Some(Errno::ACCESS) => ": its mode forbids it, and this root has neither \
            CAP_DAC_READ_SEARCH nor CAP_DAC_OVERRIDE; a container needs --cap-add DAC_READ_SEARCH"
            .to_owned(),
        Some(Errno::NOENT) => format!(
            ": there is no node for device {major}:{minor}; `mknod {path} b {major} {minor}` \
                makes one, and a container needs --device {path}:{path}:r"
        ),
        _ => String::new(),
    }
}

/// This process reads what the modes of files forbid.
fn may_pass_modes() -> bool {
    let wanted = CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.intersects(wanted))
}
