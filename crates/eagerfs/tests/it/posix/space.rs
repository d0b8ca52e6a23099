//! Space, holes and copies.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use oneflush_testing::named;
use rustix::fs::{FallocateFlags, fallocate};

use super::{compare, open};

fn holes(file: &File) -> Vec<(u64, u64)> {
    let mut data = Vec::new();
    let mut at = 0;
    while let Ok(from) = rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        at = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(from)).unwrap();
        data.push((from, at));
    }
    data
}

#[test]
fn holes_and_copies_are_the_same() {
    compare(named!(holes_and_copies_are_the_same), |seen| {
        let file = open(&seen.at("file"), libc::O_RDWR | libc::O_CREAT).unwrap();
        seen.note("data far away", file.write_at(b"far", 1 << 20));
        seen.note("data", Ok(holes(&file)));
        seen.note("longer", file.set_len(4 << 20));
        seen.note("data", Ok(holes(&file)));
        let modes = [
            ("allocate", FallocateFlags::empty(), 4 << 20, 8192),
            ("keep the size", FallocateFlags::KEEP_SIZE, 8 << 20, 8192),
            ("punch", FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 1 << 20, 4096),
            ("punch", FallocateFlags::PUNCH_HOLE, 0, 4096),
            ("zero", FallocateFlags::ZERO_RANGE, 10, 5000),
            ("nothing", FallocateFlags::empty(), 0, 0),
            ("too far", FallocateFlags::empty(), i64::MAX as u64 - 10, 100),
        ];
        let bytes: Vec<u8> = (0..100_000u32).map(|number| (number % 253) as u8).collect();
        for (name, flags, offset, length) in modes {
            file.write_all_at(&bytes, 0).unwrap();
            seen.note(name, fallocate(&file, flags, offset, length).map_err(Into::into));
            seen.contents("file");
            seen.stat("file");
            seen.note("sync", file.sync_all());
            let data = holes(&file).iter().map(|(from, to)| to - from).sum::<u64>();
            seen.note("data", Ok(data < 400_000));
        }
        // The kernel asks no FUSE file system to move what is behind a range.
        for flags in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
            let moved = fallocate(&file, flags, 4096, 4096);
            assert!(matches!(moved, Ok(()) | Err(rustix::io::Errno::OPNOTSUPP)));
        }
        file.set_len(100).unwrap();
        let reader = File::open(seen.at("file")).unwrap();
        let refused = fallocate(&reader, FallocateFlags::empty(), 0, 10);
        seen.note("by a reader", refused.map_err(Into::into));

        fs::write(seen.at("source"), &bytes).unwrap();
        let source = File::open(seen.at("source")).unwrap();
        let target = open(&seen.at("target"), libc::O_RDWR | libc::O_CREAT).unwrap();
        target.write_all_at(&[b't'; 50_000], 0).unwrap();
        let copy = |from: u64, to: u64, length| -> io::Result<usize> {
            let (mut from, mut to) = (from, to);
            let copied = rustix::fs::copy_file_range(
                &source,
                Some(&mut from),
                &target,
                Some(&mut to),
                length,
            );
            Ok(copied?)
        };
        seen.note("copy", copy(100, 20_000, 60_000));
        seen.contents("target");
        seen.note("copy behind the end", copy(90_000, 100_000, 60_000));
        seen.contents("target");
        seen.note("copy nothing", copy(100_000, 0, 10));
        seen.note("sync", target.sync_all());
        seen.stat("target");
    });
}
