//! Contents of files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use oneflush_testing::named;

use super::{compare, open, rustix_truncate};
use crate::common::seen::Digest;

#[repr(C, align(4096))]
struct Block([u8; 4096]);

#[test]
fn contents_are_the_same() {
    compare(named!(contents_are_the_same), |seen| {
        seen.note("write", fs::write(seen.at("file"), "hello"));
        seen.stat("file");
        seen.contents("file");
        let again = OpenOptions::new().write(true).create_new(true).open(seen.at("file"));
        seen.note("make again", again.map(drop));
        seen.note("open nothing", File::open(seen.at("nothing")).map(drop));
        seen.note("in a file", File::open(seen.at("file/below")).map(drop));
        seen.note("a long name", fs::write(seen.at(&"n".repeat(256)), ""));
        seen.note("the longest name", fs::write(seen.at(&"n".repeat(255)), ""));
        seen.note("create", File::create(seen.at("dir")).map(drop));
        seen.note("not a directory", open(&seen.at("file"), libc::O_DIRECTORY).map(drop));
        for (mode, umask) in [(0o777, 0o22), (0o666, 0o77), (0o7777, 0)] {
            let name = format!("mode-{mode:o}-{umask:o}");
            // SAFETY: the call takes a number. No other thread of this process makes files.
            let before = unsafe { libc::umask(umask) };
            let made = OpenOptions::new().write(true).create(true).mode(mode).open(seen.at(&name));
            // SAFETY: as above.
            unsafe { libc::umask(before) };
            seen.note(&name, made.map(drop));
            seen.stat(&name);
        }

        let mut file = open(&seen.at("file"), libc::O_RDWR).unwrap();
        seen.note("write at", file.write_at(b"J", 0));
        seen.note("behind the end", file.write_at(b"!", 10_000));
        seen.note("cut", file.set_len(9_000));
        seen.note("longer", file.set_len(12_000));
        seen.contents("file");
        seen.note("seek", file.seek(SeekFrom::End(-3)));
        let mut rest = Vec::new();
        seen.note("read", file.read_to_end(&mut rest));
        seen.note("nothing behind", file.read_at(&mut [0; 10], 1 << 40));
        seen.note("cut by path", rustix_truncate(&seen.at("file"), 7));
        seen.contents("file");
        seen.note("too long", file.set_len(i64::MAX as u64));
        drop(file);

        let mut one =
            open(&seen.at("log"), libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND).unwrap();
        let mut other = open(&seen.at("log"), libc::O_WRONLY | libc::O_APPEND).unwrap();
        for number in 0..50 {
            one.write_all(format!("one {number}\n").as_bytes()).unwrap();
            other.write_all(format!("other {number}\n").as_bytes()).unwrap();
        }
        seen.contents("log");
        let emptied = open(&seen.at("log"), libc::O_WRONLY | libc::O_TRUNC);
        seen.note("emptied", emptied.map(drop));
        seen.contents("log");
        one.write_all(b"after").unwrap();
        seen.contents("log");
        seen.note("reads", one.read(&mut [0; 4]));

        let big: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
        seen.note("big", fs::write(seen.at("big"), &big));
        seen.contents("big");
        seen.note(
            "over its middle",
            fs::File::options()
                .write(true)
                .open(seen.at("big"))
                .and_then(|file| file.write_all_at(&vec![7; 777_777], 1_234_567)),
        );
        seen.contents("big");
        seen.stat("big");
        let direct = open(&seen.at("big"), libc::O_RDWR | libc::O_DIRECT).unwrap();
        let mut block = Block([3; 4096]);
        seen.note("direct write", direct.write_at(&block.0, 8192));
        seen.note("direct read", direct.read_at(&mut block.0, 4096));
        seen.note("what was read", Ok(Digest::of(&block.0)));
        seen.contents("big");
        drop(direct);
        let copied = fs::copy(seen.at("big"), seen.at("copy"));
        seen.note("copy", copied);
        seen.contents("copy");
    });
}
