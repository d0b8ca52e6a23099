//! Names, directories and links.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;

use oneflush_testing::named;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{compare, open};
use crate::common::seen::Seen;

#[test]
fn directories_are_the_same() {
    compare(named!(directories_are_the_same), |seen| {
        seen.note("mkdir", fs::create_dir(seen.at("dir")));
        seen.note("again", fs::create_dir(seen.at("dir")));
        seen.note("deep", fs::create_dir_all(seen.at("dir/a/b/c")));
        seen.note("write", fs::write(seen.at("dir/a/file"), "x"));
        seen.stat("dir");
        seen.note("not empty", fs::remove_dir(seen.at("dir/a")));
        seen.note("unlink a directory", fs::remove_file(seen.at("dir/a")));
        seen.note("rmdir a file", fs::remove_dir(seen.at("dir/a/file")));
        seen.note("rmdir nothing", fs::remove_dir(seen.at("none")));
        seen.note("the root", fs::remove_dir(seen.at("dir/.")));
        let rename = |seen: &mut Seen, from: &str, to: &str| {
            let done = fs::rename(seen.at(from), seen.at(to));
            seen.note(&format!("rename {from} to {to}"), done);
        };
        rename(seen, "dir", "dir/a/inside");
        rename(seen, "dir/a/b", "dir/b");
        rename(seen, "dir/b", "moved");
        seen.stat("dir/a");
        seen.stat("moved");
        fs::create_dir(seen.at("empty")).unwrap();
        fs::write(seen.at("file"), "file").unwrap();
        rename(seen, "moved", "dir");
        rename(seen, "moved", "empty");
        rename(seen, "file", "empty");
        rename(seen, "empty", "file");
        rename(seen, "none", "other");
        rename(seen, "file", "file");
        fs::write(seen.at("second"), "second").unwrap();
        rename(seen, "file", "second");
        seen.contents("second");
        seen.list("");
        seen.note("up and down", fs::metadata(seen.at("empty/../dir/../second")).map(|s| s.len()));

        let flagged = |seen: &mut Seen, from: &str, to: &str, flags: RenameFlags| {
            let done = renameat_with(CWD, seen.at(from), CWD, seen.at(to), flags);
            seen.note(&format!("rename {from} to {to}, {flags:?}"), done.map_err(Into::into));
        };
        fs::write(seen.at("one"), "one").unwrap();
        flagged(seen, "one", "second", RenameFlags::NOREPLACE);
        flagged(seen, "one", "fresh", RenameFlags::NOREPLACE);
        flagged(seen, "fresh", "second", RenameFlags::EXCHANGE);
        flagged(seen, "fresh", "none", RenameFlags::EXCHANGE);
        flagged(seen, "fresh", "dir", RenameFlags::EXCHANGE);
        flagged(seen, "fresh", "second", RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
        seen.contents("second");
        seen.contents("dir");
        seen.list("fresh");

        fs::create_dir(seen.at("many")).unwrap();
        for number in 0..700 {
            fs::write(seen.at(&format!("many/a name that is not short {number}")), "").unwrap();
        }
        seen.list("many");
        let removed = fs::read_dir(seen.at("many")).unwrap().map(|entry| {
            fs::remove_file(entry.unwrap().path()).unwrap();
        });
        seen.note("removed while it is listed", Ok(removed.count()));
        seen.list("many");
        seen.note("empty now", fs::remove_dir(seen.at("many")));
        seen.note("all", fs::remove_dir_all(seen.at("fresh")));
        seen.list("");
    });
}

#[test]
fn links_are_the_same() {
    compare(named!(links_are_the_same), |seen| {
        fs::write(seen.at("file"), "contents").unwrap();
        fs::create_dir(seen.at("dir")).unwrap();
        seen.note("link", fs::hard_link(seen.at("file"), seen.at("dir/second")));
        seen.note("again", fs::hard_link(seen.at("file"), seen.at("dir/second")));
        seen.note("of a directory", fs::hard_link(seen.at("dir"), seen.at("other")));
        seen.stat("file");
        seen.stat("dir/second");
        let same = |one: &Path, other: &Path| -> io::Result<bool> {
            Ok(fs::metadata(one)?.ino() == fs::metadata(other)?.ino())
        };
        seen.note("same", same(&seen.at("file"), &seen.at("dir/second")));
        seen.note("write", fs::write(seen.at("dir/second"), "by the other name"));
        seen.contents("file");
        seen.note("rename over itself", fs::rename(seen.at("file"), seen.at("dir/second")));
        seen.list("");
        seen.note("unlink", fs::remove_file(seen.at("file")));
        seen.stat("dir/second");
        seen.contents("dir/second");

        for target in ["dir/second", "dir", "nowhere", "loop", "/dev/null"] {
            let name = format!("to-{}", target.replace('/', "-"));
            seen.note(&name, symlink(target, seen.at(&name)));
            seen.note("target", fs::read_link(seen.at(&name)));
            seen.stat(&name);
            seen.note("through it", fs::metadata(seen.at(&name)).map(|stat| stat.mode()));
        }
        seen.note("loop", symlink("loop", seen.at("loop")));
        seen.note("through the loop", fs::metadata(seen.at("loop")).map(|stat| stat.len()));
        seen.note("long", symlink("l/".repeat(2000), seen.at("long")));
        seen.note("target", fs::read_link(seen.at("long")));
        seen.note("not followed", open(&seen.at("to-dir-second"), libc::O_NOFOLLOW).map(drop));
        seen.note("write through", fs::write(seen.at("to-dir-second"), "through"));
        seen.contents("dir/second");
        seen.note("link of a link", fs::hard_link(seen.at("to-dir"), seen.at("linked")));
        seen.stat("linked");
        seen.note("read a file's", fs::read_link(seen.at("dir/second")));
        seen.note("mkdir over a link", fs::create_dir(seen.at("to-nowhere")));
        seen.note("owner of a link", lchown(seen.at("linked"), Some(7), Some(8)));
        seen.stat("linked");
        seen.stat("dir");
    });
}
