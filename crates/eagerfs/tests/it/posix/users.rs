//! What other users may do.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;

use oneflush_testing::named;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, accessat, mknodat};

use super::{compare, set_times};
use crate::common::seen::{Seen, as_user};

#[test]
fn rights_are_the_same() {
    compare(named!(rights_are_the_same), |seen| {
        let users = |seen: &mut Seen,
                     step: &str,
                     uid,
                     groups: &[u32],
                     act: &(dyn Fn(&Path) -> io::Result<()> + Sync)| {
            let dir = seen.dir.clone();
            seen.note(step, as_user(uid, uid, groups, || act(&dir)));
        };
        fs::set_permissions(&seen.dir, Permissions::from_mode(0o777)).unwrap();
        users(seen, "1 makes", 1, &[], &|dir| fs::write(dir.join("of-1"), "1"));
        users(seen, "1 makes a directory", 1, &[], &|dir| fs::create_dir(dir.join("dir-of-1")));
        users(seen, "1 makes a link", 1, &[], &|dir| symlink("x", dir.join("link-of-1")));
        seen.stat("of-1");
        seen.stat("dir-of-1");
        seen.stat("link-of-1");
        fs::set_permissions(seen.at("of-1"), Permissions::from_mode(0o640)).unwrap();
        users(seen, "2 reads", 2, &[], &|dir| fs::read(dir.join("of-1")).map(drop));
        users(seen, "2 of group 1 reads", 2, &[9, 1], &|dir| fs::read(dir.join("of-1")).map(drop));
        users(seen, "2 of group 1 writes", 2, &[9, 1], &|dir| fs::write(dir.join("of-1"), "2"));
        users(seen, "2 changes the mode", 2, &[1], &|dir| {
            fs::set_permissions(dir.join("of-1"), Permissions::from_mode(0o666))
        });
        users(seen, "2 takes it", 2, &[], &|dir| chown(dir.join("of-1"), Some(2), None));
        users(seen, "1 gives it away", 1, &[], &|dir| chown(dir.join("of-1"), Some(2), None));
        users(seen, "1 gives it to a group", 1, &[5], &|dir| {
            chown(dir.join("of-1"), None, Some(5))
        });
        users(seen, "1 gives it to another group", 1, &[5], &|dir| {
            chown(dir.join("of-1"), None, Some(6))
        });
        users(seen, "2 sets times", 2, &[], &|dir| set_times(&dir.join("of-1"), (1, 1), (1, 1)));
        users(seen, "2 makes in it", 2, &[], &|dir| fs::write(dir.join("dir-of-1/x"), ""));
        users(seen, "2 removes it", 2, &[], &|dir| fs::remove_dir(dir.join("dir-of-1")));
        seen.stat("of-1");

        fs::create_dir(seen.at("tmp")).unwrap();
        fs::set_permissions(seen.at("tmp"), Permissions::from_mode(0o1777)).unwrap();
        users(seen, "1 makes", 1, &[], &|dir| fs::write(dir.join("tmp/of-1"), "1"));
        users(seen, "2 removes", 2, &[], &|dir| fs::remove_file(dir.join("tmp/of-1")));
        users(seen, "2 renames", 2, &[], &|dir| {
            fs::rename(dir.join("tmp/of-1"), dir.join("tmp/of-2"))
        });
        users(seen, "1 removes", 1, &[], &|dir| fs::remove_file(dir.join("tmp/of-1")));

        fs::create_dir(seen.at("group")).unwrap();
        chown(seen.at("group"), None, Some(50)).unwrap();
        fs::set_permissions(seen.at("group"), Permissions::from_mode(0o2777)).unwrap();
        users(seen, "1 makes in it", 1, &[], &|dir| fs::write(dir.join("group/file"), ""));
        users(seen, "1 makes a directory", 1, &[], &|dir| fs::create_dir(dir.join("group/dir")));
        users(seen, "1 asks for set-group-ID", 1, &[], &|dir| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).mode(0o2775).open(dir.join("group/program")).map(drop)
        });
        users(seen, "1 of group 50 does", 1, &[50], &|dir| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).mode(0o2775).open(dir.join("group/more")).map(drop)
        });
        for name in ["group/file", "group/dir", "group/program", "group/more"] {
            seen.stat(name);
        }
        fs::DirBuilder::new().mode(0o700).create(seen.at("closed")).unwrap();
        fs::write(seen.at("closed/file"), "").unwrap();
        users(seen, "2 looks into it", 2, &[], &|dir| {
            fs::metadata(dir.join("closed/file")).map(drop)
        });
        users(seen, "2 lists it", 2, &[], &|dir| fs::read_dir(dir.join("closed")).map(drop));
        users(seen, "2 asks for access", 2, &[], &|dir| {
            Ok(accessat(CWD, dir.join("of-1"), Access::WRITE_OK, AtFlags::EACCESS)?)
        });
        users(seen, "2 makes a device", 2, &[], &|dir| {
            let mode = Mode::from_raw_mode(0o666);
            Ok(mknodat(CWD, dir.join("device"), FileType::CharacterDevice, mode, 0x103)?)
        });
    });
}
