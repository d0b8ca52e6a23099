//! A real directory as the lower: identities, descriptors, errors.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use oneflush_eagerfs::directory::{Directory, Extended};
use oneflush_eagerfs::entry::{Entry, Form, ObjectId, Op, Piece, Place, ROOT, Seq};
use oneflush_eagerfs::fold::fold;
use oneflush_eagerfs::lower::{Attribute, Found, Kind, Lower, Made, Time, What};
use oneflush_eagerfs::recovery::changed_without;
use oneflush_eagerfs::replay::replay;
use oneflush_testing::skip;
use tempfile::TempDir;

use crate::common::seen::as_user;

/// Of whoever runs the test.
fn made(what: What, mode: u32) -> Made {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Made { what, mode, uid, gid }
}

fn a_file() -> Made {
    made(What::File, 0o640)
}

fn a_directory() -> Made {
    made(What::Directory, 0o750)
}

fn directory() -> (TempDir, Directory) {
    let at = tempfile::tempdir().unwrap();
    let lower = Directory::open(at.path(), 4).unwrap();
    (at, lower)
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("only root may give files away and open them by handle");
    }
    is_root
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().expect("an error").raw_os_error()
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn objects_end_with_the_owner_and_mode_that_were_asked_for_whatever_the_umask_is() {
    if !is_root() {
        return;
    }
    let (at, lower) = directory();
    let root = lower.root();
    let all: [(&str, What, u32, libc::mode_t); 4] = [
        ("file", What::File, 0o6777, libc::S_IFREG),
        ("directory", What::Directory, 0o3777, libc::S_IFDIR),
        ("pipe", What::Special { kind: libc::S_IFIFO, device: 0 }, 0o622, libc::S_IFIFO),
        ("device", What::Special { kind: libc::S_IFCHR, device: 0x0103 }, 0o666, libc::S_IFCHR),
    ];
    for (uid, gid) in [(0, 0), (1234, 0), (0, 4321), (1234, 4321)] {
        for (name, what, mode, kind) in &all {
            let name = format!("{name}-{uid}-{gid}");
            let made = Made { what: what.clone(), mode: *mode, uid, gid };
            lower.make(Some((&root, name.as_bytes())), &made).unwrap();
            let stat = fs::symlink_metadata(at.path().join(&name)).unwrap();
            assert_eq!((stat.uid(), stat.gid()), (uid, gid), "{name}");
            assert_eq!(stat.mode(), kind | mode, "{name}");
        }
        let name = format!("link-{uid}-{gid}");
        let what = What::Symlink { target: b"to/nowhere".to_vec() };
        lower.make(Some((&root, name.as_bytes())), &Made { what, mode: 0o777, uid, gid }).unwrap();
        let stat = fs::symlink_metadata(at.path().join(&name)).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (uid, gid), "{name}");
        assert_eq!(fs::read_link(at.path().join(&name)).unwrap(), Path::new("to/nowhere"));
    }
    let mode = fs::metadata(at.path().join("device-0-0")).unwrap().rdev();
    assert_eq!(mode, libc::makedev(1, 3));
}

#[test]
fn a_directory_that_gives_its_group_does_not_change_what_was_asked_for() {
    if !is_root() {
        return;
    }
    let (at, lower) = directory();
    let group = at.path().join("group");
    fs::create_dir(&group).unwrap();
    std::os::unix::fs::chown(&group, Some(0), Some(77)).unwrap();
    fs::set_permissions(&group, fs::Permissions::from_mode(0o2775)).unwrap();
    let dir = lower.lookup(&lower.root(), b"group").unwrap();
    lower.make(Some((&dir, b"mine")), &a_file()).unwrap();
    lower.make(Some((&dir, b"theirs")), &Made { gid: 77, ..a_file() }).unwrap();
    lower.make(Some((&dir, b"plain")), &a_directory()).unwrap();
    let stat = |name: &str| fs::metadata(group.join(name)).unwrap();
    assert_eq!((stat("mine").gid(), stat("theirs").gid()), (0, 77));
    assert_eq!(stat("plain").mode() & 0o7777, 0o750);
}

