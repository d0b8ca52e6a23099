//! A reader meets a page while it is being written: its first bytes are there, the others are not.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use oneflush_blocklog::Storage;
use oneflush_mvbt::{Database, Options, Read, TreeId};

use crate::common::Memory;

/// Header and slots of a page: the slot of the new directory is there, and the directory is not.
const FIRST_BYTES: usize = 80;

/// A file whose next write stops after its first bytes, until it is told to go on.
struct Halves {
    file: Memory,
    gate: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Halves {
    fn put(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let Some((is_half, goes_on)) = self.gate.lock().unwrap().take() else {
            return self.file.write(blocks, offset);
        };
        let (first, rest) = blocks.split_at(FIRST_BYTES);
        self.file.write(first, offset)?;
        is_half.send(()).unwrap();
        goes_on.recv().unwrap();
        self.file.write(rest, offset + FIRST_BYTES as u64)
    }
}

impl Storage for Halves {
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
        self.file.read_at(buffer, offset)
    }
    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.put(blocks, offset)?;
        self.file.flush()
    }
    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.put(blocks, offset)
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

fn put(db: &Database, tree: TreeId, payload: &[u8]) {
    let mut txn = db.begin_write().unwrap();
    txn.insert(tree, 1, payload).unwrap();
    txn.commit().unwrap();
}

/// The reader of the oldest version was told that its version is gone: the directory that it
/// needed was overwritten, and the one that serves it now was not whole.
#[test]
fn a_reader_waits_for_a_page_that_is_half_written() {
    let halves = Arc::new(Halves { file: Memory::default(), gate: Mutex::new(None) });
    let mut options = Options::default();
    options.cache_bytes = 0;
    let path = PathBuf::from("a.mvbt");
    let db = Database::create_on(halves.clone(), path, options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let (tree, large) = (txn.create_tree(false).unwrap(), txn.create_tree(false).unwrap());
    for key in 0..10_000 {
        txn.insert(large, key, &[7; 60]).unwrap();
    }
    txn.commit().unwrap();
    put(&db, tree, b"old");
    let old = db.begin_read().unwrap();
    put(&db, tree, b"middle");
    let middle = db.begin_read().unwrap();

    let ((is_half, hears), (says, goes_on)) = (channel(), channel());
    *halves.gate.lock().unwrap() = Some((is_half, goes_on));
    thread::scope(|scope| {
        let writer = scope.spawn(|| put(&db, tree, b"new"));
        hears.recv().unwrap();
        // The page goes out of memory.
        assert_eq!(db.begin_read().unwrap().count(large).unwrap(), 10_000);
        let reader = scope.spawn(|| {
            let get = |reader: &dyn Read| reader.get(tree, 1).map(Option::unwrap);
            (get(&old), get(&middle))
        });
        thread::sleep(Duration::from_millis(50));
        says.send(()).unwrap();
        let (old, middle) = reader.join().unwrap();
        assert_eq!(old.unwrap(), b"old");
        assert_eq!(middle.unwrap(), b"middle");
        writer.join().unwrap();
    });
    assert_eq!(db.begin_read().unwrap().get(tree, 1).unwrap().unwrap(), b"new");
    assert_eq!(old.get(tree, 1).unwrap().unwrap(), b"old");
}
