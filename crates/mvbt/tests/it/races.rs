//! Readers that look into the file while a transaction writes it.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use oneflush_blocklog::Storage;
use oneflush_mvbt::{Database, Error, Memory as Commons, Options, Read, Retain, TreeId, Version};

use crate::common::{self, Memory};

/// A file whose next read of some place waits, after it has read, until it is told to go on.
pub struct Slow {
    file: Memory,
    gate: Mutex<Option<Gate>>,
}

struct Gate {
    at: u64,
    has_read: Sender<()>,
    goes_on: Receiver<()>,
}

impl Slow {
    /// The ends that the test holds: it hears when the read is done, and says when it goes on.
    pub fn hold(&self, at: u64) -> (Receiver<()>, Sender<()>) {
        let ((has_read, hears), (says, goes_on)) = (channel(), channel());
        *self.gate.lock().unwrap() = Some(Gate { at, has_read, goes_on });
        (hears, says)
    }
}

impl Storage for Slow {
    fn block_bytes(&self) -> usize {
        self.file.block_bytes()
    }
    fn alignment_bytes(&self) -> usize {
        self.file.alignment_bytes()
    }
    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)?;
        let gate = self.gate.lock().unwrap().take_if(|gate| gate.at == offset);
        if let Some(gate) = gate {
            gate.has_read.send(()).unwrap();
            gate.goes_on.recv().unwrap();
        }
        Ok(())
    }
    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_durable(blocks, offset)
    }
    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.file.write(blocks, offset)
    }
    fn flush(&self) -> io::Result<()> {
        self.file.flush()
    }
    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.file.extend(size_bytes)
    }
    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.file.zero(range)
    }
    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.file.cut(size_bytes)
    }
}

pub fn slow_with(options: &Options) -> (Arc<Slow>, Database, TreeId, u64) {
    let file = Memory::default();
    let db = file.create(options.clone()).unwrap();
    let mut txn = db.begin_write().unwrap();
    // The first pages of a file are in memory as soon as it is open.
    let tree = (0..8).map(|_| txn.create_tree(false).unwrap()).last().unwrap();
    txn.insert(tree, 1, b"one").unwrap();
    let root = txn.tree(tree).unwrap().root;
    txn.commit().unwrap();
    db.close().unwrap();
    let slow = Arc::new(Slow { file, gate: Mutex::new(None) });
    let at = 40_960 + (root.0 - 1) * options.page_bytes as u64;
    let db = Database::open_on(slow.clone(), PathBuf::from("a.mvbt"), options.clone()).unwrap();
    (slow, db, tree, at)
}