#[test]
fn errors_keep_the_numbers_of_the_kernel() {
    let (at, lower) = directory();
    let root = lower.root();
    fs::write(at.path().join("file"), "x").unwrap();
    fs::create_dir_all(at.path().join("full/of")).unwrap();
    let file = lower.lookup(&root, b"file").unwrap();
    assert_eq!(errno(lower.lookup(&root, b"none")), Some(libc::ENOENT));
    assert_eq!(errno(lower.lookup(&file, b"none")), Some(libc::ENOTDIR));
    assert_eq!(errno(lower.lookup(&root, &[b'n'; 300])), Some(libc::ENAMETOOLONG));
    assert_eq!(errno(lower.lookup(&root, b"..")), Some(libc::EINVAL));
    assert_eq!(errno(lower.lookup(&root, b"full/of")), Some(libc::EINVAL));
    assert_eq!(errno(lower.unlink(&root, b"full", Kind::Directory)), Some(libc::ENOTEMPTY));
    assert_eq!(errno(lower.unlink(&root, b"full", Kind::File)), Some(libc::EISDIR));
    assert_eq!(errno(lower.unlink(&root, b"file", Kind::Directory)), Some(libc::ENOTDIR));
    assert_eq!(errno(lower.make(Some((&root, b"file")), &a_file())), Some(libc::EEXIST));
    assert_eq!(errno(lower.link(&file, &root, b"full")), Some(libc::EEXIST));
    assert_eq!(errno(lower.rename((&root, b"none"), (&root, b"other"))), Some(libc::ENOENT));
    assert_eq!(errno(lower.rename((&root, b"file"), (&root, b"full"))), Some(libc::EISDIR));
    assert_eq!(errno(lower.exchange((&root, b"file"), (&root, b"none"))), Some(libc::ENOENT));
    assert_eq!(errno(lower.extended(&file, b"user.none")), Some(libc::ENODATA));
    let full = lower.lookup(&root, b"full").unwrap();
    assert_eq!(errno(lower.rename((&root, b"full"), (&full, b"inside"))), Some(libc::EINVAL));
    assert_eq!(errno(lower.write(&full, 0, b"x")), Some(libc::EINVAL));
}

#[test]
fn what_is_mounted_inside_is_another_file_system() {
    let Ok(lower) = Directory::open(Path::new("/"), 4) else { return skip("/ cannot be opened") };
    assert_eq!(errno(lower.lookup(&lower.root(), b"proc")), Some(libc::EXDEV));
}

#[test]
fn a_link_is_an_object_and_is_never_followed() {
    let (at, lower) = directory();
    let root = lower.root();
    fs::create_dir(at.path().join("real")).unwrap();
    fs::write(at.path().join("target"), "as it was").unwrap();
    symlink("real", at.path().join("to_directory")).unwrap();
    symlink("target", at.path().join("to_file")).unwrap();
    let link = lower.lookup(&root, b"to_directory").unwrap();
    assert_eq!(lower.look(&link).unwrap().kind, Kind::Symlink);
    assert_eq!(errno(lower.lookup(&link, b"x")), Some(libc::ENOTDIR));
    assert_eq!(errno(lower.make(Some((&link, b"x")), &a_file())), Some(libc::ENOTDIR));
    assert!(lower.names(&link).is_err());
    let link = lower.lookup(&root, b"to_file").unwrap();
    assert!(lower.write(&link, 0, b"x").is_err() && lower.truncate(&link, 0).is_err());
    let old = Time { seconds: 12345, nanoseconds: 678 };
    lower.set(&link, &Attribute::Modified(old)).unwrap();
    let stat = fs::symlink_metadata(at.path().join("to_file")).unwrap();
    assert_eq!((stat.mtime(), stat.mtime_nsec()), (12345, 678));
    assert_ne!(fs::metadata(at.path().join("to_file")).unwrap().mtime(), 12345);
    lower.link(&link, &root, b"second").unwrap();
    assert_eq!(fs::read_link(at.path().join("second")).unwrap(), Path::new("target"));
    assert_eq!(lower.look(&link).unwrap().names, 2);
    lower.sync(&link).unwrap();
}

