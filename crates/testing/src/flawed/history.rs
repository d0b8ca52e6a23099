//! What a place was asked to do, in its order, and what a loss of power may leave of it.
//!
//! **The fault model**, weak POSIX:
//!
//! - A name is durable once its folder was synced, and so is the removal of a name. Before, each
//!   change of a folder may be there or not, whatever became of the changes before it.
//! - A rename in one folder is there or not. A rename to another folder changes both folders, and
//!   each of them on its own.
//! - What a file has is durable once the file was synced. Of what was written since, all, nothing
//!   or only the later half may be there; bytes that are missing before those are zeros.
//! - Of up to [`ALL_MAX`] changes that are not durable, all choices are tried. Of more, none, all,
//!   each alone, all but each, and [`SAMPLES`] by seed.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use super::names::Names;

/// So many changes have 128 choices.
const ALL_MAX: usize = 7;
const SAMPLES: u64 = 24;

const ROOT: u64 = 1;

/// Files and folders have numbers, so that they stay what they are under another name.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Name(Naming),
    Write { node: u64, offset: u64, bytes: Vec<u8> },
    Cut { node: u64, bytes: u64 },
    SyncFile(u64),
    SyncFolder(u64),
}

/// Changes of one folder that are there together or not at all. None: the name is removed.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    pub folder: u64,
    pub changes: Vec<(OsString, Option<Node>)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    File(u64),
    Folder(u64),
}

/// What a medium has.
#[derive(Clone, Debug, Default)]
struct Image {
    folders: BTreeMap<u64, BTreeMap<OsString, Node>>,
    files: BTreeMap<u64, Vec<u8>>,
}

/// From when it was begun.
#[derive(Debug)]
pub struct History {
    begin: Image,
    pub(super) steps: Vec<Step>,
}

/// What a loss of power left.
pub struct Loss {
    /// Steps that had been done.
    pub steps: usize,
    /// Each had been.
    pub is_at_end: bool,
    /// Files with what they have, and folders.
    pub files: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Loss {
    /// Makes it in an empty folder.
    pub fn put(&self, folder: &Path) -> io::Result<()> {
        for (path, bytes) in &self.files {
            match bytes {
                Some(bytes) => fs::write(folder.join(path), bytes)?,
                None => fs::create_dir(folder.join(path))?,
            }
        }
        Ok(())
    }
}

/// What happened since the last sync that covers it.
enum Change<'a> {
    Name(&'a Naming),
    File(u64, Vec<&'a Step>),
}

/// What of a change is on the medium.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chosen {
    None,
    All,
    /// Of a file's writes. Names know no halves.
    LaterHalf,
}

impl History {
    /// All that is in the folder is durable.
    pub(super) fn begin(folder: &Path, names: &mut Names) -> io::Result<History> {
        let mut begin = Image::default();
        begin.folders.insert(ROOT, BTreeMap::new());
        let mut left = vec![PathBuf::new()];
        while let Some(path) = left.pop() {
            let number = names.number(&path).0;
            for entry in fs::read_dir(folder.join(&path))? {
                let entry = entry?;
                let below = path.join(entry.file_name());
                let child = names.number(&below).0;
                let node = if entry.file_type()?.is_dir() {
                    begin.folders.insert(child, BTreeMap::new());
                    left.push(below);
                    Node::Folder(child)
                } else {
                    begin.files.insert(child, fs::read(entry.path())?);
                    Node::File(child)
                };
                begin.folders.entry(number).or_default().insert(entry.file_name(), node);
            }
        }
        Ok(History { begin, steps: Vec::new() })
    }

    /// Each once: before the first step, and after every one.
    pub fn losses(&self, seed: u64) -> Vec<Loss> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (hashes, mut known) = (RandomState::new(), HashSet::new());
        let mut losses = Vec::new();
        for steps in 0..=self.steps.len() {
            let is_at_end = steps == self.steps.len();
            if is_at_end {
                // What was seen before the end may be wrong behind it.
                known.clear();
            }
            let (durable, changes) = self.after(steps);
            for chosen in choices(changes.len(), &mut random) {
                let mut image = durable.clone();
                for (change, chosen) in changes.iter().zip(chosen) {
                    image.change(change, chosen);
                }
                let files = image.tree();
                if known.insert(hashes.hash_one(&files)) {
                    losses.push(Loss { steps, is_at_end, files });
                }
            }
        }
        losses
    }

    /// What is durable, and what is not.
    fn after(&self, steps: usize) -> (Image, Vec<Change<'_>>) {
        let (mut durable, mut changes) = (self.begin.clone(), Vec::<Change>::new());
        for step in &self.steps[..steps] {
            match step {
                Step::Name(naming) => changes.push(Change::Name(naming)),
                Step::Write { node, .. } | Step::Cut { node, .. } => {
                    let own = changes.iter_mut().find_map(|change| match change {
                        Change::File(number, steps) if number == node => Some(steps),
                        _ => None,
                    });
                    match own {
                        Some(steps) => steps.push(step),
                        None => changes.push(Change::File(*node, vec![step])),
                    }
                }
                Step::SyncFile(node) | Step::SyncFolder(node) => {
                    changes.retain(|change| {
                        let is_covered = match (change, step) {
                            (Change::File(number, _), Step::SyncFile(_)) => number == node,
                            (Change::Name(naming), Step::SyncFolder(_)) => naming.folder == *node,
                            _ => false,
                        };
                        if is_covered {
                            durable.change(change, Chosen::All);
                        }
                        !is_covered
                    });
                }
            }
        }
        (durable, changes)
    }
}

