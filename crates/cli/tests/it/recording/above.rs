//! A file system on a loop device whose file is on another device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device on a file of the place, with a mounted ext4; goes away when dropped.
pub struct Above {
    pub device: String,
    pub mounted: PathBuf,
}

impl Above {
    pub fn on(place: &Path) -> Above {
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program)
                .args(arguments)
                .output()
                .unwrap_or_else(|error| panic!("{program}: {error}"));
            assert!(output.status.success(), "{program}: {output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let (file, mounted) = (place.join("disk.img"), place.join("above"));
        fs::write(&file, vec![0; 64 << 20]).unwrap();
        fs::create_dir(&mounted).unwrap();
        let node = run("losetup", &["--find", "--show", "--direct-io=on", file.to_str().unwrap()]);
        let above = Above { device: node.trim_start_matches("/dev/").to_owned(), mounted };
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &node]);
        run("mount", &[&node, above.mounted.to_str().unwrap()]);
        above
    }
}

impl Drop for Above {
    fn drop(&mut self) {
        // What was not mounted need not be unmounted.
        let _ = Command::new("umount").arg(&self.mounted).output();
        let _ = Command::new("losetup").args(["-d", &format!("/dev/{}", self.device)]).output();
    }
}
