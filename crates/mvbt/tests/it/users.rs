//! What one user of a database leaves to the others, and who shares memory with whom.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oneflush_mvbt::{Database, Error, Memory as Commons, Options, Read, TreeId, WriteTransaction};

use crate::common::Memory;
use crate::common::model::sound;

fn join(file: &Memory, commons: &Arc<Commons>, read_only: bool) -> Database {
    let mut options = Options::default();
    options.page_bytes = 1024;
    options.read_only = read_only;
    Database::join_on(Arc::new(file.clone()), PathBuf::from("a.mvbt"), options, commons).unwrap()
}

fn file() -> Memory {
    let file = Memory::default();
    let mut options = Options::default();
    options.page_bytes = 1024;
    file.create(options).unwrap().close().unwrap();
    file
}

fn fill(txn: &mut WriteTransaction, tree: TreeId, keys: impl Iterator<Item = i64>, byte: u8) {
    keys.for_each(|key| {
        txn.insert(tree, key, &[byte; 50]).unwrap();
    });
}

/// The pages of the newest commit block are held (I12), also by one who has the number of the user
/// that has written it.
#[test]
fn a_number_that_is_used_again_is_not_the_one_that_has_written() {
    for fuel in 1..8 {
        for seed in 0..8 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (file, commons) = (file(), Commons::new());
            let stays = join(&file, &commons, false);
            let goes = join(&file, &commons, false);
            let mut txn = goes.begin_write().unwrap();
            let (long, kept) = (txn.create_tree(false).unwrap(), txn.create_tree(false).unwrap());
            txn.commit().unwrap();
            let mut txn = goes.begin_write().unwrap();
            txn.insert(long, 1, &[1; 3000]).unwrap();
            txn.insert(kept, 5, b"kept").unwrap();
            txn.commit().unwrap();
            let mut txn = goes.begin_write().unwrap();
            txn.delete(long, 1).unwrap();
            txn.commit().unwrap();
            goes.close().unwrap();
            let comes = join(&file, &commons, false);
            let mut txn = comes.begin_write().unwrap();
            txn.insert(long, 2, &[2; 12_000]).unwrap();
            file.fail_after(fuel);
            let ended = txn.commit();
            file.fail_after(usize::MAX);
            drop((ended, stays, comes));
            let db = file.crash(|| rng.bool()).open(Options::default()).unwrap();
            let found = db.begin_read().unwrap().get(kept, 5).unwrap();
            assert_eq!(found.as_deref(), Some(&b"kept"[..]), "fuel {fuel}, seed {seed}");
        }
    }
}

/// A transaction whose second step has failed is durable. Its pages are not lost ones.
#[test]
fn what_nobody_has_judged_is_not_reclaimed() {
    let (file, commons) = (file(), Commons::new());
    let stays = join(&file, &commons, false);
    let dies = join(&file, &commons, false);
    let mut txn = dies.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    let mut txn = dies.begin_write().unwrap();
    fill(&mut txn, tree, 0..200, 7);
    let prepared = txn.prepare().unwrap();
    file.fail_after(0);
    drop(prepared);
    file.fail_after(usize::MAX);
    drop(dies);
    stays.reclaim().unwrap();
    let mut txn = stays.begin_write().unwrap();
    let other = txn.create_tree(false).unwrap();
    fill(&mut txn, other, 0..200, 8);
    txn.commit().unwrap();
    sound(&stays, "afterwards");
    assert_eq!(stays.begin_read().unwrap().count(tree).unwrap(), 200);
}

/// One who comes while a reader that was first has the writer's lock, for a check.
#[test]
fn who_comes_beside_a_reader_that_was_first_sees_no_part_of_a_transaction() {
    let mut parts = 0;
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let before = file();
        let db = join(&before, &Commons::new(), false);
        let mut txn = db.begin_write().unwrap();
        let (tree, records) = (txn.create_tree(false).unwrap(), txn.create_tree(true).unwrap());
        fill(&mut txn, tree, 0..100, 1);
        for record in [b"one", b"two"] {
            txn.insert_record(records, record, &|stored| stored.cmp(record)).unwrap();
        }
        txn.commit().unwrap();
        let mut txn = db.begin_write().unwrap();
        fill(&mut txn, tree, (0..100).step_by(10), 2);
        before.fail_after(seed as usize % 10);
        let ended = txn.commit();
        parts += usize::from(ended.is_err());
        drop(db);
        let (file, commons) = (before.crash(|| rng.bool()), Commons::new());
        let first = join(&file, &commons, true);
        let is_new = |db: &Database| -> Vec<bool> {
            let reader = db.begin_read().unwrap();
            let new = |key| reader.get(tree, key).unwrap().unwrap()[0] == 2;
            (0..100).step_by(10).map(new).collect()
        };
        let expected = is_new(&first);
        for read_only in [true, false] {
            let found = Mutex::new(None);
            std::thread::scope(|scope| {
                let mut comes = None;
                let once = Mutex::new(&mut comes);
                let order = |one: &[u8], other: &[u8]| {
                    let mut comes = once.lock().unwrap();
                    if comes.is_none() {
                        **comes = Some(scope.spawn(|| {
                            let db = join(&file, &commons, read_only);
                            *found.lock().unwrap() = Some(is_new(&db));
                        }));
                        std::thread::sleep(Duration::from_millis(30));
                    }
                    one.cmp(other)
                };
                first.check(Some(&order)).unwrap();
            });
            let found = found.into_inner().unwrap().unwrap();
            assert_eq!(found, expected, "seed {seed}, read only: {read_only}");
        }
    }
    assert!(parts > 0);
}

