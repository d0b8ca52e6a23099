//! Open files that have no name, and locks.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use oneflush_testing::named;
use rustix::fs::{FlockOperation, Mode, flock};

use super::{compare, open};

#[test]
fn files_without_a_name_and_locks_are_the_same() {
    compare(named!(files_without_a_name_and_locks_are_the_same), |seen| {
        fs::create_dir(seen.at("dir")).unwrap();
        let mut file = open(&seen.at("dir/file"), libc::O_RDWR | libc::O_CREAT).unwrap();
        file.write_all(b"before").unwrap();
        seen.note("unlink", fs::remove_file(seen.at("dir/file")));
        seen.note("write", file.write_all(b", after"));
        seen.note("sync", file.sync_all());
        seen.note("links", file.metadata().map(|stat| (stat.nlink(), stat.len())));
        seen.note("cut", file.set_len(9));
        seen.note("rewind", file.rewind());
        let mut text = String::new();
        seen.note("read", file.read_to_string(&mut text));
        seen.note("text", Ok(text));
        seen.note("mode", file.set_permissions(Permissions::from_mode(0o604)));
        seen.note("mode", file.metadata().map(|stat| stat.mode()));
        fs::write(seen.at("dir/file"), "another").unwrap();
        seen.contents("dir/file");
        drop(file);

        let replaced = open(&seen.at("dir/file"), libc::O_RDWR).unwrap();
        fs::write(seen.at("new"), "newer").unwrap();
        seen.note("replace", fs::rename(seen.at("new"), seen.at("dir/file")));
        let mut bytes = [0; 20];
        seen.note("read", replaced.read_at(&mut bytes, 0));
        seen.note("links", replaced.metadata().map(|stat| stat.nlink()));
        let dir = File::open(seen.at("dir")).unwrap();
        fs::remove_file(seen.at("dir/file")).unwrap();
        seen.note("rmdir", fs::remove_dir(seen.at("dir")));
        seen.note("in what is gone", {
            let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
            let made = rustix::fs::openat(&dir, "x", flags, Mode::from_raw_mode(0o600));
            made.map(drop).map_err(Into::into)
        });
        seen.note("its mode", dir.metadata().map(|stat| stat.mode()));

        fs::write(seen.at("locked"), "").unwrap();
        let one = open(&seen.at("locked"), libc::O_RDWR).unwrap();
        let other = open(&seen.at("locked"), libc::O_RDWR).unwrap();
        let lock = |file: &File, operation| -> io::Result<()> { Ok(flock(file, operation)?) };
        seen.note("shared", lock(&one, FlockOperation::NonBlockingLockShared));
        seen.note("shared", lock(&other, FlockOperation::NonBlockingLockShared));
        seen.note("alone", lock(&other, FlockOperation::NonBlockingLockExclusive));
        seen.note("unlock", lock(&one, FlockOperation::Unlock));
        seen.note("alone", lock(&other, FlockOperation::NonBlockingLockExclusive));
        let range = |file: &File, kind: libc::c_int| -> io::Result<()> {
            let mut lock: libc::flock = no_lock();
            lock.l_type = kind as libc::c_short;
            lock.l_len = 10;
            // SAFETY: the call takes an open descriptor, and a lock that outlives it.
            let done = unsafe {
                libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(file), libc::F_OFD_SETLK, &lock)
            };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        seen.note("range", range(&one, libc::F_WRLCK));
        seen.note("the other's", range(&other, libc::F_RDLCK));
        seen.note("unlock", range(&one, libc::F_UNLCK));
        seen.note("the other's", range(&other, libc::F_RDLCK));
    });
}

fn no_lock() -> libc::flock {
    // SAFETY: a lock of zeros only is one: numbers.
    unsafe { std::mem::zeroed() }
}
