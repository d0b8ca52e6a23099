//! Bounded sequences of operations, as ACE has them (Mohan et al., OSDI 2018): all of a few
//! operations on a few names, each followed by one of a few syncs.

use std::fmt;

use oneflush_eagerfs::lower::{Attribute, Kind, Made, What};

use super::image::{Change, Image, Ino, Name, Node};

/// A path below the root.
pub type Path = &'static str;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Create(Path),
    Mkdir(Path),
    Symlink(Path),
    /// So many bytes behind the end.
    Append(Path, usize),
    /// So many bytes at an offset.
    Overwrite(Path, u64, usize),
    Truncate(Path, u64),
    Rename(Path, Path),
    Exchange(Path, Path),
    Link(Path, Path),
    Unlink(Path),
    Rmdir(Path),
    Mode(Path),
    Extended(Path),
    /// Syncs.
    Fsync(Path),
    FsyncDirectory(Path),
    Sync,
    /// What the keeper does.
    EndEpoch,
    Release,
}

impl Step {
    pub fn is_sync(self) -> bool {
        matches!(self, Step::Fsync(_) | Step::FsyncDirectory(_) | Step::Sync)
    }

    /// It changes names or attributes.
    pub fn is_change(self) -> bool {
        use Step::{Create, Exchange, Extended, Link, Mkdir, Mode, Rename, Rmdir, Symlink, Unlink};
        matches!(
            self,
            Create(_)
                | Mkdir(_)
                | Symlink(_)
                | Rename(..)
                | Exchange(..)
                | Link(..)
                | Unlink(_)
                | Rmdir(_)
                | Mode(_)
                | Extended(_)
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Create(path) => write!(out, "create {path}"),
            Step::Mkdir(path) => write!(out, "mkdir {path}"),
            Step::Symlink(path) => write!(out, "symlink {path}"),
            Step::Append(path, length) => write!(out, "append {length} to {path}"),
            Step::Overwrite(path, at, length) => write!(out, "write {length} at {at} of {path}"),
            Step::Truncate(path, size) => write!(out, "truncate {path} to {size}"),
            Step::Rename(from, to) => write!(out, "rename {from} to {to}"),
            Step::Exchange(one, other) => write!(out, "exchange {one} and {other}"),
            Step::Link(from, to) => write!(out, "link {from} as {to}"),
            Step::Unlink(path) => write!(out, "unlink {path}"),
            Step::Rmdir(path) => write!(out, "rmdir {path}"),
            Step::Mode(path) => write!(out, "chmod {path}"),
            Step::Extended(path) => write!(out, "setxattr {path}"),
            Step::Fsync(path) => write!(out, "fsync {path}"),
            Step::FsyncDirectory(path) => write!(out, "fsync directory {path}"),
            Step::Sync => write!(out, "sync"),
            Step::EndEpoch => write!(out, "end the epoch"),
            Step::Release => write!(out, "release the epoch"),
        }
    }
}

/// Directory and last name of a path.
pub fn split(path: &str) -> (&str, &[u8]) {
    match path.rsplit_once('/') {
        Some((dir, name)) => (dir, name.as_bytes()),
        None => ("", path.as_bytes()),
    }
}

/// Bytes that tell which step wrote them, and where.
pub fn bytes_of(step: usize, offset: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|at| 1 + ((offset + at) / 64 * 7 + step as u64 * 37) as u8 % 255)
        .collect()
}

/// The same steps, done by an ideal file system. Objects have numbers that no other ever gets.
#[derive(Clone, Debug)]
pub struct Ideal(pub Image);

/// The number of an object that a step makes.
fn number(step: usize) -> Ino {
    1000 + step as u64
}

impl Ideal {
    fn name(&self, path: &str) -> Option<Name> {
        let (dir, name) = split(path);
        Some((self.0.find(dir)?, name.to_vec()))
    }

    /// False: it cannot be done, and nothing was.
    pub fn step(&mut self, number_of_step: usize, step: Step) -> bool {
        match step {
            Step::Append(path, length) => self.write(number_of_step, path, None, length),
            Step::Overwrite(path, at, length) => self.write(number_of_step, path, Some(at), length),
            Step::Fsync(path) => self.file(path).is_some(),
            Step::FsyncDirectory(path) => self.0.find(path).is_some(),
            Step::Sync | Step::EndEpoch | Step::Release => true,
            _ => {
                let change = self.change(number_of_step, step);
                let done = change.is_some_and(|change| self.0.apply(&change).is_ok());
                self.0.drop_nameless();
                done
            }
        }
    }

    fn file(&self, path: &str) -> Option<Ino> {
        self.0.find(path).filter(|ino| self.0.nodes[ino].kind() == Kind::File)
    }

    /// `at`: an offset, or `None` for the end. False: there is no such file.
    fn write(&mut self, number_of_step: usize, path: &str, at: Option<u64>, length: usize) -> bool {
        let file = self.file(path);
        let Some(node) = file.and_then(|ino| self.0.nodes.get_mut(&ino)) else { return false };
        let offset = at.unwrap_or(node.bytes.len() as u64);
        node.write(offset, &bytes_of(number_of_step, offset, length));
        true
    }

