//! Syncs through the mount: which there are, and what each of them writes.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Barrier;
use std::thread;

use oneflush_testing::named;

use crate::common::{Mount, Sizes};

/// What a step adds to a count.
fn added(mount: &Mount, name: &str, step: impl FnOnce()) -> u64 {
    let before = mount.stat(name);
    step();
    mount.stat(name) - before
}

#[test]
fn a_sync_is_one_record() {
    let Some(mut mount) = Mount::new(named!(a_sync_is_one_record)) else { return };
    let mut file = File::create(mount.at.join("file")).unwrap();
    for size in [1, 4096, 5000, 100_000] {
        file.write_all(&vec![b'x'; size]).unwrap();
        let records = added(&mount, "records", || file.sync_all().unwrap());
        assert_eq!(records, 1, "fsync of {size}");
        file.write_all(&vec![b'y'; size]).unwrap();
        let records = added(&mount, "records", || file.sync_data().unwrap());
        assert_eq!(records, 1, "fdatasync of {size}");
    }
    let nothing = added(&mount, "records", || file.sync_all().unwrap());
    assert_eq!(nothing, 0, "nothing has changed");
    let dir = File::open(&mount.at).unwrap();
    fs::create_dir(mount.at.join("dir")).unwrap();
    assert_eq!(added(&mount, "records", || dir.sync_all().unwrap()), 1, "a directory");
    drop((file, dir));
    mount.unmount();
}

#[test]
fn stats_tell_what_was_asked_for_and_what_it_took() {
    let test = named!(stats_tell_what_was_asked_for_and_what_it_took);
    let sizes = Sizes { threshold_bytes: Some(65_536), ..Sizes::default() };
    let Some(mut mount) = Mount::with(test, sizes) else { return };
    let mut file = File::create(mount.at.join("file")).unwrap();
    let now = || {
        ["syncs", "asked_bytes", "flushes", "settled", "over_threshold"]
            .map(|name| mount.stat(name))
    };
    let added = |step: &mut dyn FnMut()| {
        let before = now();
        step();
        let after = now();
        std::array::from_fn::<u64, 5, _>(|at| after[at] - before[at])
    };
    let small = added(&mut || {
        (0..5).for_each(|number| drop(File::create(mount.at.join(format!("{number}"))).unwrap()));
        file.write_all(&[b'x'; 5000]).unwrap();
        file.sync_all().unwrap();
    });
    assert_eq!(small, [1, 5000, 1, 0, 0]);
    let large = added(&mut || {
        file.write_all(&[b'x'; 100_000]).unwrap();
        file.sync_all().unwrap();
    });
    // From the beginning of the page on that was written.
    assert_eq!(large, [1, 105_000 - 4096, 1, 1, 1]);
    // Six files were made.
    let (all, most) = (mount.stat("iset_operations"), mount.stat("iset_operations_max"));
    assert!((6..10).contains(&all) && (6..10).contains(&most), "{all}, {most}");
    assert_eq!(mount.stat("lower_syncs"), 0);
    drop(file);
    mount.unmount();
}

#[test]
fn more_than_the_threshold_is_a_sync_of_the_lower() {
    let Some(mut mount) = Mount::with(
        named!(more_than_the_threshold_is_a_sync_of_the_lower),
        Sizes { threshold_bytes: Some(65_536), ..Sizes::default() },
    ) else {
        return;
    };
    let mut file = File::create(mount.at.join("file")).unwrap();
    file.write_all(&vec![b'x'; 60_000]).unwrap();
    assert_eq!(added(&mount, "settled", || file.sync_all().unwrap()), 0);
    file.write_all(&vec![b'x'; 1_000_000]).unwrap();
    let logged = added(&mount, "logged_bytes", || {
        assert_eq!(added(&mount, "settled", || file.sync_all().unwrap()), 1);
    });
    assert!(logged < 20_000, "{logged}");
    drop(file);
    mount.unmount();
}

/// An aligned block of memory, for direct writes.
#[repr(C, align(4096))]
struct Block([u8; 4096]);

#[test]
fn a_write_that_is_to_be_durable_is_synced_before_it_is_answered() {
    let Some(mut mount) =
        Mount::new(named!(a_write_that_is_to_be_durable_is_synced_before_it_is_answered))
    else {
        return;
    };
    let block = Block([b'd'; 4096]);
    let flags = [
        ("O_SYNC", libc::O_SYNC),
        ("O_DSYNC", libc::O_DSYNC),
        ("O_SYNC and O_DIRECT", libc::O_SYNC | libc::O_DIRECT),
        ("O_DSYNC and O_DIRECT", libc::O_DSYNC | libc::O_DIRECT),
        ("O_DSYNC and O_APPEND", libc::O_DSYNC | libc::O_APPEND),
    ];
    for (name, flags) in flags {
        let mut options = OpenOptions::new();
        options.write(true).create(true).custom_flags(flags);
        let mut file = options.open(mount.at.join(name)).unwrap();
        for _ in 0..3 {
            let syncs = added(&mount, "syncs", || {
                let records = added(&mount, "records", || file.write_all(&block.0).unwrap());
                assert_eq!(records, 1, "{name}");
            });
            assert_eq!(syncs, 1, "{name}");
        }
    }
    for (name, flags) in [("RWF_DSYNC", 0), ("RWF_DSYNC and O_DIRECT", libc::O_DIRECT)] {
        let mut options = OpenOptions::new();
        options.write(true).create(true).custom_flags(flags);
        let file = options.open(mount.at.join(name)).unwrap();
        let part = libc::iovec { iov_base: block.0.as_ptr().cast_mut().cast(), iov_len: 4096 };
        let records = added(&mount, "records", || {
            // SAFETY: `part` names a block that outlives the call, which only reads it.
            let written = unsafe { libc::pwritev2(file.as_raw_fd(), &part, 1, 0, libc::RWF_DSYNC) };
            assert_eq!(written, 4096);
        });
        assert_eq!(records, 1, "{name}");
    }
    mount.unmount();
}

