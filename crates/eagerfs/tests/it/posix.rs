//! What programs do with files, through the mount and in a plain directory: they must see the same.

mod attributes;
mod extended;
mod files;
mod names;
mod open_files;
mod space;
mod special;
mod users;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::common::Mount;
use crate::common::seen::{Seen, expect_same};

/// Does the steps in a plain directory and through a mount.
fn compare(test: &str, steps: fn(&mut Seen)) {
    let Some(mut mount) = Mount::new(test) else { return };
    let plain = mount.beside("plain");
    fs::create_dir(&plain).unwrap();
    let (mut wanted, mut seen) = (Seen::in_dir(&plain), Seen::in_dir(&mount.at));
    steps(&mut wanted);
    steps(&mut seen);
    expect_same(&wanted.lines, &seen.lines, test);
    let times = times_below(&mount.at);
    mount.unmount();
    assert_eq!(times_below(&mount.lower), times);
    // What is there afterwards is the same, too, without the mount.
    let (mut wanted, mut left) = (Seen::in_dir(&plain), Seen::in_dir(&mount.lower));
    walk(&mut wanted, "");
    walk(&mut left, "");
    expect_same(&wanted.lines, &left.lines, "after the unmount");
}

/// When everything was modified, and its number.
fn times_below(dir: &Path) -> Vec<(std::ffi::OsString, [i64; 2], u64)> {
    let mut times = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let stat = fs::symlink_metadata(entry.path()).unwrap();
        times.push((entry.file_name(), [stat.mtime(), stat.mtime_nsec()], stat.ino()));
        if stat.is_dir() {
            times.extend(times_below(&entry.path()));
        }
    }
    times.sort();
    times
}

fn walk(seen: &mut Seen, dir: &str) {
    let mut names: Vec<_> = fs::read_dir(seen.at(dir)).unwrap().collect();
    names.sort_by_key(|entry| entry.as_ref().unwrap().file_name());
    for entry in names {
        let entry = entry.unwrap();
        let name = format!("{dir}{}", entry.file_name().to_string_lossy());
        seen.stat(&name);
        if entry.file_type().unwrap().is_dir() {
            walk(seen, &format!("{name}/"));
        } else if entry.file_type().unwrap().is_file() {
            seen.contents(&name);
        }
    }
}

fn open(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mode = flags & libc::O_ACCMODE;
    options.read(mode != libc::O_WRONLY).write(mode != libc::O_RDONLY);
    options.create(flags & libc::O_CREAT != 0 && mode != libc::O_RDONLY);
    options.custom_flags(flags & !libc::O_ACCMODE).mode(0o644).open(path)
}

fn rustix_truncate(path: &Path, size: i64) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the path is a C string that outlives the call.
    match unsafe { libc::truncate(path.as_ptr(), size) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_times(path: &Path, accessed: (i64, i64), modified: (i64, i64)) -> io::Result<()> {
    let spec = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: spec(accessed), last_modification: spec(modified) };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
