//! What a program sees, as text: the same steps in a plain directory and through a mount must give
//! the same.

use std::fmt::{Debug, Display};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

pub struct Seen {
    pub dir: PathBuf,
    pub lines: Vec<String>,
}

impl Seen {
    pub fn in_dir(dir: &Path) -> Seen {
        Seen { dir: dir.to_owned(), lines: Vec::new() }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Notes a value, or the number of the error.
    pub fn note<T: Debug>(&mut self, step: &str, result: io::Result<T>) {
        let result = result.map_err(|error| match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number).to_string(),
            None => error.to_string(),
        });
        self.lines.push(format!("{step}: {result:?}"));
    }

    /// Notes what `stat` says, but for numbers and times.
    pub fn stat(&mut self, name: &str) {
        let stat = fs::symlink_metadata(self.at(name)).map(|stat| attributes(&stat));
        self.note(&format!("stat {name}"), stat);
    }

    pub fn contents(&mut self, name: &str) {
        let contents = fs::read(self.at(name)).map(|bytes| Digest::of(&bytes));
        self.note(&format!("contents of {name}"), contents);
    }

    pub fn list(&mut self, name: &str) {
        let names = fs::read_dir(self.at(name)).and_then(|entries| {
            let mut names = Vec::new();
            for entry in entries {
                let entry = entry?;
                let kind = entry.file_type()?;
                let kind = (kind.is_dir(), kind.is_file(), kind.is_symlink(), kind.is_fifo());
                names.push((entry.file_name(), kind));
            }
            names.sort();
            Ok(names)
        });
        self.note(&format!("list {name}"), names);
    }
}

/// Fails where the steps have answered otherwise through the mount. `run` says which steps.
#[track_caller]
pub fn expect_same(plain: &[String], mounted: &[String], run: impl Display) {
    // The first differences tell the most: later steps work on what earlier ones left.
    const SHOWN: usize = 20;
    let lines = plain.iter().zip(mounted).filter(|(plain, mounted)| plain != mounted);
    let different: Vec<_> = lines.take(SHOWN).collect();
    assert!(different.is_empty(), "{run}: plain, mounted: {different:#?}");
    assert_eq!(plain.len(), mounted.len(), "{run}");
    assert!(!mounted.is_empty(), "{run}");
}

fn attributes(stat: &Metadata) -> String {
    let size = if stat.is_dir() { 0 } else { stat.len() };
    format!(
        "{:o} {}:{} links {} size {size} device {:x}",
        stat.mode(),
        stat.uid(),
        stat.gid(),
        stat.nlink(),
        stat.rdev()
    )
}

/// Short contents as they are, long ones by their length and a sum.
#[derive(Debug)]
pub enum Digest {
    Short(#[allow(dead_code, reason = "shown")] String),
    Long(#[allow(dead_code, reason = "shown")] usize, #[allow(dead_code, reason = "shown")] u64),
}

impl Digest {
    pub fn of(bytes: &[u8]) -> Digest {
        if bytes.len() <= 100 {
            return Digest::Short(String::from_utf8_lossy(bytes).into_owned());
        }
        let sum = bytes.iter().fold(0u64, |sum, byte| {
            sum.wrapping_mul(0x100_0000_01b3).wrapping_add(u64::from(*byte) + 1)
        });
        Digest::Long(bytes.len(), sum)
    }
}

/// Does the steps as another user, on a thread of its own.
pub fn as_user<T: Send>(uid: u32, gid: u32, groups: &[u32], steps: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the calls take numbers and a list that outlives them. They change only this
            // thread, which ends after the steps: the C library would change all of them.
            unsafe {
                let set = libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
                assert_eq!(set, 0);
                assert_eq!(libc::syscall(libc::SYS_setresgid, gid, gid, gid), 0);
                assert_eq!(libc::syscall(libc::SYS_setresuid, uid, uid, uid), 0);
            }
            steps()
        });
        thread.join().unwrap()
    })
}
