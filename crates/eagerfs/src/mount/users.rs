//! Who keeps a mount busy, by the paths that `/proc` shows. Nothing is asked of the mount itself.

use std::fs;
use std::path::{Path, PathBuf};

/// More are counted.
const NAMED_MAX: usize = 8;

/// `; in use by bash (17), tail (4711)`, or how to find that out.
pub fn said(mountpoint: &Path) -> String {
    let mut users = users(mountpoint);
    let more = users.split_off(users.len().min(NAMED_MAX)).len();
    match (users.is_empty(), more) {
        // Processes of others show their paths to root alone.
        (true, _) => format!("; `fuser -vm {}`, as root, says who uses it", mountpoint.display()),
        (_, 0) => format!("; in use by {}", users.join(", ")),
        (_, more) => format!("; in use by {} and {more} more", users.join(", ")),
    }
}

fn users(mountpoint: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.into_iter().filter_map(|pid| user(pid, mountpoint)).collect()
}

fn user(pid: u32, mountpoint: &Path) -> Option<String> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let is_below = |link: PathBuf| fs::read_link(link).is_ok_and(|to| to.starts_with(mountpoint));
    let files = || fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let has = ["cwd", "root", "exe"].iter().any(|name| is_below(process.join(name)))
        || files().any(|file| is_below(file.path()))
        || maps(&process, mountpoint);
    let name = || fs::read_to_string(process.join("comm")).unwrap_or_default();
    has.then(|| format!("{} ({pid})", name().trim_end()))
}

/// `7f12…-7f13… r--s 00000000 00:2f 17   /mnt/data/a.db-shm`
fn maps(process: &Path, mountpoint: &Path) -> bool {
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let mut paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    paths.any(|path| Path::new(path).starts_with(mountpoint))
}
