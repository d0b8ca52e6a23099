//! The real file: on the file system of the build directory and, as root, on ext4 of its own loop
//! device.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use oneflush_blocklog::{
    AlignedBuffer, CHUNK_BYTES, DirectFile, DurableWrite, Error, Log, Storage, sync_directory,
};
use oneflush_testing::{has_programs, in_own_mounts, named, run};

use crate::common::{UUID, scan};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// What every file system must do.
fn exercise(dir: &Path, choice: Option<DurableWrite>) -> bool {
    let path = dir.join(format!("log-{choice:?}"));
    let file = DirectFile::open(&path, true).unwrap();
    sync_directory(&path).unwrap();
    if let Some(choice) = choice {
        file.set_durable_write(choice);
        assert_eq!(file.durable_write(), choice);
    }
    let direct = file.is_direct();
    let (log, head) = Log::create(file, UUID, 4096, CHUNK_BYTES).unwrap();
    let mut head = log.begin_epoch(&head, 1, b"begin").unwrap();
    for number in 0..40u8 {
        head = log.append(&head, 2, &vec![number; usize::from(number) * 100]).unwrap();
    }
    head = log.grow(&head, 3 * CHUNK_BYTES).unwrap();
    head = log.append(&head, 3, &vec![9; 300_000]).unwrap();
    let written = scan(&log).unwrap();
    assert_eq!((written.0.len(), written.1), (42, Some(head)));
    drop(log);

    let opened = DirectFile::open(&path, false).unwrap();
    assert_eq!(opened.is_direct(), direct);
    assert_eq!(opened.size_bytes().unwrap(), 4096 + 6 * CHUNK_BYTES);
    let log = Log::open(opened).unwrap();
    assert_eq!(scan(&log).unwrap(), written);
    let next = log.begin_epoch(&head, 1, b"next").unwrap();
    assert_eq!(scan(&log).unwrap().1, Some(next));
    // As others see it, a backup for instance.
    assert!(fs::read(&path).unwrap().starts_with(b"Oneflush log. It may hold commits"));
    direct
}

#[test]
fn a_log_on_a_real_file_reads_back_with_either_durable_write() {
    let dir = directory();
    for choice in [None, Some(DurableWrite::Dsync), Some(DurableWrite::WriteThenSync)] {
        exercise(dir.path(), choice);
    }
}

/// What is written while the kinds are compared is as durable and as right as the rest.
#[test]
fn the_first_records_are_written_either_way_and_then_one_way() {
    let dir = directory();
    let file = DirectFile::open(&dir.path().join("log"), true).unwrap();
    let (log, head) = Log::create(file, UUID, 4096, CHUNK_BYTES).unwrap();
    let mut head = log.begin_epoch(&head, 1, b"begin").unwrap();
    for number in 0..20u8 {
        head = log.append(&head, 2, &[number]).unwrap();
    }
    let chosen = log.storage().durable_write();
    head = log.append(&head, 2, b"last").unwrap();
    assert_eq!(log.storage().durable_write(), chosen);
    assert_eq!(scan(&log).unwrap().1, Some(head));
}

#[test]
fn a_file_system_in_memory_is_used_and_said_to_be_buffered() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        // There is no tmpfs to write to, so nothing can be said about one.
        return;
    };
    assert!(
        !exercise(dir.path(), None),
        "tmpfs takes O_DIRECT since Linux 6.6, and does nothing of the kind"
    );
}

#[test]
fn ext4_on_a_loop_device_gives_direct_io_and_keeps_the_log_out_of_the_page_cache() {
    if !rustix::process::geteuid().is_root() || !has_programs(&["mkfs.ext4", "mount"]) {
        return;
    }
    let this =
        named!(ext4_on_a_loop_device_gives_direct_io_and_keeps_the_log_out_of_the_page_cache);
    if !in_own_mounts(this, Duration::from_secs(60)) {
        return;
    }
    let folder = directory();
    let (image, point) = (folder.path().join("image"), folder.path().join("mounted"));
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    fs::create_dir(&point).unwrap();
    run(Command::new("mkfs.ext4").arg("-q").arg(&image));
    run(Command::new("mount").args(["-o", "loop"]).args([&image, &point]));
    assert!(exercise(&point, None));
    full_disk(&point);
    run(Command::new("umount").arg(&point));
}

