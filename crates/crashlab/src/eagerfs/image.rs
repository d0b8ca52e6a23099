//! What a lower holds: objects, and their names.

use std::collections::BTreeMap;
use std::io;

use oneflush_eagerfs::lower::{Attribute, Kind, Made, Mark, What};

pub type Ino = u64;
pub const ROOT_INO: Ino = 2;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub what: NodeKind,
    /// Tells it from others that had its number.
    pub generation: u64,
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    File,
    Directory,
    Symlink(Vec<u8>),
    Special,
}

impl Node {
    pub fn new(made: &Made, generation: u64) -> Node {
        let what = match &made.what {
            What::File => NodeKind::File,
            What::Directory => NodeKind::Directory,
            What::Symlink { target } => NodeKind::Symlink(target.clone()),
            What::Special { .. } => NodeKind::Special,
        };
        let (bytes, extended) = (Vec::new(), BTreeMap::new());
        Node { what, generation, bytes, mode: made.mode, extended }
    }

    pub fn kind(&self) -> Kind {
        match self.what {
            NodeKind::File => Kind::File,
            NodeKind::Directory => Kind::Directory,
            NodeKind::Symlink(_) => Kind::Symlink,
            NodeKind::Special => Kind::Special,
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset as usize..end].copy_from_slice(bytes);
    }
}

/// A name in a directory.
pub type Name = (Ino, Vec<u8>);

/// One change of names, attributes or sizes. A loss of power keeps it whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Made {
        ino: Ino,
        node: Node,
        at: Option<Name>,
    },
    Linked {
        ino: Ino,
        at: Name,
    },
    Unlinked {
        ino: Ino,
        at: Name,
    },
    /// `replaced`: what had the new name.
    Renamed {
        ino: Ino,
        from: Name,
        to: Name,
        replaced: Option<Ino>,
    },
    Exchanged {
        one: Ino,
        one_at: Name,
        other: Ino,
        other_at: Name,
    },
    Set {
        ino: Ino,
        attribute: Attribute,
    },
    Truncated {
        ino: Ino,
        size: u64,
    },
    Marked(Option<Mark>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    pub nodes: BTreeMap<Ino, Node>,
    pub names: BTreeMap<Name, Ino>,
    pub mark: Option<Mark>,
}

fn not_found<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotFound.into())
}

impl Image {
    /// An empty directory.
    pub fn empty() -> Image {
        let made = Made { what: What::Directory, mode: 0o755, uid: 0, gid: 0 };
        let nodes = BTreeMap::from([(ROOT_INO, Node::new(&made, 1))]);
        Image { nodes, names: BTreeMap::new(), mark: None }
    }

    pub fn lookup(&self, dir: Ino, name: &[u8]) -> io::Result<Ino> {
        match self.nodes.get(&dir).map(Node::kind) {
            Some(Kind::Directory) => {}
            Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
            None => return not_found(),
        }
        self.names.get(&(dir, name.to_vec())).copied().map_or_else(not_found, Ok)
    }