#[test]
fn an_identity_stays_over_renames_and_is_not_inherited_with_the_number() {
    let (at, lower) = directory();
    let root = lower.root();
    let node = lower.make(Some((&root, b"one")), &a_file()).unwrap();
    let identity = lower.identity(&node).unwrap();
    let dir = lower.make(Some((&root, b"dir")), &a_directory()).unwrap();
    lower.rename((&root, b"one"), (&dir, b"two")).unwrap();
    let again = lower.lookup(&dir, b"two").unwrap();
    assert_eq!(lower.identity(&again).unwrap(), identity);
    let mut numbers = vec![identity.inode];
    let mut identities = vec![identity.clone()];
    drop((node, again));
    lower.unlink(&dir, b"two", Kind::File).unwrap();
    for _ in 0..50 {
        let node = lower.make(Some((&root, b"other")), &a_file()).unwrap();
        let identity = lower.identity(&node).unwrap();
        assert!(!identities.contains(&identity));
        numbers.push(identity.inode);
        identities.push(identity);
        drop(node);
        lower.unlink(&root, b"other", Kind::File).unwrap();
    }
    let second = Directory::open(at.path(), 4).unwrap();
    assert_eq!(second.identity(&second.root()).unwrap(), lower.identity(&root).unwrap());
}

#[test]
fn an_object_is_found_by_its_identity_until_it_is_gone() {
    let (at, lower) = directory();
    if !lower.opens_by_handle() {
        return skip("this process may not open by handles");
    }
    let root = lower.root();
    let node = lower.make(Some((&root, b"one")), &a_file()).unwrap();
    lower.write(&node, 0, b"contents").unwrap();
    let identity = lower.identity(&node).unwrap();
    drop(node);
    fs::create_dir(at.path().join("deep")).unwrap();
    fs::rename(at.path().join("one"), at.path().join("deep/below")).unwrap();
    // Another mount of the same directory, which has never seen it.
    let other = Directory::open(at.path(), 4).unwrap();
    let Found::Here(node) = other.find(&identity).unwrap() else { panic!("it is there") };
    let mut bytes = [0; 20];
    let length = other.read(&node, 0, &mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"contents");
    other.link(&node, &other.root(), b"linked").unwrap();
    assert_eq!(fs::read(at.path().join("linked")).unwrap(), b"contents");
    drop(node);
    fs::remove_file(at.path().join("linked")).unwrap();
    fs::remove_file(at.path().join("deep/below")).unwrap();
    assert!(matches!(lower.find(&identity).unwrap(), Found::Nowhere));
    let mut stranger = identity;
    stranger.proof = b"?".to_vec();
    assert!(matches!(lower.find(&stranger).unwrap(), Found::Unknown));
}

#[test]
fn a_thousand_objects_need_few_descriptors_and_all_are_reached() {
    let (at, lower) = directory();
    let root = lower.root();
    let before = open_descriptors();
    let nodes: Vec<_> = (0..1000)
        .map(|number| {
            let name = format!("file-{number}");
            let node = lower.make(Some((&root, name.as_bytes())), &a_file()).unwrap();
            lower.write(&node, 0, name.as_bytes()).unwrap();
            node
        })
        .collect();
    // Other tests of this process have some, too.
    assert!(open_descriptors() < before + 200, "{} of {before}", open_descriptors());
    for (number, node) in nodes.iter().enumerate() {
        let mut bytes = [0; 20];
        let length = lower.read(node, 0, &mut bytes).unwrap();
        assert_eq!(bytes[..length], *format!("file-{number}").as_bytes());
    }
    fs::remove_file(at.path().join("file-500")).unwrap();
    assert_eq!(errno(lower.look(&nodes[500])), Some(libc::ESTALE));
}

