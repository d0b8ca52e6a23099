//! Mounting, unmounting, the daemon's death, and what is refused.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use oneflush_eagerfs::mount::{self, Options};
use oneflush_testing::{named, run, wait_until};

use crate::common::{Draws, Mount, Sizes, may_mount, names};

#[test]
fn a_clean_unmount_leaves_the_directory_and_no_log() {
    let Some(mut mount) = Mount::new(named!(a_clean_unmount_leaves_the_directory_and_no_log))
    else {
        return;
    };
    let dir = mount.log().parent().unwrap().to_owned();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&dir), mode(&mount.log())), (0o700, 0o600));
    fs::create_dir(mount.at.join("dir")).unwrap();
    fs::write(mount.at.join("dir/file"), "contents").unwrap();
    assert_eq!(fs::read(mount.at.join("dir/file")).unwrap(), b"contents");
    mount.unmount();
    assert_eq!(fs::read(mount.lower.join("dir/file")).unwrap(), b"contents");
    assert!(!dir.exists());
    assert_eq!(fs::read_dir(&mount.lower).unwrap().count(), 1);
    let names = rustix::fs::listxattr(&mount.lower, &mut [0; 1000][..]).unwrap();
    assert_eq!(names, 0, "no mark is left");
    mount.start();
    assert_eq!(mount.before(), "Nothing");
    mount.unmount();
}

/// Something of every kind, synced and not.
fn fill(at: &Path) {
    fs::create_dir(at.join("dir")).unwrap();
    let mut synced = File::create(at.join("dir/synced")).unwrap();
    synced.write_all(&vec![b's'; 100_000]).unwrap();
    synced.sync_all().unwrap();
    fs::write(at.join("dir/not synced"), "not synced").unwrap();
    fs::hard_link(at.join("dir/synced"), at.join("second")).unwrap();
    symlink("dir/synced", at.join("link")).unwrap();
    fs::write(at.join("replaced"), "old").unwrap();
    fs::write(at.join("new"), "new").unwrap();
    fs::rename(at.join("new"), at.join("replaced")).unwrap();
    fs::set_permissions(at.join("replaced"), fs::Permissions::from_mode(0o640)).unwrap();
    let cut = File::create(at.join("cut")).unwrap();
    cut.write_all_at(&[b'c'; 9000], 0).unwrap();
    cut.sync_all().unwrap();
    cut.set_len(1000).unwrap();
    cut.sync_all().unwrap();
}

fn check_synced(at: &Path) {
    let synced = vec![b's'; 100_000];
    for name in ["dir/synced", "second", "link"] {
        assert!(fs::read(at.join(name)).unwrap() == synced, "{name}");
    }
    assert_eq!(fs::read(at.join("cut")).unwrap(), vec![b'c'; 1000]);
}