    /// What a path below the root leads to.
    pub fn find(&self, path: &str) -> Option<Ino> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .try_fold(ROOT_INO, |dir, name| self.lookup(dir, name.as_bytes()).ok())
    }

    pub fn node(&self, ino: Ino) -> io::Result<&Node> {
        self.nodes.get(&ino).map_or_else(not_found, Ok)
    }

    pub fn node_mut(&mut self, ino: Ino) -> io::Result<&mut Node> {
        self.nodes.get_mut(&ino).map_or_else(not_found, Ok)
    }

    pub fn names_of(&self, ino: Ino) -> u64 {
        self.names.values().filter(|named| **named == ino).count() as u64
    }

    fn is_empty(&self, dir: Ino) -> bool {
        self.names.range((dir, Vec::new())..).next().is_none_or(|((of, _), _)| *of != dir)
    }

    pub fn is_dir(&self, ino: Ino) -> bool {
        self.nodes.get(&ino).is_some_and(|node| node.kind() == Kind::Directory)
    }

    /// True if `inner` is `outer`, or in it.
    fn is_in(&self, mut inner: Ino, outer: Ino) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            match self.names.iter().find(|(_, ino)| **ino == inner) {
                Some(((dir, _), _)) => inner = *dir,
                None => return false,
            }
        }
    }

    fn free(&self, (dir, name): &Name) -> io::Result<()> {
        match self.lookup(*dir, name) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.is_dir(*dir) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn holds(&self, at: &Name, ino: Ino) -> io::Result<()> {
        if self.lookup(at.0, &at.1)? == ino { Ok(()) } else { not_found() }
    }

    /// Makes a change, or says why it cannot be.
    pub fn apply(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Made { ino, node, at } => {
                if self.nodes.contains_key(ino) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                if let Some(at) = at {
                    self.free(at)?;
                    self.names.insert(at.clone(), *ino);
                }
                self.nodes.insert(*ino, node.clone());
            }
            Change::Linked { ino, at } => {
                self.node(*ino)?;
                self.free(at)?;
                self.names.insert(at.clone(), *ino);
            }
            Change::Unlinked { ino, at } => {
                self.holds(at, *ino)?;
                if self.is_dir(*ino) && !self.is_empty(*ino) {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                self.names.remove(at);
            }
            Change::Renamed { ino, from, to, .. } => {
                self.holds(from, *ino)?;
                if let Ok(there) = self.lookup(to.0, &to.1) {
                    if there == *ino {
                        return Ok(());
                    }
                    match (self.is_dir(*ino), self.is_dir(there)) {
                        (true, false) => return Err(io::ErrorKind::NotADirectory.into()),
                        (false, true) => return Err(io::ErrorKind::IsADirectory.into()),
                        (true, true) if !self.is_empty(there) => {
                            return Err(io::ErrorKind::DirectoryNotEmpty.into());
                        }
                        _ => {}
                    }
                } else if !self.is_dir(to.0) {
                    return not_found();
                }
                if self.is_dir(*ino) && self.is_in(to.0, *ino) {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                self.names.remove(from);
                self.names.insert(to.clone(), *ino);
            }
            Change::Exchanged { one, one_at, other, other_at } => {
                self.holds(one_at, *one)?;
                self.holds(other_at, *other)?;
                if self.is_dir(*one) && self.is_in(other_at.0, *one)
                    || self.is_dir(*other) && self.is_in(one_at.0, *other)
                {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                self.names.insert(one_at.clone(), *other);
                self.names.insert(other_at.clone(), *one);
            }
            Change::Set { ino, attribute } => {
                let node = self.node_mut(*ino)?;
                match attribute {
                    Attribute::Mode(mode) => node.mode = *mode,
                    Attribute::Extended { name, value: Some(value) } => {
                        node.extended.insert(name.clone(), value.clone());
                    }
                    Attribute::Extended { name, value: None } => drop(node.extended.remove(name)),
                    Attribute::Owner { .. } | Attribute::Accessed(_) | Attribute::Modified(_) => {}
                }
            }
            Change::Marked(mark) => self.mark = *mark,
            Change::Truncated { ino, size } => {
                self.node_mut(*ino)?.bytes.resize(*size as usize, 0);
            }
        }
        Ok(())
    }

    /// Removes what has no name, as a file system does after a loss of power.
    pub fn drop_nameless(&mut self) {
        loop {
            let before = self.nodes.len();
            let named: std::collections::BTreeSet<Ino> = self.names.values().copied().collect();
            self.nodes.retain(|ino, _| *ino == ROOT_INO || named.contains(ino));
            let nodes = &self.nodes;
            self.names.retain(|(dir, _), ino| nodes.contains_key(dir) && nodes.contains_key(ino));
            if self.nodes.len() == before {
                return;
            }
        }
    }
}