    /// What a step does to names, attributes or a size.
    pub fn change(&self, number_of_step: usize, step: Step) -> Option<Change> {
        let make = |path, what| {
            let made = Made { what, mode: 0o644, uid: 0, gid: 0 };
            let ino = number(number_of_step);
            Some(Change::Made { ino, node: Node::new(&made, ino), at: Some(self.name(path)?) })
        };
        match step {
            Step::Create(path) => make(path, What::File),
            Step::Mkdir(path) => make(path, What::Directory),
            Step::Symlink(path) => make(path, What::Symlink { target: b"to".to_vec() }),
            Step::Truncate(path, size) => Some(Change::Truncated { ino: self.file(path)?, size }),
            Step::Rename(from, to) => {
                let ino = self.0.find(from)?;
                let replaced = self.0.find(to);
                Some(Change::Renamed { ino, from: self.name(from)?, to: self.name(to)?, replaced })
            }
            Step::Exchange(one, other) => Some(Change::Exchanged {
                one: self.0.find(one)?,
                one_at: self.name(one)?,
                other: self.0.find(other)?,
                other_at: self.name(other)?,
            }),
            Step::Link(from, to) => {
                Some(Change::Linked { ino: self.file(from)?, at: self.name(to)? })
            }
            Step::Unlink(path) | Step::Rmdir(path) => {
                let ino = self.0.find(path)?;
                let takes_directories = matches!(step, Step::Rmdir(_));
                let is_taken = self.0.is_dir(ino) == takes_directories;
                is_taken.then_some(Change::Unlinked { ino, at: self.name(path)? })
            }
            Step::Mode(path) => Some(Change::Set {
                ino: self.0.find(path)?,
                attribute: Attribute::Mode(0o400 + number_of_step as u32 % 8),
            }),
            Step::Extended(path) => {
                Some(Change::Set { ino: self.0.find(path)?, attribute: extended(number_of_step) })
            }
            _ => None,
        }
    }
}

pub fn extended(number_of_step: usize) -> Attribute {
    Attribute::Extended { name: b"user.a".to_vec(), value: Some(vec![number_of_step as u8]) }
}

/// What is there before a script: a file, and a directory with another.
pub fn base() -> Image {
    let mut ideal = Ideal(Image::empty());
    for (number, step) in [
        Step::Create("foo"),
        Step::Append("foo", 9000),
        Step::Mkdir("A"),
        Step::Create("A/bar"),
        Step::Append("A/bar", 5000),
    ]
    .into_iter()
    .enumerate()
    {
        // No step of a script has these numbers.
        ideal.step(900 + number, step);
    }
    ideal.0
}

/// What scripts are made of.
pub const CORE: &[Step] = &[
    Step::Create("new"),
    Step::Create("A/new"),
    Step::Create("B/new"),
    Step::Mkdir("B"),
    Step::Mkdir("A/C"),
    Step::Symlink("s"),
    Step::Append("foo", 700),
    Step::Append("A/bar", 6000),
    Step::Append("new", 5000),
    Step::Append("foo", 40_000),
    Step::Overwrite("foo", 4000, 300),
    Step::Overwrite("A/bar", 0, 5000),
    Step::Overwrite("new", 20_000, 10),
    Step::Truncate("foo", 0),
    Step::Truncate("foo", 4500),
    Step::Truncate("foo", 30_000),
    Step::Truncate("A/bar", 100),
    Step::Rename("foo", "new"),
    Step::Rename("foo", "A/bar"),
    Step::Rename("A/bar", "foo"),
    Step::Rename("new", "foo"),
    Step::Rename("new", "A/new"),
    Step::Rename("A", "B"),
    Step::Rename("foo", "B/foo"),
    Step::Rename("A/C", "B"),
    Step::Rename("B", "A/C"),
    Step::Exchange("foo", "A/bar"),
    Step::Exchange("A", "foo"),
    Step::Link("foo", "A/new"),
    Step::Link("A/bar", "new"),
    Step::Link("new", "A/new"),
    Step::Unlink("foo"),
    Step::Unlink("A/bar"),
    Step::Unlink("new"),
    Step::Rmdir("A"),
    Step::Rmdir("B"),
    Step::Mode("foo"),
    Step::Extended("A"),
    Step::Extended("foo"),
];

/// What may follow each of them.
pub const SYNCS: &[&[Step]] = &[
    &[],
    &[Step::Fsync("foo")],
    &[Step::Fsync("A/bar")],
    &[Step::Fsync("new")],
    &[Step::FsyncDirectory("A")],
    &[Step::Sync],
    &[Step::Fsync("foo"), Step::EndEpoch],
    &[Step::Fsync("foo"), Step::EndEpoch, Step::Release],
];