/// The file gets its old size back, and nothing is poisoned: the records that fit go on.
fn full_disk(dir: &Path) {
    let file = DirectFile::open(&dir.join("full"), true).unwrap();
    let (log, head) = Log::create(file, UUID, 4096, CHUNK_BYTES).unwrap();
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    let before = log.storage().size_bytes().unwrap();
    match log.grow(&head, 1 << 30).unwrap_err() {
        Error::Io { source, .. } => assert_eq!(source.raw_os_error(), Some(libc::ENOSPC)),
        other => panic!("{other}"),
    }
    assert_eq!(log.storage().size_bytes().unwrap(), before);
    assert!(!log.storage().is_poisoned());
    let next = log.append(&head, 2, b"after").unwrap();
    assert_eq!(scan(&log).unwrap().1, Some(next));
}

#[test]
fn after_a_failed_write_it_only_reads() {
    let dir = directory();
    let path = dir.path().join("log");
    let file = DirectFile::open(&path, true).unwrap();
    let (log, head) = Log::create(file, UUID, 4096, CHUNK_BYTES).unwrap();
    let head = log.begin_epoch(&head, 1, b"begin").unwrap();
    let file = log.storage();
    let block = AlignedBuffer::zeroed(4096);
    // No file has this offset.
    file.write(&block, i64::MAX as u64 & !4095).unwrap_err();
    assert!(file.is_poisoned());
    for result in [
        file.write(&block, 8192),
        file.write_durable(&block, 8192),
        file.flush(),
        file.extend(1 << 20),
        log.append(&head, 2, b"x").map(drop).map_err(std::io::Error::other),
    ] {
        assert!(result.unwrap_err().to_string().contains("until it is opened anew"));
    }
    let mut block = AlignedBuffer::zeroed(4096);
    file.read_at(&mut block, 0).unwrap();
    assert!(block.starts_with(b"Oneflush log"));
    let opened = Log::open(DirectFile::open(&path, false).unwrap()).unwrap();
    assert_eq!(scan(&opened).unwrap().1, Some(head));
}

#[test]
fn a_new_file_must_be_new_and_an_old_one_must_exist() {
    let dir = directory();
    let path = dir.path().join("log");
    let missing = DirectFile::open(&path, false).unwrap_err().to_string();
    assert!(missing.contains("log") && missing.contains("open"), "{missing}");
    fs::write(&path, b"mine").unwrap();
    let exists = DirectFile::open(&path, true).unwrap_err().to_string();
    assert!(exists.contains("create"), "{exists}");
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}

#[test]
fn a_file_beside_a_database_has_the_databases_mode() {
    let dir = directory();
    let (path, database) = (dir.path().join("log"), dir.path().join("a.db"));
    fs::write(&database, b"").unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o666)).unwrap();
    DirectFile::create_beside(&path, &database).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
}

#[test]
fn a_file_is_extended_with_written_zeros_also_from_a_size_that_is_no_block() {
    let dir = directory();
    let path = dir.path().join("log");
    let file = DirectFile::open(&path, true).unwrap();
    let plain = fs::OpenOptions::new().write(true).open(&path).unwrap();
    plain.write_all_at(b"tail", 5_000).unwrap();
    plain.sync_all().unwrap();
    file.extend(3 << 20).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!((bytes.len(), &bytes[5_000..5_004]), (3 << 20, &b"tail"[..]));
    assert!(bytes[..5_000].iter().chain(&bytes[5_004..]).all(|byte| *byte == 0));
    use std::os::unix::fs::MetadataExt;
    assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 3 << 20, "no hole");
    file.extend(4096).unwrap();
    assert_eq!(file.size_bytes().unwrap(), 3 << 20);
}

#[test]
fn reading_behind_the_end_is_an_error() {
    let dir = directory();
    let file = DirectFile::open(&dir.path().join("log"), true).unwrap();
    let mut block = AlignedBuffer::zeroed(4096);
    let error = file.read_at(&mut block, 1 << 20).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_directory_is_synced_by_its_own_path_and_by_that_of_a_file_in_it() {
    let dir = directory();
    sync_directory(dir.path()).unwrap();
    sync_directory(&dir.path().join("was deleted")).unwrap();
    assert!(
        sync_directory(&dir.path().join("missing/file"))
            .unwrap_err()
            .to_string()
            .contains("missing")
    );
}
