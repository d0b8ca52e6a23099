//! Extended attributes and access control lists.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, chown, symlink};

use oneflush_testing::named;
use rustix::fs::{
    CWD, FileType, Mode, XattrFlags, fgetxattr, getxattr, lgetxattr, listxattr, mknodat,
    removexattr, setxattr,
};

use super::{compare, open};
use crate::common::seen::{Digest, Seen, as_user};

#[test]
fn extended_attributes_are_the_same() {
    compare(named!(extended_attributes_are_the_same), |seen| {
        fs::write(seen.at("file"), "x").unwrap();
        fs::create_dir(seen.at("dir")).unwrap();
        symlink("file", seen.at("link")).unwrap();
        let sorted = |mut names: Vec<u8>| {
            let mut names: Vec<_> =
                names.split_mut(|byte| *byte == 0).map(|n| n.to_vec()).collect();
            names.sort();
            names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
        };
        for name in ["file", "dir"] {
            let path = seen.at(name);
            let set = |name: &str, value: &[u8], flags| -> io::Result<()> {
                Ok(setxattr(&path, name, value, flags)?)
            };
            let get = |name: &str| -> io::Result<Digest> {
                let mut value = vec![0; 70_000];
                let length = getxattr(&path, name, &mut value)?;
                Ok(Digest::of(&value[..length]))
            };
            seen.note("none", get("user.one"));
            seen.note("set", set("user.one", b"value", XattrFlags::empty()));
            seen.note("get", get("user.one"));
            seen.note("create", set("user.one", b"other", XattrFlags::CREATE));
            seen.note("create", set("user.two", &[b'2'; 1000], XattrFlags::CREATE));
            seen.note("replace", set("user.three", b"3", XattrFlags::REPLACE));
            seen.note("replace", set("user.two", &[b'3'; 900], XattrFlags::REPLACE));
            seen.note("empty", set("user.empty", b"", XattrFlags::empty()));
            seen.note("get", get("user.two"));
            seen.note("get", get("user.empty"));
            seen.note(
                "too short",
                getxattr(&path, "user.two", &mut [0; 10][..]).map_err(Into::into),
            );
            seen.note("too long", set("user.long", &vec![0; 70_000], XattrFlags::empty()));
            seen.note("no space", set("user.long", &vec![0; 60_000], XattrFlags::empty()));
            seen.note("trusted", set("trusted.one", b"t", XattrFlags::empty()));
            seen.note("unknown", set("unknown.one", b"u", XattrFlags::empty()));
            let list = || -> io::Result<Vec<String>> {
                let mut names = vec![0; 10_000];
                let length = listxattr(&path, &mut names)?;
                names.truncate(length);
                Ok(sorted(names))
            };
            seen.note("list", list());
            // Btrfs names to everybody what only root may read.
            let mut names = as_user(9, 9, &[], list);
            names.iter_mut().for_each(|names| names.retain(|name| !name.starts_with("trusted.")));
            seen.note("another's list", names);
            seen.note("another's get", as_user(9, 9, &[], || get("trusted.one")));
            seen.note(
                "another's set",
                as_user(9, 9, &[], || set("user.x", b"", XattrFlags::empty())),
            );
            seen.note("remove", removexattr(&path, "user.one").map_err(Into::into));
            seen.note("remove again", removexattr(&path, "user.one").map_err(Into::into));
            seen.note("list", list());
        }
        let none = lgetxattr(seen.at("link"), "user.one", &mut [0; 10][..]);
        seen.note("of a link", none.map_err(Into::into));
        // The capability to bind low ports, as `setcap` writes it.
        let capability: Vec<u8> =
            [0x0200_0001u32, 1 << 10, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        let set =
            setxattr(seen.at("file"), "security.capability", &capability, XattrFlags::empty());
        seen.note("capability", set.map_err(Into::into));
        let file = open(&seen.at("file"), libc::O_RDWR).unwrap();
        let mut value = [0; 64];
        seen.note("there", fgetxattr(&file, "security.capability", &mut value).map_err(Into::into));
        seen.note("write", file.write_at(b"y", 0));
        let gone = fgetxattr(&file, "security.capability", &mut value);
        seen.note("gone", gone.map_err(Into::into));
    });
}

/// An access control list, as the kernel has it: tag, permissions, and whose.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&permissions.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    list
}

#[test]
fn access_control_lists_are_the_same() {
    compare(named!(access_control_lists_are_the_same), |seen| {
        const NOBODY: u32 = u32::MAX;
        let of_user_7 = list(&[
            (1, 6, NOBODY),
            (2, 6, 7),
            (4, 4, NOBODY),
            (0x10, 6, NOBODY),
            (0x20, 0, NOBODY),
        ]);
        let get = |seen: &mut Seen, name: &str, which: &str| {
            let mut value = [0; 200];
            let length = getxattr(seen.at(name), which, &mut value);
            let value = length.map(|length| value[..length].to_vec());
            seen.note(&format!("{which} of {name}"), value.map_err(Into::into));
        };
        let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
        fs::write(seen.at("file"), "x").unwrap();
        fs::set_permissions(seen.at("file"), Permissions::from_mode(0o600)).unwrap();
        let path = seen.at("file");
        let reads = |seen: &mut Seen, uid| {
            let path = seen.at("file");
            let done = as_user(uid, uid, &[], || fs::read(&path).map(drop));
            seen.note(&format!("{uid} reads"), done);
        };
        reads(seen, 7);
        let set = setxattr(&path, access, &of_user_7, XattrFlags::empty());
        seen.note("set", set.map_err(Into::into));
        get(seen, "file", access);
        seen.stat("file");
        reads(seen, 7);
        reads(seen, 8);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        get(seen, "file", access);
        reads(seen, 7);
        seen.note("remove", removexattr(&path, access).map_err(Into::into));
        seen.note("again", removexattr(&path, access).map_err(Into::into));
        get(seen, "file", access);
        seen.stat("file");

        fs::create_dir(seen.at("dir")).unwrap();
        let set = setxattr(seen.at("dir"), default, &of_user_7, XattrFlags::empty());
        seen.note("default", set.map_err(Into::into));
        get(seen, "dir", default);
        for (name, mode) in [("open", 0o666), ("closed", 0o600), ("group", 0o640)] {
            let name = format!("dir/{name}");
            let made = OpenOptions::new().write(true).create(true).mode(mode).open(seen.at(&name));
            seen.note(&name, made.map(drop));
            seen.stat(&name);
            get(seen, &name, access);
        }
        seen.note("below", fs::create_dir(seen.at("dir/below")));
        seen.stat("dir/below");
        get(seen, "dir/below", access);
        get(seen, "dir/below", default);
        chown(seen.at("dir"), Some(40), Some(41)).unwrap();
        let made = fs::set_permissions(seen.at("dir"), Permissions::from_mode(0o777));
        seen.note("mode", made);
        let dir = seen.at("dir");
        let made = as_user(30, 31, &[], || fs::write(dir.join("of-30"), ""));
        seen.note("30 makes", made);
        seen.stat("dir/of-30");
        get(seen, "dir/of-30", access);
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, seen.at("dir/pipe"), FileType::Fifo, mode, 0).unwrap();
        seen.stat("dir/pipe");
        symlink("x", seen.at("dir/link")).unwrap();
        seen.stat("dir/link");
        for step in ["no default any more", "nor now"] {
            let removed = removexattr(seen.at("dir/below"), default);
            seen.note(step, removed.map_err(Into::into));
        }
        let wrong = setxattr(seen.at("dir"), default, b"nonsense", XattrFlags::empty());
        seen.note("no list", wrong.map_err(Into::into));
    });
}
