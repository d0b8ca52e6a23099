//! `oneflush trace` where the node of the device cannot be read, as in a container.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use oneflush_measure::place::{FsKind, Place};
use oneflush_testing::{has_programs, run};

use crate::common::{Sandbox, assert_refused, stderr};
use crate::recording;

/// What is done to the node, and what a message says of it.
#[derive(Clone, Copy, Debug)]
enum Hidden {
    /// As in a user namespace.
    Nodev,
    /// As in a container that was not given the device.
    Gone,
    /// Root without the capabilities of root.
    Incapable,
}

impl Hidden {
    fn words(self) -> &'static str {
        match self {
            Hidden::Nodev => "mounted nodev",
            Hidden::Gone => "there is no node for device",
            Hidden::Incapable => "neither CAP_DAC_READ_SEARCH nor CAP_DAC_OVERRIDE",
        }
    }
}

fn mount(words: &[&str], at: &Path) {
    run(Command::new("mount").args(words).arg(at));
}

/// Records a write and its sync, in the mounts of the place's own namespace.
fn recorded(place: &Place, hidden: Hidden) -> (Sandbox, Output) {
    let sandbox = Sandbox::new();
    let node = PathBuf::from(format!("/dev/{}", place.device().expect("a device").name));
    let plain = sandbox.oneflush();
    let mut command = Command::new("setpriv");
    command.current_dir(sandbox.path()).stdin(Stdio::piped());
    let at = match hidden {
        Hidden::Nodev => {
            mount(&["--bind", node.to_str().unwrap()], &node);
            mount(&["-o", "remount,bind,nodev"], &node);
            &node
        }
        Hidden::Gone => {
            let others = sandbox.path().join("dev");
            fs::create_dir(&others).unwrap();
            run(Command::new("mknod").arg(others.join("null")).args(["c", "1", "3"]));
            mount(&["--bind", others.to_str().unwrap()], Path::new("/dev"));
            Path::new("/dev")
        }
        Hidden::Incapable => {
            let number = fs::metadata(&node).unwrap().rdev();
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            let closed = sandbox.path().join("node");
            let numbers = [major.to_string(), minor.to_string()];
            run(Command::new("mknod").args(["-m", "0"]).arg(&closed).arg("b").args(numbers));
            mount(&["--bind", closed.to_str().unwrap()], &node);
            command.args(["--bounding-set", "-dac_override,-dac_read_search"]);
            &node
        }
    };
    let script = format!("echo written > {0}/file; sync {0}/file", place.path().display());
    command.arg(plain.get_program()).args(["trace", "-o", "t.zst", "--dir"]).arg(place.path());
    let output = command.args(["--", "sh", "-c", &script]).output().unwrap();
    // The command's own input is that /dev/null.
    run(Command::new("umount").arg("--lazy").arg(at));
    (sandbox, output)
}

/// The root of a virtual machine could not be recorded. "cannot read /dev/vda: Operation not
/// permitted" was all that root was told, and only the place of the journal was lost.
#[test]
fn a_device_whose_node_cannot_be_read_is_recorded_without_its_layout() {
    if !has_programs(&["setpriv", "mknod", "mount"]) {
        return;
    }
    let Some(place) = recording::scratch() else { return };
    let node = format!("/dev/{}", place.device().expect("a device").name);
    for hidden in [Hidden::Nodev, Hidden::Gone, Hidden::Incapable] {
        let (sandbox, output) = recorded(&place, hidden);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{hidden:?}: {message}");
        assert!(message.contains(&format!("cannot read {node}: ")), "{hidden:?}: {message}");
        assert!(message.contains(hidden.words()), "{hidden:?}: {message}");
        assert!(message.contains("keeps its journal: what its thread jbd2"), "{message}");
        let packed = fs::read(sandbox.path().join("t.zst")).unwrap();
        let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
        assert!(!text.contains("oneflush_area"), "{hidden:?}: the place of the journal is known");
        for whose in ["oneflush=data", "oneflush=journal"] {
            assert!(text.contains(whose), "{hidden:?}: {whose} is not in {text}");
        }
    }
}

/// The events of btrfs carry an identifier that only its superblock explains.
#[test]
fn btrfs_whose_superblock_cannot_be_read_is_refused_with_what_is_missing() {
    if !has_programs(&["setpriv", "mount", "mkfs.btrfs"]) || recording::scratch().is_none() {
        return;
    }
    let Some(place) = recording::scratch_of(FsKind::Btrfs) else { return };
    let (sandbox, output) = recorded(&place, Hidden::Nodev);
    assert_refused(&output, 1, &["cannot read /dev/", Hidden::Nodev.words()]);
    assert!(!sandbox.path().join("t.zst").exists());
}