fn memory_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-shm");
    name.into()
}

/// Memory that is left of another time, under another name, has nobody in it.
#[test]
fn nobody_joins_memory_that_is_empty_while_others_use_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("a.mvbt"), folder.path().join("b.mvbt"));
    Database::create(&one, Options::default()).unwrap().close().unwrap();
    fs::hard_link(&one, &other).unwrap();
    let db = Database::open(&other, Options::default()).unwrap();
    let left = fs::read(memory_of(&other)).unwrap();
    db.close().unwrap();
    let db = Database::open(&one, Options::default()).unwrap();
    fs::write(memory_of(&other), left).unwrap();
    let refused = Database::open(&other, Options::default());
    assert!(matches!(refused, Err(Error::Busy { .. })), "it has joined nobody");
    db.close().unwrap();
    Database::open(&other, Options::default()).unwrap().close().unwrap();
}

/// A database is put in the place of one that is in use.
#[test]
fn memory_that_others_use_for_another_file_is_left_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("a.mvbt"), folder.path().join("b.mvbt"));
    Database::create(&other, Options::default()).unwrap().close().unwrap();
    let db = Database::create(&one, Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    txn.create_tree(false).unwrap();
    let version = txn.commit().unwrap();
    fs::rename(&one, folder.path().join("c.mvbt")).unwrap();
    fs::rename(&other, &one).unwrap();
    let refused = Database::open(&one, Options::default());
    assert_eq!(db.data_version(), version, "its memory was taken away");
    assert!(matches!(refused, Err(Error::Busy { .. })));
    db.close().unwrap();
    Database::open(&one, Options::default()).unwrap().close().unwrap();
}

/// The owner could not open it, nor could it delete what a stranger has made in a sticky folder.
#[test]
fn who_may_only_read_leaves_no_memory_that_keeps_the_owner_out() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !rustix::process::geteuid().is_root() {
        oneflush_testing::skip("only root can be two users");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let path = folder.path().join("a.mvbt");
    Database::create(&path, Options::default()).unwrap().close().unwrap();
    chown(&path, Some(1001), Some(1001)).unwrap();
    let of = |user: u32, read_only: bool| {
        std::thread::scope(|scope| {
            let open = || {
                // SAFETY: it changes what this thread alone may do.
                let set = unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) };
                assert_eq!(set, 0);
                let mut options = Options::default();
                options.read_only = read_only;
                let db = Database::open(&path, options)?;
                db.begin_read()?;
                db.close()
            };
            scope.spawn(open).join().unwrap()
        })
    };
    of(1002, true).unwrap();
    assert!(!memory_of(&path).exists(), "it has left memory");
    of(1001, false).unwrap();
}

/// A thread that starts another program does not keep the locks of a handle that is dropped.
#[test]
fn what_is_dropped_beside_a_fork_can_be_opened_again() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mvbt");
    let db = Database::create(&path, Options::default()).unwrap();
    std::thread::scope(|scope| {
        let (read, write) = std::io::pipe().unwrap();
        scope.spawn(move || {
            let mut command = std::process::Command::new("true");
            // SAFETY: between fork and `exec` it writes to a pipe, and sleeps.
            unsafe {
                command.pre_exec(move || {
                    use std::io::Write;
                    (&write).write_all(b"x")?;
                    libc::usleep(3_000_000);
                    Ok(())
                });
            }
            command.status().unwrap();
        });
        use std::io::Read;
        (&read).read_exact(&mut [0]).unwrap();
        drop(db);
        Database::open(&path, Options::default()).unwrap().close().unwrap();
    });
}

/// Who has written nothing closes beside a transaction that is open.
#[test]
fn a_close_does_not_wait_for_the_writer_of_another_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mvbt");
    let writes = Database::create(&path, Options::default()).unwrap();
    let reads = Database::open(&path, Options::default()).unwrap();
    let txn = writes.begin_write().unwrap();
    let (told, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(reads.close().is_ok()));
    let ended = ended.recv_timeout(Duration::from_secs(10));
    assert_eq!(ended, Ok(true), "it waits for the writer");
    txn.rollback().unwrap();
    writes.close().unwrap();
}
