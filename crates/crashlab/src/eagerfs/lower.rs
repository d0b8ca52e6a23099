//! A directory in memory, as the tree sees it, with a log of what was done.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use oneflush_eagerfs::lower::{Attribute, Changed, Found, Identity, Kind, Look, Lower, Made, Mark};

use super::event::{Event, Happened};
use super::image::{Change, Image, Ino, Name, Node, ROOT_INO};
use super::loss::Order;
use crate::lock::locked;
use crate::mvbt::storage::panic_as_told;

/// Clones are the same directory.
#[derive(Clone)]
pub struct Model(Arc<Mutex<State>>);

struct State {
    image: Image,
    happened: Vec<Happened>,
    /// Numbers of objects that were never used on this machine are not given again.
    generation: u64,
    log_ops: Box<dyn Fn() -> usize + Send>,
    finds: bool,
    keeps_order: bool,
    /// So many syncs succeed, and then one fails.
    syncs_left: Option<u32>,
    /// So many changes and syncs are done, and the next one panics in its place.
    calls_left: Option<u32>,
}

impl Model {
    /// `seed`: no two machines give the same generations. `finds`: objects are found by identity
    /// (as root), or only by their names.
    pub fn new(
        image: Image,
        seed: u64,
        finds: bool,
        order: Order,
        log_ops: impl Fn() -> usize + Send + 'static,
    ) -> Model {
        let state = State {
            image,
            happened: Vec::new(),
            generation: seed << 20,
            log_ops: Box::new(log_ops),
            finds,
            keeps_order: order == Order::Prefix,
            syncs_left: None,
            calls_left: None,
        };
        Model(Arc::new(Mutex::new(state)))
    }

    pub fn image(&self) -> Image {
        locked(&self.0).image.clone()
    }

    pub fn take_happened(&self) -> Vec<Happened> {
        std::mem::take(&mut locked(&self.0).happened)
    }

    /// The sync after so many fails.
    pub fn fail_sync_after(&self, syncs: u32) {
        self.state().syncs_left = Some(syncs);
    }

    /// The change or sync after so many panics. `None`: none does.
    pub fn panic_after(&self, calls: Option<u32>) {
        self.state().calls_left = calls;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.0)
    }

    /// For a change or a sync.
    fn changing(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        match &mut state.calls_left {
            Some(0) => {
                state.calls_left = None;
                drop(state);
                panic_as_told();
            }
            Some(left) => *left -= 1,
            None => {}
        }
        state
    }

    fn change(&self, make: impl FnOnce(&mut State) -> io::Result<Change>) -> io::Result<()> {
        let state = &mut *self.changing();
        let change = make(state)?;
        state.image.apply(&change)?;
        state.note(Event::Changed(change));
        Ok(())
    }
}

