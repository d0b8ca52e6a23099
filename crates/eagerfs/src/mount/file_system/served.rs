//! What requests are answered from, and what is agreed upon with the kernel.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::{FileAttr, Generation, INodeNo, InitFlags, KernelConfig, Notifier, Request};
use oneflush_blocklog::{DirectFile, messages};

use super::super::acl;
use super::super::aside::Aside;
use super::super::nodes::{Nodes, RealObject, generation_of, number_of};
use super::super::place::Place;
use super::listings::Listings;
use crate::directory::Directory;
use crate::entry::ROOT;
use crate::tree::Tree;

pub type RealTree = Tree<Directory, DirectFile>;

/// The longest write, and the longest read ahead.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Requests that nobody waits for: writing back and reading ahead.
const BACKGROUND_MAX: u16 = 64;

/// Everything that requests are answered from.
pub struct Served {
    pub tree: RealTree,
    pub nodes: Nodes,
    pub place: Arc<Place>,
    pub(super) listings: Listings,
    /// Tells the kernel to hand over what it has cached.
    pub notifier: OnceLock<Notifier>,
    /// Waits for the kernel's writes before a rename and before holes are looked for.
    pub fetching: Aside,
    /// Syncs of everything.
    pub syncing: Aside,
    /// The lower has access control lists, and so the kernel leaves the umask to this.
    has_lists: bool,
    pub(super) masks: AtomicBool,
    pub written_bytes: AtomicU64,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

impl From<&Request> for Caller {
    fn from(request: &Request) -> Caller {
        Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
    }
}

pub type Entry = (FileAttr, Generation);

impl Served {
    pub fn new(tree: RealTree, place: Arc<Place>) -> io::Result<Served> {
        let root = tree.object(ROOT)?;
        let has_lists = acl::has_lists(tree.lower());
        Ok(Served {
            nodes: Nodes::new(root),
            tree,
            place,
            listings: Listings::default(),
            notifier: OnceLock::new(),
            fetching: Aside::start("oneflush-fetch")?,
            syncing: Aside::start("oneflush-sync")?,
            has_lists,
            masks: AtomicBool::new(false),
            written_bytes: AtomicU64::new(0),
        })
    }

    /// Stops a panic. Nobody knows what it has left half done, so from then on nothing is
    /// acknowledged (T8). The keeper notes it for the next mount.
    pub fn watch(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.tree.poison();
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
            messages::say(&format!(
                "oneflush: {}",
                said.unwrap_or("an internal error was stopped")
            ));
        }
    }

    /// Does it aside.
    pub fn run(
        self: &Arc<Self>,
        aside: impl FnOnce(&Served) -> &Aside,
        work: impl FnOnce(&Served) + Send + 'static,
    ) {
        let served = Arc::clone(self);
        aside(self).run(move || served.watch(|| work(&served)));
    }

    /// Has the kernel write what it has cached of a file. Not on a thread that answers it.
    pub fn fetch(&self, number: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            // An error: the kernel does not know the file any more, and so has nothing of it.
            let _ = notifier.inval_inode(number, 0, 0);
        }
    }

    /// Has the kernel ask for the attributes when it needs them next. It waits for nothing.
    pub(super) fn forget_attributes(&self, number: INodeNo) {
        if let Some(notifier) = self.notifier.get() {
            // As above. A negative offset: the pages stay.
            let _ = notifier.inval_inode(number, -1, 0);
        }
    }

    pub fn attributes(&self, object: &RealObject) -> io::Result<FileAttr> {
        let stat = self.tree.lower().stat(&object.node)?;
        // Of the root the kernel knows another number than programs do.
        let number = if object.id == ROOT { INodeNo(stat.stx_ino) } else { number_of(object) };
        Ok(super::super::answer::attributes(number, &stat))
    }

    pub fn entry(&self, object: &RealObject) -> io::Result<Entry> {
        Ok((self.attributes(object)?, generation_of(object)))
    }
}

impl Served {
    /// Takes what the kernel offers. Locks stay with it.
    pub fn agree(&self, config: &mut KernelConfig) {
        let wanted = [
            InitFlags::FUSE_WRITEBACK_CACHE,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        for flag in wanted {
            // An older kernel lacks some.
            let _ = config.add_capabilities(flag);
        }
        if self.has_lists {
            let lists = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
            let masks = config.add_capabilities(lists).is_ok();
            self.masks.store(masks, Ordering::Relaxed);
        }
        // The nearest value is set where this one is not possible.
        let _ = config.set_max_write(TRANSFER_BYTES_MAX);
        let _ = config.set_max_readahead(TRANSFER_BYTES_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
    }
}