fn check(at: &Path) {
    check_synced(at);
    assert_eq!(fs::read(at.join("dir/not synced")).unwrap(), b"not synced");
    assert_eq!(fs::read(at.join("replaced")).unwrap(), b"new");
    let mode = fs::metadata(at.join("replaced")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert_eq!(names(at), ["cut", "dir", "link", "replaced", "second"]);
}

#[test]
fn after_the_daemons_death_the_next_mount_has_all_that_it_was_given() {
    let Some(mut mount) =
        Mount::new(named!(after_the_daemons_death_the_next_mount_has_all_that_it_was_given))
    else {
        return;
    };
    fill(&mount.at);
    mount.kill();
    let error = fs::metadata(&mount.at).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
    let again = format!("oneflush mount {} {}", mount.lower.display(), mount.at.display());
    let said = [
        mount::sync(&mount.at).unwrap_err().to_string(),
        mount::stats(&mount.at).unwrap_err().to_string(),
    ];
    assert!(said.iter().all(|said| said.contains(&again)), "{said:?}");
    mount.start();
    assert_eq!(mount.before(), "Synced");
    check(&mount.at);
    mount.kill();
    mount::unmount(&mount.at).unwrap();
    assert!(mount.log().exists());
    // Without mounting.
    mount::recover(&mount.lower, None, false).unwrap();
    assert!(!mount.log().exists());
    check(&mount.lower);
}

/// Mounts as after a sync of the lower that failed: what the lower has is not trusted then.
fn start_and_replay(mount: &mut Mount) {
    let failed = mount.log().with_file_name("log-failed");
    fs::write(&failed, "").unwrap();
    mount.start();
    assert!(mount.before().starts_with("Replayed"), "{}", mount.before());
    assert!(!failed.exists());
}

#[test]
fn a_log_is_replayed_over_what_the_lower_has_already() {
    let Some(mut mount) = Mount::new(named!(a_log_is_replayed_over_what_the_lower_has_already))
    else {
        return;
    };
    fill(&mount.at);
    let file = File::open(mount.at.join("cut")).unwrap();
    file.sync_all().unwrap();
    drop(file);
    mount.kill();
    fs::write(mount.lower.join("dir/synced"), "lost").unwrap();
    start_and_replay(&mut mount);
    check(&mount.at);
    mount.unmount();
    check(&mount.lower);
    assert!(!mount.log().exists());
}

#[test]
fn what_is_lost_of_the_lower_comes_back_from_the_log() {
    let Some(mut mount) = Mount::new(named!(what_is_lost_of_the_lower_comes_back_from_the_log))
    else {
        return;
    };
    fill(&mount.at);
    fs::create_dir(mount.at.join("last")).unwrap();
    File::open(&mount.at).unwrap().sync_all().unwrap();
    mount.kill();
    // A loss of power may leave nothing of what was made since the mount.
    for entry in fs::read_dir(&mount.lower).unwrap() {
        let path = entry.unwrap().path();
        let is_dir = fs::symlink_metadata(&path).unwrap().is_dir();
        if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
    // Not every file system has one.
    let _ = rustix::fs::removexattr(&mount.lower, "trusted.oneflush.mark");
    start_and_replay(&mut mount);
    check_synced(&mount.at);
    assert!(fs::metadata(mount.at.join("last")).unwrap().is_dir());
    mount.unmount();
}

#[test]
fn a_signal_unmounts_also_while_somebody_uses_the_mount() {
    let Some(mut mount) = Mount::new(named!(a_signal_unmounts_also_while_somebody_uses_the_mount))
    else {
        return;
    };
    let terminate = |mount: &Mount| {
        let pid = rustix::process::Pid::from_raw(mount.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    };
    fs::write(mount.at.join("file"), "contents").unwrap();
    terminate(&mount);
    mount.wait_for_end();
    assert!(!mount.log().exists());

    mount.start();
    let mut file = File::options().append(true).open(mount.at.join("file")).unwrap();
    let busy = mount::unmount(&mount.at).unwrap_err();
    assert!(busy.is_busy(), "{busy}");
    assert!(busy.to_string().contains(&format!("({})", std::process::id())), "{busy}");
    terminate(&mount);
    wait_until("that it is not mounted", || !mount.at.join("file").exists());
    file.write_all(b", and more").unwrap();
    file.sync_all().unwrap();
    drop(file);
    mount.wait_for_end();
    assert!(!mount.log().exists());
    assert_eq!(fs::read(mount.lower.join("file")).unwrap(), b"contents, and more");
}

/// What somebody is told who tries to mount so.
fn refused(options: &Options) -> String {
    match mount::mount(options) {
        Ok(_) => panic!("it was mounted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_cannot_be_mounted_is_refused_with_the_way_out() {
    if !may_mount(named!(what_cannot_be_mounted_is_refused_with_the_way_out)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["lower", "at", "full", "other"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::create_dir(at("lower/inside")).unwrap();
    fs::write(at("full/file"), "").unwrap();
    fs::write(at("file"), "").unwrap();
    let good = Options::new(at("lower"), at("at"));
    let say = |lower: &str, mountpoint: &str, log: Option<&str>| {
        let log = log.map(at);
        refused(&Options { lower: at(lower), mountpoint: at(mountpoint), log, ..good.clone() })
    };
    let cases = [
        (say("lower", "full", None), "is not empty"),
        (say("lower", "lower", None), "lie in one another"),
        (say("lower", "lower/inside", None), "lie in one another"),
        (say("lower/inside", "lower", None), "lie in one another"),
        (say("none", "at", None), "No such file"),
        (say("file", "at", None), "is no directory"),
        (say("lower", "file", None), "is no directory"),
        (say("lower", "at", Some("lower/log")), "Choose another place with --log"),
        (say("lower", "at", Some("at/log")), "Choose another place with --log"),
        (say("lower", "at", Some("none/log")), "No such file"),
    ];
    for (said, wanted) in cases {
        assert!(said.contains(wanted), "{said}: {wanted}");
    }
    assert!(!at("lower-oneflush").exists(), "what was refused leaves nothing");
    symlink(at("other"), at("lower-oneflush")).unwrap();
    let said = refused(&good);
    assert!(said.contains("no directory of this user's own"), "{said}");
    fs::remove_file(at("lower-oneflush")).unwrap();

    let mounted = mount::mount(&Options { mountpoint: at("full"), may_hide: true, ..good.clone() });
    let mounted = mounted.unwrap();
    let already = format!("is mounted already at {}", at("full").display());
    for said in [refused(&good), say("lower", "full", None)] {
        assert!(said.contains(&already), "{said}");
    }
    let ends = std::thread::spawn(move || mounted.wait());
    mount::unmount(&at("full")).unwrap();
    ends.join().unwrap().unwrap();

    let said = mount::stats(&at("at")).unwrap_err().to_string();
    assert!(said.contains("is no mount of oneflush"), "{said}");
    let said = mount::unmount(&at("at")).unwrap_err().to_string();
    assert!(said.contains("is no mount of oneflush"), "{said}");

    run(Command::new("mount").arg("--bind").arg(at("lower")).arg(at("other")));
    run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(at("other")));
    let said = refused(&Options { lower: at("other"), ..good.clone() });
    assert!(said.contains("is read-only"), "{said}");
}

#[test]
fn a_log_that_is_not_this_directorys_or_is_damaged_is_refused_and_left() {
    let Some(mut mount) =
        Mount::new(named!(a_log_that_is_not_this_directorys_or_is_damaged_is_refused_and_left))
    else {
        return;
    };
    fill(&mount.at);
    mount.kill();
    mount::unmount(&mount.at).unwrap();
    let whole = fs::read(mount.log()).unwrap();
    let other = mount.beside("other");
    fs::create_dir(&other).unwrap();
    let good = Options::new(&mount.lower, &mount.at);
    let say = |options: &Options| {
        let before = fs::read(mount.log()).unwrap();
        let said = refused(options);
        assert!(fs::read(mount.log()).unwrap() == before, "{said}");
        said
    };
    let said = say(&Options { lower: other, log: Some(mount.log()), ..good.clone() });
    assert!(said.contains("log of another directory"), "{said}");
    let damage = |damage: &dyn Fn(&mut Vec<u8>), wanted: &str| {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(mount.log(), bytes).unwrap();
        let said = say(&good);
        assert!(said.contains(wanted) && said.contains("Restore the log"), "{said}");
    };
    damage(&|bytes| bytes[300] ^= 1, "damaged");
    let first = whole.windows(4).position(|four| four == b"1FLR").unwrap();
    damage(&|bytes| bytes[first + 100] ^= 1, "damaged");
    damage(&|bytes| bytes.truncate(10_000), "cut");
    damage(&|bytes| bytes.splice(0..512, [b'x'; 512]).for_each(drop), "not a log");
    let newer = |bytes: &mut Vec<u8>| {
        bytes[264] = 99;
        let checksum = crc32c::crc32c(&bytes[..508]).to_le_bytes();
        bytes[508..512].copy_from_slice(&checksum);
    };
    damage(&newer, "format 99");
    fs::write(mount.log(), &whole).unwrap();
    mount.start();
    check(&mount.at);
    mount.unmount();
    // Its making was interrupted.
    fs::create_dir(mount.log().parent().unwrap()).unwrap();
    fs::write(mount.log(), vec![0; 100_000]).unwrap();
    mount.start();
    mount.unmount();
}

#[test]
fn a_full_lower_refuses_and_loses_nothing_that_was_acknowledged() {
    let test = named!(a_full_lower_refuses_and_loses_nothing_that_was_acknowledged);
    let sizes = Sizes { log_bytes: Some(8 << 20), ..Sizes::default() };
    let Some(mut mount) = Mount::on_small_disk(test, sizes) else { return };
    let mut synced = File::create(mount.at.join("synced")).unwrap();
    let mut acknowledged = 0;
    let mut number = 0;
    let full = loop {
        let done = synced.write_all(&[b's'; 4096]).and_then(|()| synced.sync_all());
        if let Err(error) = done {
            break error;
        }
        acknowledged += 4096;
        number += 1;
        let filler =
            File::create(mount.at.join(format!("filler-{number}"))).and_then(|mut file| {
                file.write_all(&vec![b'f'; 1 << 20])?;
                file.sync_all()
            });
        if number > 200 {
            break filler.unwrap_err();
        }
    };
    assert!(number > 20, "{full}");
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC), "{full}");
    let there = fs::read(mount.at.join("synced")).unwrap();
    assert!(there.len() >= acknowledged && there[..acknowledged].iter().all(|one| *one == b's'));
    // Room is made, and it goes on.
    for one in 1..number {
        let _ = fs::remove_file(mount.at.join(format!("filler-{one}")));
    }
    mount::sync(&mount.at).unwrap();
    let mut after = File::create(mount.at.join("after")).unwrap();
    after.write_all(&vec![b'a'; 1 << 20]).unwrap();
    after.sync_all().unwrap();
    drop((synced, after));
    assert_eq!(mount.stat("poisoned"), 0);
    mount.unmount();
    let there = fs::read(mount.lower.join("synced")).unwrap();
    assert!(there.len() >= acknowledged && there[..acknowledged].iter().all(|one| *one == b's'));
}

/// The log once asked for a longer half on a full disk, and then nothing was acknowledged any more.
#[test]
fn a_log_that_cannot_grow_goes_on_with_what_it_has() {
    let test = named!(a_log_that_cannot_grow_goes_on_with_what_it_has);
    let Some(mut mount) = Mount::on_small_disk(test, Sizes::default()) else { return };
    let file = File::create(mount.at.join("file")).unwrap();
    file.write_all_at(&[0; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let mut filler = File::create(mount.beside("filler")).unwrap();
    while filler.write_all(&[b'f'; 1 << 16]).is_ok() {}
    // Nothing of it is like what was there, so each sync takes its whole length.
    let mut bytes = Vec::new();
    let mut draws = Draws(1);
    let records = mount.stat("records");
    for sync in 0..60 {
        bytes = draws.bytes(300_000);
        file.write_all_at(&bytes, 0).unwrap();
        file.sync_all().unwrap_or_else(|error| panic!("sync {sync}: {error}"));
    }
    assert!(mount.stat("records") >= records + 60, "the log has them");
    assert!(mount.stat("epochs") > 1);
    drop((file, filler));
    mount.unmount();
    assert_eq!(fs::read(mount.lower.join("file")).unwrap()[..300_000], bytes);
}

fn make_and_remove_files(at: &Path, count: u32) {
    for number in 0..count {
        fs::write(at.join(format!("file-{number}")), "contents").unwrap();
    }
    for number in 0..count {
        fs::remove_file(at.join(format!("file-{number}"))).unwrap();
    }
}

#[test]
fn removed_files_give_their_space_back_when_nobody_has_them_open() {
    let Some(mut mount) =
        Mount::new(named!(removed_files_give_their_space_back_when_nobody_has_them_open))
    else {
        return;
    };
    let fds = format!("/proc/{}/fd", mount.pid());
    let removed = || {
        let fds = fs::read_dir(&fds).unwrap();
        let links = fds.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| link.to_string_lossy().ends_with("(deleted)")).count()
    };
    let before = removed();
    let path = mount.at.join("open");
    let open = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    fs::remove_file(mount.at.join("open")).unwrap();
    make_and_remove_files(&mount.at, 3000);
    wait_until("that only what is open is kept", || removed() <= before + 2);
    // Not because all of it was dropped.
    assert!(mount.stat("objects") > 3000);
    open.write_all_at(b"still there", 0).unwrap();
    open.sync_all().unwrap();
    let mut bytes = [0; 20];
    assert_eq!(open.read_at(&mut bytes, 0).unwrap(), 11);
    drop(open);
    mount.unmount();
}

#[test]
fn objects_are_dropped_that_nobody_needs() {
    let Some(mut mount) = Mount::with(
        named!(objects_are_dropped_that_nobody_needs),
        Sizes { log_bytes: Some(2 << 20), ..Sizes::default() },
    ) else {
        return;
    };
    make_and_remove_files(&mount.at, 3000);
    let file = File::create(mount.at.join("fills the log")).unwrap();
    let mut draws = Draws(oneflush_testing::seed());
    let mut written = 0;
    wait_until("that objects are dropped", || {
        // What differs from what was written before takes room in the log.
        file.write_all_at(&draws.bytes(100_000), written % 1_000_000).unwrap();
        written += 100_000;
        file.sync_all().unwrap();
        mount.stat("objects") < 100
    });
    drop(file);
    mount.unmount();
}

#[test]
fn what_recovery_has_kept_and_the_mark_are_not_seen_through_the_mount() {
    let Some(mut mount) =
        Mount::new(named!(what_recovery_has_kept_and_the_mark_are_not_seen_through_the_mount))
    else {
        return;
    };
    let place = ".oneflush-recovery";
    fs::create_dir(mount.lower.join(place)).unwrap();
    fs::write(mount.lower.join(place).join("kept"), "kept").unwrap();
    fs::create_dir(mount.at.join("dir")).unwrap();
    let errno = |error: std::io::Error| error.raw_os_error();
    assert_eq!(errno(fs::metadata(mount.at.join(place)).unwrap_err()), Some(libc::ENOENT));
    assert_eq!(errno(fs::create_dir(mount.at.join(place)).unwrap_err()), Some(libc::EPERM));
    let moved = fs::rename(mount.at.join("dir"), mount.at.join(place));
    assert_eq!(errno(moved.unwrap_err()), Some(libc::EPERM));
    assert_eq!(names(&mount.at), ["dir"]);
    // Elsewhere it is a name as any other.
    fs::create_dir(mount.at.join("dir").join(place)).unwrap();
    File::open(&mount.at).unwrap().sync_all().unwrap();
    fs::create_dir(mount.at.join("second")).unwrap();
    assert_eq!(rustix::fs::listxattr(&mount.at, &mut [0; 1000][..]).unwrap(), 0);
    let mark = rustix::fs::getxattr(&mount.at, "trusted.oneflush.mark", &mut [0; 100][..]);
    assert_eq!(mark, Err(rustix::io::Errno::NODATA));
    mount.unmount();
    assert!(mount.lower.join(place).join("kept").exists());
}