#[test]
fn a_page_that_was_read_before_a_commit_does_not_hide_what_was_committed() {
    let (slow, db, tree, at) = slow_with(&Options::default());
    let (has_read, goes_on) = slow.hold(at);
    std::thread::scope(|scope| {
        scope.spawn(|| db.begin_read().unwrap().get(tree, 1).unwrap());
        has_read.recv().unwrap();
        // The writer reads the page by itself, and commits.
        let mut txn = db.begin_write().unwrap();
        txn.insert(tree, 2, b"two").unwrap();
        txn.commit().unwrap();
        goes_on.send(()).unwrap();
    });
    assert_eq!(db.begin_read().unwrap().get(tree, 2).unwrap().as_deref(), Some(&b"two"[..]));
    let mut txn = db.begin_write().unwrap();
    txn.insert(tree, 3, b"three").unwrap();
    txn.commit().unwrap();
    drop(db);
    let db = slow.file.open(Options::default()).unwrap();
    let reader = db.begin_read().unwrap();
    assert_eq!(reader.get(tree, 2).unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(reader.get(tree, 3).unwrap().as_deref(), Some(&b"three"[..]));
}

#[test]
fn a_page_that_was_read_before_a_rollback_does_not_bring_back_what_was_rolled_back() {
    let mut options = Options::default();
    options.spill_bytes = 0;
    let (slow, db, tree, at) = slow_with(&options);
    let mut txn = db.begin_write().unwrap();
    txn.insert(tree, 2, b"two").unwrap();
    let (has_read, goes_on) = slow.hold(at);
    std::thread::scope(|scope| {
        scope.spawn(|| db.begin_read().unwrap().get(tree, 1).unwrap());
        has_read.recv().unwrap();
        txn.rollback().unwrap();
        goes_on.send(()).unwrap();
    });
    assert_eq!(db.begin_read().unwrap().get(tree, 2).unwrap(), None);
    let mut txn = db.begin_write().unwrap();
    assert_eq!(txn.get(tree, 2).unwrap(), None);
    txn.insert(tree, 3, b"three").unwrap();
    txn.commit().unwrap();
    let reader = db.begin_read().unwrap();
    assert_eq!(reader.get(tree, 2).unwrap(), None);
    assert_eq!(reader.get(tree, 3).unwrap().as_deref(), Some(&b"three"[..]));
}

#[test]
fn what_a_savepoint_took_back_is_not_seen_by_those_who_read_meanwhile() {
    let mut options = Options::default();
    options.spill_bytes = 0;
    let (_, db, tree, _) = slow_with(&options);
    let mut txn = db.begin_write().unwrap();
    let savepoint = txn.savepoint();
    txn.insert(tree, 2, b"two").unwrap();
    // A reader brings the page into memory while it has the transaction's directory.
    assert_eq!(db.begin_read().unwrap().get(tree, 2).unwrap(), None);
    txn.roll_back_to(savepoint).unwrap();
    txn.set_meta(0, 1).unwrap();
    txn.commit().unwrap();
    assert_eq!(db.begin_read().unwrap().get(tree, 2).unwrap(), None);
    let txn = db.begin_write().unwrap();
    assert_eq!(txn.get(tree, 2).unwrap(), None);
    txn.rollback().unwrap();
}

/// P9, with real threads: a version is as it was committed, or it is refused.
#[test]
fn older_versions_are_as_they_were_or_refused_while_another_handle_gives_them_up() {
    let (file, commons) = (Memory::default(), Commons::new());
    let mut options = Options::default();
    options.page_bytes = 512;
    options.clock = common::clock::now;
    let join = || {
        let (path, storage) = (PathBuf::from("a.mvbt"), Arc::new(file.clone()));
        Database::join_on(storage, path, options.clone(), &commons).unwrap()
    };
    file.create(options.clone()).unwrap().close().unwrap();
    let (writes, reads) = (join(), join());
    let mut txn = writes.begin_write().unwrap();
    txn.set_retain(Retain::Versions(3)).unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    // The rows of a version are all filled with its number.
    let newest = AtomicU64::new(0);
    let write = || {
        let mut txn = writes.begin_write().unwrap();
        let version = txn.version();
        for key in 0..12 {
            txn.insert(tree, key, &[version.0 as u8; 300]).unwrap();
        }
        assert_eq!(txn.commit().unwrap(), version);
        newest.store(version.0, SeqCst);
    };
    (0..6).for_each(|_| write());
    let (is_over, shown, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let read = |seed: u64| {
        let mut rng = fastrand::Rng::with_seed(seed);
        while !is_over.load(SeqCst) {
            let asked = Version(newest.load(SeqCst) - rng.u64(..5));
            match reads.begin_read_at(asked) {
                Ok(reader) => {
                    for key in 0..12 {
                        let row = reader.get(tree, key).unwrap().unwrap();
                        assert!(row == [asked.0 as u8; 300], "{asked}: {:?}", row[0]);
                    }
                    shown.fetch_add(1, SeqCst);
                }
                Err(Error::NotKept { .. }) => drop(refused.fetch_add(1, SeqCst)),
                Err(error) => panic!("{asked}: {error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [1, 2].map(|seed| scope.spawn(move || read(seed)));
        let mut rounds = 0;
        // A reader that panics ends it, too.
        while readers.iter().all(|reader| !reader.is_finished())
            && (rounds < 300 || shown.load(SeqCst) < 100 || refused.load(SeqCst) < 20)
        {
            write();
            rounds += 1;
        }
        is_over.store(true, SeqCst);
    });
    // The free pages are with the one that has written.
    let report = writes.check(None).unwrap();
    assert_eq!((report.faults, report.lost, report.unlisted), (vec![], vec![], vec![]));
}
