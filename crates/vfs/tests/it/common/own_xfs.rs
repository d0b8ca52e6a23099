//! A scratch XFS on a loop device, in a mount namespace of the test's own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oneflush_testing::{has_programs, in_own_mounts, skip};
use tempfile::TempDir;

use super::atomic_place::{Place, written_to};

const AT_MOST: Duration = Duration::from_secs(240);
const IMAGE_BYTES: u64 = 320 << 20;
const AGS: u32 = 2;

/// A mounted XFS. Mount and image are gone with it.
pub struct OwnXfs {
    dir: TempDir,
}

/// Runs the calling test, whose name this is, on an XFS whose files can exchange their contents, or
/// cannot. It skips itself where none can be made.
pub fn on_xfs(test: &str, exchanges: bool, body: impl FnOnce(&OwnXfs)) {
    if !may_mount() || !in_own_mounts(test, AT_MOST) {
        return;
    }
    if let Some(xfs) = OwnXfs::new(exchanges) {
        body(&xfs);
    }
}

fn may_mount() -> bool {
    if !has_programs(&["mkfs.xfs", "xfs_db", "xfs_io", "mount", "unshare"]) {
        return false;
    }
    let may = Command::new("unshare").args(["--mount", "true"]).status();
    let may = may.is_ok_and(|status| status.success());
    if !may {
        skip("a mount needs root");
    }
    may
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{program}: {said}")) }
}

impl OwnXfs {
    fn new(exchanges: bool) -> Option<OwnXfs> {
        let dir = tempfile::tempdir().unwrap();
        let xfs = OwnXfs { dir };
        if let Err(reason) = xfs.make(exchanges) {
            skip(reason);
            return None;
        }
        Some(xfs)
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn make(&self, exchanges: bool) -> Result<(), String> {
        let image = self.image();
        let text = image.to_str().ok_or("the temporary folder has no plain name")?;
        std::fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        let ags = format!("agcount={AGS}");
        let options = ["-q", "-f", "-K", "-d", &ags];
        let with = [&options[..], &["-i", "exchange=1", text]].concat();
        if !exchanges || run("mkfs.xfs", &with).is_err() {
            run("mkfs.xfs", &[&options[..], &[text]].concat())?;
            // An older mkfs.xfs does not know the feature. It is one more bit of the features of a
            // file system that is empty.
            for ag in (0..AGS).filter(|_| exchanges) {
                let (of, write) = (format!("sb {ag}"), "write -d features_incompat 0x4b");
                run("xfs_db", &["-x", "-c", &of, "-c", write, text])?;
            }
        }
        mount(&image, &self.path(), "loop")
    }

    /// The device as a crash would leave it now, mounted elsewhere. Its log is replayed.
    pub fn after_crash(&self, name: &str) -> PathBuf {
        let (copy, place) =
            (self.dir.path().join(format!("{name}.image")), self.dir.path().join(name));
        run("cp", &["--sparse=always", self.image().to_str().unwrap(), copy.to_str().unwrap()])
            .unwrap();
        mount(&copy, &place, "loop,nouuid").unwrap();
        place
    }
}

impl Drop for OwnXfs {
    /// The folder cannot be removed while something is mounted in it.
    fn drop(&mut self) {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for place in places.filter(|place| Path::new(place).starts_with(self.dir.path())) {
            drop(run("umount", &["--lazy", place]));
        }
    }
}

impl Place for OwnXfs {
    fn atomic(&self) -> &'static str {
        "xfs"
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    fn lose_power(&self) {
        let place = self.path();
        run("xfs_io", &["-x", "-c", "shutdown", place.to_str().unwrap()]).unwrap();
    }

    fn remount(&self) {
        run("umount", &[self.path().to_str().unwrap()]).unwrap();
        std::fs::remove_dir(self.path()).unwrap();
        mount(&self.image(), &self.path(), "loop").unwrap();
    }

    fn written(&self) -> (u64, u64) {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let place = self.path();
        let device = mounts.lines().find_map(|line| {
            let (device, rest) = line.split_once(' ')?;
            rest.starts_with(place.to_str()?).then(|| device.trim_start_matches("/dev/").to_owned())
        });
        written_to(&device.unwrap())
    }
}

fn mount(image: &Path, place: &Path, options: &str) -> Result<(), String> {
    std::fs::create_dir(place).unwrap();
    let (image, place) = (image.to_str().unwrap(), place.to_str().unwrap());
    run("mount", &["-t", "xfs", "-o", options, image, place])
}