#[test]
fn memory_that_is_shared_with_a_file_is_synced() {
    let Some(mut mount) = Mount::new(named!(memory_that_is_shared_with_a_file_is_synced)) else {
        return;
    };
    let path = mount.at.join("file");
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    file.set_len(16_384).unwrap();
    file.sync_all().unwrap();
    // SAFETY: a new mapping of 16 KiB of a file that is as long, at a place of the kernel's choice.
    let memory = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(
            std::ptr::null_mut(),
            16_384,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(memory.cast::<u8>(), 16_384)
    };
    memory[5000..5005].copy_from_slice(b"hello");
    let records = added(&mount, "records", || {
        // SAFETY: the mapping is there, from its first byte on.
        let synced = unsafe { libc::msync(memory.as_mut_ptr().cast(), 16_384, libc::MS_SYNC) };
        assert_eq!(synced, 0);
    });
    assert_eq!(records, 1);
    assert_eq!(&fs::read(mount.lower.join("file")).unwrap()[5000..5005], b"hello");
    file.write_all_at(b"HE", 5000).unwrap();
    assert_eq!(&memory[5000..5005], b"HEllo");
    // SAFETY: nothing uses the mapping any more.
    unsafe { libc::munmap(memory.as_mut_ptr().cast(), 16_384) };
    drop(file);
    mount.unmount();
}

#[test]
fn those_who_sync_together_share_records() {
    const THREADS: usize = 8;
    const SYNCS: usize = 25;
    let Some(mut mount) = Mount::new(named!(those_who_sync_together_share_records)) else { return };
    let barrier = Barrier::new(THREADS);
    let at = &mount.at;
    let mut records = 0;
    let syncs = added(&mount, "syncs", || {
        records = added(&mount, "records", || {
            thread::scope(|scope| {
                for number in 0..THREADS {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let path = at.join(format!("file-{number}"));
                        let mut file = File::create(path).unwrap();
                        for _ in 0..SYNCS {
                            file.write_all(&[b'x'; 4096]).unwrap();
                            barrier.wait();
                            file.sync_all().unwrap();
                        }
                    });
                }
            });
        });
    });
    assert_eq!(syncs, (THREADS * SYNCS) as u64);
    assert!(records < syncs * 3 / 4, "{records} records for {syncs} syncs");
    mount.unmount();
}

#[test]
fn a_file_that_replaces_another_comes_with_what_the_kernel_has_cached() {
    let Some(mut mount) =
        Mount::new(named!(a_file_that_replaces_another_comes_with_what_the_kernel_has_cached))
    else {
        return;
    };
    fs::write(mount.at.join("name"), "old").unwrap();
    let mut file = File::create(mount.at.join("new")).unwrap();
    file.write_all(b"new contents").unwrap();
    // It is still open, and nothing was synced.
    fs::rename(mount.at.join("new"), mount.at.join("name")).unwrap();
    assert_eq!(fs::read(mount.lower.join("name")).unwrap(), b"new contents");
    file.write_all(b", and more").unwrap();
    drop(file);
    assert_eq!(fs::read(mount.at.join("name")).unwrap(), b"new contents, and more");

    // Many at the same time, so that those who answer have much to do.
    thread::scope(|scope| {
        for number in 0..40 {
            let at = &mount.at;
            scope.spawn(move || {
                let (one, other) =
                    (at.join(format!("one-{number}")), at.join(format!("to-{number}")));
                fs::write(&other, "old").unwrap();
                let mut file = File::create(&one).unwrap();
                file.write_all(&vec![b'n'; 300_000]).unwrap();
                fs::rename(&one, &other).unwrap();
                file.sync_all().unwrap();
            });
        }
    });
    for number in 0..40 {
        let contents = fs::read(mount.lower.join(format!("to-{number}"))).unwrap();
        assert!(contents == vec![b'n'; 300_000], "{number}");
    }
    mount.unmount();
}

#[test]
fn everything_is_synced_on_request_also_what_the_kernel_has_cached() {
    let Some(mut mount) =
        Mount::new(named!(everything_is_synced_on_request_also_what_the_kernel_has_cached))
    else {
        return;
    };
    let mut file = File::create(mount.at.join("file")).unwrap();
    file.write_all(&vec![b's'; 200_000]).unwrap();
    oneflush_eagerfs::mount::sync(&mount.at).unwrap();
    assert!(fs::read(mount.lower.join("file")).unwrap() == vec![b's'; 200_000]);
    let error = oneflush_eagerfs::mount::sync(&mount.lower).unwrap_err().to_string();
    assert!(error.contains("is no mount of oneflush"), "{error}");
    drop(file);
    mount.unmount();
}
