//! A tree over a real directory and a log in memory. A hook is told of steps, and may fail there,
//! panic or wait.

use std::io;
use std::sync::{Arc, Mutex};

use oneflush_blocklog::{Log, Storage, Uuid};
use oneflush_eagerfs::directory::Directory;
use oneflush_eagerfs::entry::{Begin, ObjectId, ROOT};
use oneflush_eagerfs::fold::Wanted;
use oneflush_eagerfs::lower::{
    Attribute, Changed, Found, Identity, Kind, Look, Lower, Made, Mark, What,
};
use oneflush_eagerfs::recovery;
use oneflush_eagerfs::tree::{Isets, Options, Tree};
use tempfile::TempDir;

pub const BLOCK_BYTES: usize = 4096;
pub const THRESHOLD_BYTES: usize = 16 << 10;

type Hook = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// Clones are the same hook.
#[derive(Clone, Default)]
pub struct Steps(Arc<Mutex<Option<Arc<Hook>>>>);

impl Steps {
    pub fn hook(&self, hook: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) {
        *self.0.lock().unwrap() = Some(Arc::new(hook));
    }

    fn at(&self, step: &str) -> io::Result<()> {
        let hook = self.0.lock().unwrap().clone();
        hook.map_or(Ok(()), |hook| hook(step))
    }
}

/// A directory that keeps the order of changes. Its mark is kept here.
pub struct Hooked {
    inner: Directory,
    steps: Steps,
    mark: Mutex<Option<Mark>>,
}

type Node = <Directory as Lower>::Node;

impl Lower for Hooked {
    type Node = Node;

    fn root(&self) -> Node {
        self.inner.root()
    }

    fn lookup(&self, dir: &Node, name: &[u8]) -> io::Result<Node> {
        self.inner.lookup(dir, name)
    }

    fn identity(&self, node: &Node) -> io::Result<Identity> {
        self.inner.identity(node)
    }

    fn look(&self, node: &Node) -> io::Result<Look> {
        self.inner.look(node)
    }

    fn changed(&self, node: &Node) -> io::Result<Changed> {
        self.inner.changed(node)
    }

    fn find(&self, identity: &Identity) -> io::Result<Found<Node>> {
        self.inner.find(identity)
    }

    fn names(&self, dir: &Node) -> io::Result<Vec<Vec<u8>>> {
        self.inner.names(dir)
    }

    fn make(&self, at: Option<(&Node, &[u8])>, made: &Made) -> io::Result<Node> {
        let node = self.inner.make(at, made)?;
        self.steps.at("made")?;
        Ok(node)
    }

    fn own(&self) -> (u32, u32) {
        self.inner.own()
    }

    fn link(&self, node: &Node, dir: &Node, name: &[u8]) -> io::Result<()> {
        self.inner.link(node, dir, name)
    }

    fn unlink(&self, dir: &Node, name: &[u8], kind: Kind) -> io::Result<()> {
        self.inner.unlink(dir, name, kind)
    }

    fn rename(&self, from: (&Node, &[u8]), to: (&Node, &[u8])) -> io::Result<()> {
        self.inner.rename(from, to)?;
        self.steps.at("renamed")
    }

    fn exchange(&self, one: (&Node, &[u8]), other: (&Node, &[u8])) -> io::Result<()> {
        self.inner.exchange(one, other)
    }

    fn set(&self, node: &Node, attribute: &Attribute) -> io::Result<()> {
        self.inner.set(node, attribute)
    }

    fn truncate(&self, node: &Node, size_bytes: u64) -> io::Result<()> {
        self.steps.at("truncate")?;
        self.inner.truncate(node, size_bytes)
    }

    fn write(&self, node: &Node, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.steps.at("write")?;
        self.inner.write(node, offset, bytes)
    }

    fn read(&self, node: &Node, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.steps.at("read")?;
        self.inner.read(node, offset, buffer)
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn set_mark(&self, mark: Option<&Mark>) -> io::Result<()> {
        self.steps.at("mark")?;
        *self.mark.lock().unwrap() = mark.copied();
        Ok(())
    }

    fn mark(&self) -> io::Result<Option<Mark>> {
        Ok(*self.mark.lock().unwrap())
    }

    fn sync(&self, node: &Node) -> io::Result<()> {
        self.steps.at("sync")?;
        self.inner.sync(node)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.steps.at("sync all")
    }
}

/// A file of the log. What is written is durable. Clones are the same file.
#[derive(Clone)]
pub struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    steps: Steps,
}

impl Memory {
    fn put(&self, blocks: &[u8], offset: u64) {
        let offset = offset as usize;
        self.bytes.lock().unwrap()[offset..offset + blocks.len()].copy_from_slice(blocks);
    }
}

impl Storage for Memory {
    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn alignment_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.bytes.lock().unwrap();
        let there = bytes.get(offset as usize..).and_then(|bytes| bytes.get(..buffer.len()));
        buffer.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.steps.at("log")?;
        self.put(blocks, offset);
        self.steps.at("logged")
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.steps.at("log")?;
        self.put(blocks, offset);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(size_bytes as usize, 0);
        Ok(())
    }

    fn zero(&self, range: std::ops::Range<u64>) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap();
        let end = bytes.len().max(range.end as usize);
        bytes.resize(end, 0);
        bytes[range.start as usize..range.end as usize].fill(0);
        Ok(())
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().truncate(size_bytes as usize);
        Ok(())
    }
}

pub struct Bench {
    pub tree: Tree<Hooked, Memory>,
    pub steps: Steps,
    log: Memory,
    _folder: TempDir,
}

impl Bench {
    pub fn new(lane_bytes_max: u64) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let steps = Steps::default();
        let inner = Directory::open(folder.path(), 64).unwrap();
        let lower = Hooked { inner, steps: steps.clone(), mark: Mutex::default() };
        let storage = Memory { bytes: Arc::default(), steps: steps.clone() };
        let (log, head) =
            Log::create_for_directory(storage.clone(), Uuid([7; 16]), 64 << 10).unwrap();
        let root = lower.identity(&lower.root()).unwrap();
        let begin = Begin { root, boot: b"boot".to_vec(), mount: 1 };
        let options = Options {
            isets: Isets::All,
            threshold_bytes: THRESHOLD_BYTES as u64,
            lane_bytes_max,
            clock: || 0,
        };
        let tree = Tree::new(lower, log, head, begin, options).unwrap();
        Bench { tree, steps, log: storage, _folder: folder }
    }

    /// What recovery would find in the log.
    pub fn logged(&self) -> Wanted {
        let log = Log::open_for_directory(self.log.clone()).unwrap();
        recovery::read(&log).unwrap().unwrap().0
    }

    pub fn make(&self, name: &str) -> io::Result<ObjectId> {
        let (uid, gid) = self.tree.lower().own();
        let made = Made { what: What::File, mode: 0o600, uid, gid };
        Ok(self.tree.make(Some((ROOT, name.as_bytes())), &made)?.id)
    }

    /// A file with so many bytes, which are not synced.
    pub fn file(&self, name: &str, length: usize) -> ObjectId {
        let id = self.make(name).unwrap();
        self.tree.write(id, 0, &vec![b'x'; length]).unwrap();
        id
    }

    /// The same, synced.
    pub fn synced(&self, name: &str, length: usize) -> ObjectId {
        let id = self.file(name, length);
        self.tree.sync(id).unwrap();
        id
    }
}
