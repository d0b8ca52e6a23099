//! Modes, owners and times.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use oneflush_testing::named;
use rustix::fs::{FallocateFlags, UTIME_OMIT, copy_file_range, fallocate, statvfs};

use super::{compare, rustix_truncate, set_times};
use crate::common::seen::as_user;

fn times(path: &Path) -> io::Result<[i64; 4]> {
    let stat = fs::symlink_metadata(path)?;
    Ok([stat.atime(), stat.atime_nsec(), stat.mtime(), stat.mtime_nsec()])
}

#[test]
fn attributes_are_the_same() {
    compare(named!(attributes_are_the_same), |seen| {
        fs::write(seen.at("file"), "x").unwrap();
        fs::create_dir(seen.at("dir")).unwrap();
        symlink("file", seen.at("link")).unwrap();
        for name in ["file", "dir", "link"] {
            let path = seen.at(name);
            for (accessed, modified) in [
                ((1, 2), (3, 4)),
                ((-1, 999_999_999), (-2, 5)),
                ((1 << 32, 0), (5_000_000_000, 1)),
                ((9, UTIME_OMIT), (77, 7)),
            ] {
                seen.note("set times", set_times(&path, accessed, modified));
                seen.note("times", times(&path));
            }
        }
        let old = times(&seen.at("file")).unwrap();
        fs::write(seen.at("file"), "newer").unwrap();
        seen.note("a write is seen", times(&seen.at("file")).map(|new| new[2] > old[2]));
        set_times(&seen.at("dir"), (1, 1), (1, 1)).unwrap();
        fs::write(seen.at("dir/x"), "").unwrap();
        seen.note("a name is seen", times(&seen.at("dir")).map(|new| new[2] > 1));

        for mode in [0o600, 0o6755, 0o1777, 0, 0o644] {
            seen.note("chmod", fs::set_permissions(seen.at("file"), Permissions::from_mode(mode)));
            seen.stat("file");
            seen.note("chmod", fs::set_permissions(seen.at("dir"), Permissions::from_mode(mode)));
            seen.stat("dir");
        }
        for mode in [0o6755, 0o6745, 0o2644] {
            fs::set_permissions(seen.at("file"), Permissions::from_mode(mode)).unwrap();
            seen.note("chown", chown(seen.at("file"), Some(1000), None));
            seen.stat("file");
            fs::set_permissions(seen.at("file"), Permissions::from_mode(mode)).unwrap();
            seen.note("chgrp", chown(seen.at("file"), None, Some(1000)));
            seen.stat("file");
            fs::set_permissions(seen.at("file"), Permissions::from_mode(mode)).unwrap();
            fs::write(seen.at("file"), "root writes").unwrap();
            seen.stat("file");
        }
        chown(seen.at("file"), Some(1000), Some(1000)).unwrap();
        fs::write(seen.at("source"), "source").unwrap();
        // The group's right to execute decides about set-group-ID.
        for mode in [0o6777, 0o6767, 0o4666] {
            let set = || fs::set_permissions(seen.dir.join("file"), Permissions::from_mode(mode));
            set().unwrap();
            let path = seen.at("file");
            let wrote = as_user(2000, 2000, &[], || {
                File::options().write(true).open(&path)?.write_all(b"y")
            });
            seen.note("another writes", wrote);
            seen.stat("file");
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            seen.note("another cuts", as_user(2000, 2000, &[], || rustix_truncate(&path, 1)));
            seen.stat("file");
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let mode = Permissions::from_mode(mode);
            let path = seen.at("file");
            let done = as_user(1000, 3000, &[], || fs::set_permissions(&path, mode.clone()));
            seen.note("its owner, of another group", done);
            seen.stat("file");
            // A write, too, but the kernel does not say that it takes bits.
            for step in ["allocates", "copies"] {
                fs::set_permissions(&path, mode.clone()).unwrap();
                let done = as_user(2000, 2000, &[], || {
                    let file = File::options().write(true).open(&path)?;
                    match step {
                        "allocates" => fallocate(&file, FallocateFlags::empty(), 0, 10)?,
                        _ => {
                            let source = File::open(path.with_file_name("source"))?;
                            copy_file_range(&source, None, &file, None, 1).map(drop)?;
                        }
                    }
                    Ok(())
                });
                seen.note(step, done);
                seen.stat("file");
            }
            fs::set_permissions(&path, mode).unwrap();
            chown(&path, None, Some(1001)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o2767)).unwrap();
            let done = as_user(1000, 1000, &[], || chown(&path, Some(1000), None));
            seen.note("its owner keeps it", done);
            seen.stat("file");
            chown(&path, None, Some(1000)).unwrap();
        }
        // A sync reads what it logs, and that is no access.
        let file = File::options().append(true).open(seen.at("source")).unwrap();
        (&file).write_all(b"more").unwrap();
        set_times(&seen.at("source"), (5, 6), (7, 8)).unwrap();
        file.sync_all().unwrap();
        drop(file);
        seen.note("times that were set", times(&seen.at("source")));
        let stat = statvfs(&seen.dir).unwrap();
        seen.note("file system", Ok((stat.f_namemax, stat.f_bsize, stat.f_frsize, stat.f_blocks)));
    });
}