#[test]
fn a_file_without_a_name_stays_while_it_is_known() {
    let (at, lower) = directory();
    let root = lower.root();
    let node = lower.make(Some((&root, b"one")), &a_file()).unwrap();
    lower.write(&node, 0, b"contents").unwrap();
    lower.unlink(&root, b"one", Kind::File).unwrap();
    let replaced = lower.make(Some((&root, b"two")), &a_file()).unwrap();
    lower.make(Some((&root, b"three")), &a_file()).unwrap();
    lower.rename((&root, b"three"), (&root, b"two")).unwrap();
    let removed = lower.make(Some((&root, b"dir")), &a_directory()).unwrap();
    lower.unlink(&root, b"dir", Kind::Directory).unwrap();
    // Enough that their descriptors are among the lately used, and no others.
    let others = (0..20).map(|number| {
        let name = format!("other-{number}");
        lower.make(Some((&root, name.as_bytes())), &a_file()).unwrap()
    });
    let others: Vec<_> = others.collect();
    let mut bytes = [0; 20];
    assert_eq!(lower.read(&node, 0, &mut bytes).unwrap(), 8);
    assert_eq!(lower.look(&node).unwrap().names, 0);
    assert_eq!(lower.look(&replaced).unwrap().names, 0);
    assert_eq!(lower.look(&removed).unwrap().names, 0);
    lower.sync(&node).unwrap();
    node.unpin();
    assert_eq!(errno(lower.look(&node)), Some(libc::ESTALE));
    drop(others);
    lower.sync(&node).unwrap();

    let nameless = lower.make(None, &a_file()).unwrap();
    lower.write(&nameless, 0, b"later").unwrap();
    assert_eq!(lower.look(&nameless).unwrap().names, 0);
    lower.link(&nameless, &root, b"named").unwrap();
    assert_eq!(fs::read(at.path().join("named")).unwrap(), b"later");
    assert_eq!(fs::metadata(at.path().join("named")).unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn attributes_are_set_and_read() {
    let (at, lower) = directory();
    let root = lower.root();
    let node = lower.make(Some((&root, b"one")), &a_file()).unwrap();
    let path = at.path().join("one");
    lower.set(&node, &Attribute::Mode(0o604)).unwrap();
    lower.set(&node, &Attribute::Accessed(Time { seconds: -5, nanoseconds: 999 })).unwrap();
    lower.set(&node, &Attribute::Modified(Time { seconds: 1 << 32, nanoseconds: 7 })).unwrap();
    let stat = fs::metadata(&path).unwrap();
    assert_eq!(stat.mode() & 0o7777, 0o604);
    assert_eq!((stat.atime(), stat.atime_nsec()), (-5, 999));
    assert_eq!((stat.mtime(), stat.mtime_nsec()), (1 << 32, 7));
    let long = vec![b'v'; 2000];
    for (name, value) in [("user.short", &b"v"[..]), ("user.long", &long), ("user.empty", b"")] {
        let name = name.as_bytes().to_vec();
        let set = Attribute::Extended { name: name.clone(), value: Some(value.to_vec()) };
        lower.set(&node, &set).unwrap();
        assert_eq!(lower.extended(&node, &name).unwrap(), value);
    }
    let names = lower.extended_names(&node).unwrap();
    assert!(names.split(|byte| *byte == 0).any(|name| name == b"user.long"));
    let gone = Attribute::Extended { name: b"user.long".to_vec(), value: None };
    lower.set(&node, &gone).unwrap();
    lower.set(&node, &gone).unwrap();
    assert_eq!(errno(lower.extended(&node, b"user.long")), Some(libc::ENODATA));
}

/// Design rule 17: a file that was changed when the mount was not there any more is noticed.
#[test]
fn what_was_changed_without_the_mount_is_noticed() {
    if !is_root() {
        return;
    }
    let (at, lower) = directory();
    fs::write(at.path().join("a"), "x").unwrap();
    let node = lower.lookup(&lower.root(), b"a").unwrap();
    let known = Entry::Known {
        id: ObjectId(5),
        identity: lower.identity(&node).unwrap(),
        kind: Kind::File,
        at: vec![Place::new(ROOT, b"a")],
        others: 0,
    };
    let changed_ns = lower.changed(&node).unwrap().any_ns;
    let seconds = |seconds: u64| seconds * 1_000_000_000;
    for (at_ns, expected) in [
        (changed_ns - seconds(60), Some("a".to_owned())),
        (changed_ns - seconds(2), None),
        (changed_ns + seconds(60), None),
    ] {
        let wanted = fold([known.clone(), Entry::End { seq: Seq(1), at_ns }]).unwrap();
        assert_eq!(changed_without(&lower, &wanted).unwrap(), expected);
    }
    // btrfs finishes the change of a name at its mount, and sets the time of change.
    let renamed = Op::Rename {
        id: ObjectId(5),
        from: Place::new(ROOT, b"before"),
        to: Place::new(ROOT, b"a"),
        replaced: None,
    };
    let renamed = Entry::Op { seq: Seq(1), op: renamed };
    let end = Entry::End { seq: Seq(1), at_ns: changed_ns - seconds(60) };
    let wanted = fold([known, renamed, end]).unwrap();
    assert_eq!(
        changed_without(&lower, &wanted).unwrap(),
        Some("a".to_owned()),
        "its bytes are new"
    );
    let file = fs::File::options().write(true).open(at.path().join("a")).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_nanos(changed_ns - seconds(70))).unwrap();
    assert_eq!(changed_without(&lower, &wanted).unwrap(), None);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory that another user owns, and everybody reads.
fn directory_of(user: u32) -> TempDir {
    let at = tempfile::tempdir().unwrap();
    chown(at.path(), Some(user), Some(user)).unwrap();
    set_mode(at.path(), 0o755);
    at
}

/// git makes its objects for reading only, and writes them then. Where another user than root had
/// mounted, that was refused, and a sync of a file that its owner may not read ended the mount.
#[test]
fn who_is_not_root_writes_and_syncs_his_own_whatever_the_modes_are() {
    if !is_root() {
        return;
    }
    let at = directory_of(1234);
    fs::write(at.path().join("of root"), "secret").unwrap();
    set_mode(&at.path().join("of root"), 0o600);
    as_user(1234, 1234, &[], || {
        let lower = Directory::open(at.path(), 4).unwrap();
        let root = lower.root();
        for mode in [0o444, 0o200, 0o100, 0] {
            let name = format!("{mode:o}");
            let file = Some((&root, name.as_bytes()));
            let file = lower.make(file, &made(What::File, mode)).unwrap();
            lower.write(&file, 0, b"contents").unwrap();
            lower.truncate(&file, 4).unwrap();
            let mut bytes = [0; 9];
            assert_eq!(lower.read(&file, 0, &mut bytes).unwrap(), 4, "{mode:o}");
            lower.sync(&file).unwrap();
            assert_eq!(u32::from(lower.stat(&file).unwrap().stx_mode) & 0o7777, mode);
        }
        let dir = lower.make(Some((&root, b"dir")), &made(What::Directory, 0o300)).unwrap();
        lower.make(Some((&dir, b"file")), &a_file()).unwrap();
        lower.sync(&dir).unwrap();
        assert_eq!(lower.stat(&dir).unwrap().stx_mode & 0o7777, 0o300);
        let another = lower.lookup(&root, b"of root").unwrap();
        assert_eq!(errno(lower.read(&another, 0, &mut [0; 9])), Some(libc::EACCES));
        assert_eq!(errno(lower.write(&another, 0, b"x")), Some(libc::EACCES));
    });
}

/// Recovery once made its place for root, so that another user's mount could not be repaired. And
/// it asked for everything below, also for what is another's.
#[test]
fn who_is_not_root_recovers_his_own_beside_what_is_anothers() {
    if !is_root() {
        return;
    }
    let at = directory_of(1234);
    fs::create_dir(at.path().join("of root")).unwrap();
    set_mode(&at.path().join("of root"), 0o700);
    as_user(1234, 1234, &[], || {
        let lower = Directory::open(at.path(), 4).unwrap();
        let root = lower.root();
        let made = made(What::File, 0o444);
        let lost = lower.make(Some((&root, b"file")), &made).unwrap();
        let identity = lower.identity(&lost).unwrap();
        lower.unlink(&root, b"file", Kind::File).unwrap();
        let id = ObjectId(5);
        let op = Op::Make { id, at: Some(Place::new(ROOT, b"file")), made, identity };
        let piece = Piece { offset: 0, form: Form::Plain, bytes: b"contents".to_vec() };
        let wanted = fold([
            Entry::Op { seq: Seq(1), op },
            Entry::Data { seq: Seq(2), id, size_bytes: 8, pieces: vec![piece] },
            Entry::End { seq: Seq(2), at_ns: 0 },
        ]);
        let done =
            replay(&lower, &wanted.unwrap(), oneflush_blocklog::Uuid([7; 16]), &mut |_, _| Ok(()))
                .unwrap();
        assert_eq!((done.remade, done.bytes), (1, 8));
    });
    assert_eq!(fs::read(at.path().join("file")).unwrap(), b"contents");
    let stat = fs::metadata(at.path().join("file")).unwrap();
    assert_eq!((stat.mode() & 0o7777, stat.uid()), (0o444, 1234));
    assert_eq!(fs::read_dir(at.path()).unwrap().count(), 2);
}
