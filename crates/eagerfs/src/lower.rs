//! What eager synching asks of the directory below.
//!
//! The mounted file system has a real directory here (`directory`). The crash simulator has a model
//! that loses what was not synced.

use std::io;

use serde::{Deserialize, Serialize};

pub use crate::mark::Mark;

/// Tells an object of the lower from every other, over a loss of power.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    pub inode: u64,
    /// Tells it from an object that had the number before, or gets it later: generation and time of
    /// birth, as the lower gives them.
    #[serde(with = "serde_bytes")]
    pub proof: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    /// A device, a pipe or a socket.
    Special,
}

/// An object as it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub what: What,
    /// The 12 bits of the permissions.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    File,
    Directory,
    Symlink {
        #[serde(with = "serde_bytes")]
        target: Vec<u8>,
    },
    /// `kind`: the bits of `S_IFMT`.
    Special {
        kind: u32,
        device: u64,
    },
}

impl What {
    pub fn kind(&self) -> Kind {
        match self {
            What::File => Kind::File,
            What::Directory => Kind::Directory,
            What::Symlink { .. } => Kind::Symlink,
            What::Special { .. } => Kind::Special,
        }
    }
}

/// Seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Time {
    pub seconds: i64,
    pub nanoseconds: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Attribute {
    Mode(u32),
    Owner {
        uid: u32,
        gid: u32,
    },
    Accessed(Time),
    Modified(Time),
    /// `None`: it is removed.
    Extended {
        #[serde(with = "serde_bytes")]
        name: Vec<u8>,
        #[serde(with = "serde_bytes")]
        value: Option<Vec<u8>>,
    },
}

/// What is looked at of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub kind: Kind,
    pub size_bytes: u64,
    /// Names that it has. A directory has one, or none.
    pub names: u64,
}

/// When an object was changed last: nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changed {
    /// Its names, attributes or contents.
    pub any_ns: u64,
    /// Its contents, as far as nobody has set that time.
    pub contents_ns: u64,
}

/// An answer to [`Lower::find`].
pub enum Found<N> {
    Here(N),
    /// There is no such object in the whole file system.
    Nowhere,
    /// It cannot be told without a walk over all names.
    Unknown,
}

/// The directory below, and its file system.
///
/// Every call has its effect at once for those who look, and none is durable until
/// [`sync`](Lower::sync) or [`sync_all`](Lower::sync_all) returns. No method has a default.
pub trait Lower: Send + Sync {
    /// An object, whatever names it has, and while it has none.
    type Node: Clone + Send + Sync;

    fn root(&self) -> Self::Node;
    fn lookup(&self, dir: &Self::Node, name: &[u8]) -> io::Result<Self::Node>;
    fn identity(&self, node: &Self::Node) -> io::Result<Identity>;
    fn look(&self, node: &Self::Node) -> io::Result<Look>;
    fn changed(&self, node: &Self::Node) -> io::Result<Changed>;
    /// The object with this identity, under whatever name.
    fn find(&self, identity: &Identity) -> io::Result<Found<Self::Node>>;
    /// The names in a directory, without `.` and `..`.
    fn names(&self, dir: &Self::Node) -> io::Result<Vec<Vec<u8>>>;

    /// `at`: directory and name. `None`: an object without a name.
    fn make(&self, at: Option<(&Self::Node, &[u8])>, made: &Made) -> io::Result<Self::Node>;
    /// User and group of this process, to whom belongs what it makes for itself.
    fn own(&self) -> (u32, u32);
    fn link(&self, node: &Self::Node, dir: &Self::Node, name: &[u8]) -> io::Result<()>;
    fn unlink(&self, dir: &Self::Node, name: &[u8], kind: Kind) -> io::Result<()>;
    /// Replaces what has the new name.
    fn rename(&self, from: (&Self::Node, &[u8]), to: (&Self::Node, &[u8])) -> io::Result<()>;
    fn exchange(&self, one: (&Self::Node, &[u8]), other: (&Self::Node, &[u8])) -> io::Result<()>;
    fn set(&self, node: &Self::Node, attribute: &Attribute) -> io::Result<()>;

    /// Cuts a file, or makes it longer by zeros.
    fn truncate(&self, node: &Self::Node, size_bytes: u64) -> io::Result<()>;
    /// Writes all of the bytes, or fails.
    fn write(&self, node: &Self::Node, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Answers how many bytes there were before the end of the file.
    fn read(&self, node: &Self::Node, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// True: a loss of power leaves the changes of names, attributes and sizes up to some moment,
    /// in the order in which they were made (ext4, XFS). False: it may leave later ones without
    /// earlier ones.
    fn keeps_order(&self) -> bool;
    /// Leaves a mark in the lower, as an attribute of the root that nobody sees through the mount.
    /// It is one more change in that order. `None` takes it away.
    fn set_mark(&self, mark: Option<&Mark>) -> io::Result<()>;
    fn mark(&self) -> io::Result<Option<Mark>>;

    /// What the file holds is durable, and its attributes.
    fn sync(&self, node: &Self::Node) -> io::Result<()>;
    /// All of the file system is durable.
    fn sync_all(&self) -> io::Result<()>;
}