impl Image {
    fn change(&mut self, change: &Change, chosen: Chosen) {
        match (change, chosen) {
            (_, Chosen::None) => {}
            (Change::Name(naming), _) => {
                let names = self.folders.entry(naming.folder).or_default();
                for (name, node) in &naming.changes {
                    match node {
                        Some(node) => names.insert(name.clone(), *node),
                        None => names.remove(name),
                    };
                }
            }
            (Change::File(node, steps), chosen) => {
                let file = self.files.entry(*node).or_default();
                let skipped = if chosen == Chosen::LaterHalf { steps.len().div_ceil(2) } else { 0 };
                for step in &steps[skipped..] {
                    write(file, step);
                }
            }
        }
    }

    /// What the root leads to.
    fn tree(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut files = BTreeMap::new();
        let mut left = vec![(PathBuf::new(), ROOT)];
        while let Some((path, number)) = left.pop() {
            for (name, node) in self.folders.get(&number).into_iter().flatten() {
                let below = path.join(name);
                match node {
                    Node::File(file) => {
                        let bytes = self.files.get(file).cloned().unwrap_or_default();
                        files.insert(below, Some(bytes));
                    }
                    Node::Folder(folder) => {
                        files.insert(below.clone(), None);
                        left.push((below, *folder));
                    }
                }
            }
        }
        files
    }
}

fn write(file: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write { offset, bytes, .. } => {
            let begin = *offset as usize;
            let end = begin + bytes.len();
            file.resize(file.len().max(end), 0);
            file[begin..end].copy_from_slice(bytes);
        }
        Step::Cut { bytes, .. } => file.resize(*bytes as usize, 0),
        Step::Name(_) | Step::SyncFile(_) | Step::SyncFolder(_) => {}
    }
}

fn choices(changes: usize, random: &mut fastrand::Rng) -> Vec<Vec<Chosen>> {
    let of_bits = |bits: u64| -> Vec<Chosen> {
        let chosen = |n| if bits >> n & 1 == 1 { Chosen::All } else { Chosen::None };
        (0..changes).map(chosen).collect()
    };
    let mut choices = Vec::new();
    if changes <= ALL_MAX {
        choices.extend((0..1 << changes).map(of_bits));
        choices.push(vec![Chosen::LaterHalf; changes]);
        return choices;
    }
    for (most, other) in [(Chosen::None, Chosen::All), (Chosen::All, Chosen::None)] {
        choices.push(vec![most; changes]);
        for n in 0..changes {
            let mut choice = vec![most; changes];
            choice[n] = other;
            choices.push(choice);
        }
    }
    for _ in 0..SAMPLES {
        let chosen = |_| match random.u8(0..3) {
            0 => Chosen::None,
            1 => Chosen::All,
            _ => Chosen::LaterHalf,
        };
        choices.push((0..changes).map(chosen).collect());
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(folder: u64, name: &str, node: Option<Node>) -> Step {
        Step::Name(Naming { folder, changes: vec![(name.into(), node)] })
    }

    fn write(node: u64, offset: u64, bytes: &str) -> Step {
        Step::Write { node, offset, bytes: bytes.into() }
    }

    /// Behind so many steps: `NAME=BYTES …`, each once.
    fn left(steps: &[Step], behind: usize) -> Vec<String> {
        let steps = steps[..behind].to_vec();
        let begin = Image { folders: [(ROOT, BTreeMap::new())].into(), ..Image::default() };
        let history = History { begin, steps };
        let losses = history.losses(3).into_iter().filter(|loss| loss.is_at_end);
        let text = |(path, bytes): (&PathBuf, &Option<Vec<u8>>)| match bytes {
            Some(bytes) => format!("{}={}", path.display(), String::from_utf8_lossy(bytes)),
            None => format!("{}/", path.display()),
        };
        let mut left: Vec<String> =
            losses.map(|loss| loss.files.iter().map(text).collect::<Vec<_>>().join(" ")).collect();
        left.sort();
        left
    }

    #[test]
    fn names_and_bytes_may_be_lost_until_each_is_synced() {
        let steps = [
            name(ROOT, "a", Some(Node::File(2))),
            write(2, 0, "x"),
            write(2, 1, "y"),
            Step::SyncFile(2),
            Step::SyncFolder(ROOT),
        ];
        assert_eq!(left(&steps, 1), ["", "a="]);
        assert_eq!(left(&steps, 3), ["", "a=", "a=\0y", "a=xy"]);
        assert_eq!(left(&steps, 4), ["", "a=xy"]);
        assert_eq!(left(&steps, 5), ["a=xy"]);
    }

    #[test]
    fn a_folder_needs_its_own_name_and_a_file_that_moves_may_have_two() {
        let steps = [
            name(ROOT, "f", Some(Node::Folder(2))),
            name(ROOT, "a", Some(Node::File(3))),
            Step::SyncFolder(ROOT),
            name(2, "b", Some(Node::File(3))),
            name(ROOT, "a", None),
            Step::SyncFolder(2),
            Step::SyncFolder(ROOT),
        ];
        assert_eq!(left(&steps, 2), ["", "a=", "a= f/", "f/"]);
        assert_eq!(left(&steps, 5), ["a= f/", "a= f/ f/b=", "f/", "f/ f/b="]);
        assert_eq!(left(&steps, 6), ["a= f/ f/b=", "f/ f/b="]);
        assert_eq!(left(&steps, 7), ["f/ f/b="]);
    }
}