impl State {
    fn may_sync(&mut self) -> io::Result<()> {
        match &mut self.syncs_left {
            Some(0) => Err(io::Error::from_raw_os_error(libc::EIO)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn note(&mut self, event: Event) {
        self.happened.push(Happened { event, log_ops: (self.log_ops)() });
    }
}

fn name(dir: &Ino, name: &[u8]) -> Name {
    (*dir, name.to_vec())
}

impl Lower for Model {
    type Node = Ino;

    fn root(&self) -> Ino {
        ROOT_INO
    }

    fn lookup(&self, dir: &Ino, name: &[u8]) -> io::Result<Ino> {
        self.state().image.lookup(*dir, name)
    }

    fn identity(&self, node: &Ino) -> io::Result<Identity> {
        let state = self.state();
        let generation = state.image.node(*node)?.generation;
        Ok(Identity { inode: *node, proof: generation.to_le_bytes().to_vec() })
    }

    fn look(&self, node: &Ino) -> io::Result<Look> {
        let state = self.state();
        let found = state.image.node(*node)?;
        let names = if *node == ROOT_INO { 1 } else { state.image.names_of(*node) };
        Ok(Look { kind: found.kind(), size_bytes: found.bytes.len() as u64, names })
    }

    fn changed(&self, _: &Ino) -> io::Result<Changed> {
        Ok(Changed::default())
    }

    fn find(&self, identity: &Identity) -> io::Result<Found<Ino>> {
        let state = self.state();
        if !state.finds {
            return Ok(Found::Unknown);
        }
        Ok(match state.image.nodes.get(&identity.inode) {
            Some(node) if node.generation.to_le_bytes() == identity.proof[..] => {
                Found::Here(identity.inode)
            }
            _ => Found::Nowhere,
        })
    }

    fn names(&self, dir: &Ino) -> io::Result<Vec<Vec<u8>>> {
        let state = self.state();
        let of_dir = state.image.names.range((*dir, Vec::new())..);
        Ok(of_dir.take_while(|((of, _), _)| of == dir).map(|((_, name), _)| name.clone()).collect())
    }

    fn make(&self, at: Option<(&Ino, &[u8])>, made: &Made) -> io::Result<Ino> {
        let mut ino = 0;
        self.change(|state| {
            // As ext4: the lowest number that is free, so that numbers are used again at once.
            ino = (ROOT_INO + 1..).find(|ino| !state.image.nodes.contains_key(ino)).unwrap_or(0);
            state.generation += 1;
            let node = Node::new(made, state.generation);
            Ok(Change::Made { ino, node, at: at.map(|(dir, text)| name(dir, text)) })
        })?;
        Ok(ino)
    }

    fn own(&self) -> (u32, u32) {
        (0, 0)
    }

    fn link(&self, node: &Ino, dir: &Ino, text: &[u8]) -> io::Result<()> {
        self.change(|_| Ok(Change::Linked { ino: *node, at: name(dir, text) }))
    }

    fn unlink(&self, dir: &Ino, text: &[u8], _: Kind) -> io::Result<()> {
        self.change(|state| {
            let ino = state.image.lookup(*dir, text)?;
            Ok(Change::Unlinked { ino, at: name(dir, text) })
        })?;
        let mut state = self.state();
        // Nothing has a file open here.
        state.image.drop_nameless();
        Ok(())
    }

    fn rename(&self, from: (&Ino, &[u8]), to: (&Ino, &[u8])) -> io::Result<()> {
        self.change(|state| {
            let ino = state.image.lookup(*from.0, from.1)?;
            let (from, to) = (name(from.0, from.1), name(to.0, to.1));
            let replaced = state.image.lookup(to.0, &to.1).ok();
            Ok(Change::Renamed { ino, from, to, replaced })
        })?;
        self.state().image.drop_nameless();
        Ok(())
    }

    fn exchange(&self, one: (&Ino, &[u8]), other: (&Ino, &[u8])) -> io::Result<()> {
        self.change(|state| {
            Ok(Change::Exchanged {
                one: state.image.lookup(*one.0, one.1)?,
                one_at: name(one.0, one.1),
                other: state.image.lookup(*other.0, other.1)?,
                other_at: name(other.0, other.1),
            })
        })
    }

    fn set(&self, node: &Ino, attribute: &Attribute) -> io::Result<()> {
        self.change(|_| Ok(Change::Set { ino: *node, attribute: attribute.clone() }))
    }

    fn truncate(&self, node: &Ino, size_bytes: u64) -> io::Result<()> {
        self.change(|_| Ok(Change::Truncated { ino: *node, size: size_bytes }))
    }

    fn write(&self, node: &Ino, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.changing();
        let found = state.image.node_mut(*node)?;
        found.write(offset, bytes);
        let file = (*node, found.generation);
        state.note(Event::Written { file, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    fn read(&self, node: &Ino, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state();
        let bytes = &state.image.node(*node)?.bytes;
        let there = bytes.len().saturating_sub(offset as usize).min(buffer.len());
        buffer[..there].copy_from_slice(&bytes[offset as usize..][..there]);
        Ok(there)
    }

    fn keeps_order(&self) -> bool {
        self.state().keeps_order
    }

    fn set_mark(&self, mark: Option<&Mark>) -> io::Result<()> {
        self.change(|_| Ok(Change::Marked(mark.copied())))
    }

    fn mark(&self) -> io::Result<Option<Mark>> {
        Ok(self.state().image.mark)
    }

    fn sync(&self, node: &Ino) -> io::Result<()> {
        let mut state = self.changing();
        let generation = state.image.node(*node)?.generation;
        state.may_sync()?;
        state.note(Event::Synced((*node, generation)));
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut state = self.changing();
        state.may_sync()?;
        state.note(Event::SyncedAll);
        Ok(())
    }
}
