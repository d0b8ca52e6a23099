//! What may be there after a loss of power and a recovery.
//!
//! - *Names and attributes*: all that was done before the last sync that was acknowledged. Where
//!   the lower keeps the order of changes, they are those of one moment since. Where it does not,
//!   each name has what it had after some of the operations since, and attributes are not compared.
//! - *Contents*: of each file those of its last sync, and of what was written since any part. A
//!   file that has taken another's name since has at least the contents that it had then.
//! - Nothing of the recovery is left.

use std::collections::{BTreeMap, BTreeSet};

use super::image::{Change, Image, Ino, Node, NodeKind, ROOT_INO};
use super::loss::Order;
use super::script::{Ideal, Step};

/// What each path of a tree leads to. Trees whose objects have other numbers are compared by it.
type Shape = BTreeMap<String, Seen>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    what: NodeKind,
    mode: u32,
    extended: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first path of the same object.
    first: String,
}

fn paths(image: &Image) -> BTreeMap<String, Ino> {
    let mut found = BTreeMap::from([(String::new(), ROOT_INO)]);
    let mut dirs = vec![(String::new(), ROOT_INO)];
    while let Some((path, dir)) = dirs.pop() {
        for ((_, name), ino) in
            image.names.range((dir, Vec::new())..).take_while(|((of, _), _)| *of == dir)
        {
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            if image.is_dir(*ino) {
                dirs.push((path.clone(), *ino));
            }
            found.insert(path, *ino);
        }
    }
    found
}

fn shape(image: &Image) -> Shape {
    let mut first: BTreeMap<Ino, String> = BTreeMap::new();
    let mut shape = BTreeMap::new();
    for (path, ino) in paths(image) {
        let first = first.entry(ino).or_insert_with(|| path.clone()).clone();
        let Node { what, mode, extended, .. } = image.nodes[&ino].clone();
        shape.insert(path, Seen { what, mode, extended, first });
    }
    shape
}

fn text(shape: &Shape) -> String {
    let one = |(path, seen): (&String, &Seen)| {
        let link = if *path == seen.first { "" } else { &seen.first };
        let what = match seen.what {
            NodeKind::File => "",
            NodeKind::Directory => "/",
            _ => "@",
        };
        format!("{path}{what}{link} {:o} {:?}", seen.mode, seen.extended)
    };
    shape.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// How far a script was when power was lost, in steps.
#[derive(Clone, Copy)]
struct Progress {
    /// Up to the last sync that has returned.
    durable: usize,
    acknowledged: usize,
    begun: usize,
}

/// What a script asks for.
pub struct Oracle<'a> {
    steps: &'a [Step],
    /// The ideal tree before the first step and after each.
    ideals: Vec<Image>,
    /// What each step did to names and attributes.
    changes: Vec<Option<Change>>,
}

impl<'a> Oracle<'a> {
    pub fn new(base: &Image, steps: &'a [Step]) -> Oracle<'a> {
        let mut ideal = Ideal(base.clone());
        let mut ideals = vec![base.clone()];
        let mut changes = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            changes.push(ideal.change(number, *step).filter(|_| step.is_change()));
            ideal.step(number, *step);
            ideals.push(ideal.0.clone());
        }
        Oracle { steps, ideals, changes }
    }

    /// `acknowledged`: so many steps have returned. `begun`: so many were begun.
    pub fn check(
        &self,
        found: &Image,
        order: Order,
        acknowledged: usize,
        begun: usize,
    ) -> Result<(), String> {
        let synced = self.steps[..acknowledged].iter().rposition(|step| step.is_sync());
        let durable = synced.map_or(0, |place| place + 1);
        let progress = Progress { durable, acknowledged, begun };
        match order {
            Order::Prefix => self.check_one_moment(found, progress),
            Order::Any => self.check_each_name(found, progress),
        }
    }

    /// Where the lower keeps the order of changes.
    fn check_one_moment(&self, found: &Image, progress: Progress) -> Result<(), String> {
        let Progress { durable, begun, .. } = progress;
        let found_shape = shape(found);
        let mut why = None;
        let has_changed = |kept: &usize| *kept == durable || self.changes[*kept - 1].is_some();
        for kept in (durable..=begun).filter(has_changed) {
            if shape(&self.ideals[kept]) != found_shape {
                continue;
            }
            match self.check_contents(found, kept, progress) {
                Ok(()) => return Ok(()),
                Err(error) => why = why.or(Some(error)),
            }
        }
        Err(why.unwrap_or_else(|| {
            format!(
                "names or attributes are those of no moment: [{}]; durable were [{}]",
                text(&found_shape),
                text(&shape(&self.ideals[durable]))
            )
        }))
    }

    /// The names that were found are those after so many steps.
    fn check_contents(&self, found: &Image, kept: usize, progress: Progress) -> Result<(), String> {
        let there = paths(found);
        let ideal = &self.ideals[kept];
        for (path, ino) in paths(ideal) {
            if ideal.nodes[&ino].what != NodeKind::File {
                continue;
            }
            let since = self.durable_since(ino, &|step| step < kept, progress);
            let versions = self.versions(ino, since, progress);
            check_bytes(&found.nodes[&there[&path]].bytes, &versions)
                .map_err(|error| format!("{path}: {error} (durable since step {since})"))?;
        }
        Ok(())
    }

    /// Where the lower keeps no order.
    fn check_each_name(&self, found: &Image, progress: Progress) -> Result<(), String> {
        let possible = self.possible_names(progress);
        let there = paths(found);
        if let Some(path) = there.keys().find(|path| !possible.contains_key(*path)) {
            return Err(format!("{path} was never there"));
        }
        for (path, objects) in &possible {
            let Some(node) = there.get(path).map(|ino| &found.nodes[ino]) else {
                if objects.contains(&None) {
                    continue;
                }
                return Err(format!("{path} is gone"));
            };
            if !objects.iter().flatten().any(|ino| self.can_be(node, *ino, path, progress)) {
                let bytes = node.bytes.len();
                return Err(format!("{path} ({bytes} bytes) is none of what it was"));
            }
        }
        Ok(())
    }

    /// The objects that a path may lead to: after all that is durable and any of the changes since.
    /// A change that needs one that is lost is lost, too. `None`: the path may lead nowhere.
    fn possible_names(&self, progress: Progress) -> BTreeMap<String, BTreeSet<Option<Ino>>> {
        let Progress { durable, begun, .. } = progress;
        let since: Vec<&Change> = self.changes[durable..begun].iter().flatten().collect();
        let tree = |kept: u32| {
            let mut tree = self.ideals[durable].clone();
            for (place, change) in since.iter().enumerate() {
                if kept >> place & 1 != 0 {
                    let _ = tree.apply(change);
                    tree.drop_nameless();
                }
            }
            paths(&tree)
        };
        let trees: Vec<_> = (0..1 << since.len()).map(tree).collect();
        let all: BTreeSet<&String> = trees.iter().flat_map(|tree| tree.keys()).collect();
        let objects = |path| trees.iter().map(|tree| tree.get(path).copied()).collect();
        all.into_iter().map(|path| (path.clone(), objects(path))).collect()
    }

    /// True if what this path leads to can be the object, in some version of it.
    fn can_be(&self, found: &Node, ino: Ino, path: &str, progress: Progress) -> bool {
        let mut ideals = self.ideals.iter().filter_map(|ideal| ideal.nodes.get(&ino));
        if !ideals.any(|node| node.what == found.what) {
            return false;
        }
        if found.what != NodeKind::File {
            return true;
        }
        let has_moved_here = |step: usize| match self.steps[step] {
            Step::Rename(_, to) => format!("/{to}") == path,
            _ => false,
        };
        let since = self.durable_since(ino, &has_moved_here, progress);
        let versions = self.versions(ino, since, progress);
        !versions.is_empty() && check_bytes(&found.bytes, &versions).is_ok()
    }

    /// The last step that made the contents of an object durable: a sync, or a change that gave it
    /// another's name, where that is kept. 0: there is none.
    fn durable_since(
        &self,
        ino: Ino,
        is_kept: &dyn Fn(usize) -> bool,
        progress: Progress,
    ) -> usize {
        let makes_durable = |step: &usize| {
            let (step, before) = (*step, &self.ideals[*step]);
            let is_it = |path: &str| before.find(path) == Some(ino);
            match self.steps[step] {
                Step::Sync => step < progress.acknowledged,
                Step::Fsync(path) => step < progress.acknowledged && is_it(path),
                Step::Rename(from, to) => is_kept(step) && is_it(from) && before.find(to).is_some(),
                Step::Exchange(one, other) => is_kept(step) && (is_it(one) || is_it(other)),
                _ => false,
            }
        };
        (0..progress.begun).rev().find(makes_durable).unwrap_or(0)
    }

    /// The contents of an object before this step, and after each that was begun since.
    fn versions(&self, ino: Ino, step: usize, progress: Progress) -> Vec<&[u8]> {
        let ideals = &self.ideals[step..=progress.begun];
        ideals.iter().filter_map(|ideal| Some(&ideal.nodes.get(&ino)?.bytes[..])).collect()
    }
}

/// A version ended before this byte, and a later one did not.
fn grew_over(at: usize, versions: &[&[u8]]) -> bool {
    let ended = versions.iter().position(|version| version.len() <= at);
    ended.is_some_and(|ended| versions[ended..].iter().any(|later| later.len() > at))
}

/// Bytes may be those of any version, each for itself. Where a file grew there may be zeros.
fn check_bytes(found: &[u8], versions: &[&[u8]]) -> Result<(), String> {
    let sizes = || versions.iter().map(|version| version.len());
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    if found.len() < least || found.len() > most {
        return Err(format!("{} bytes, and {least} to {most} are allowed", found.len()));
    }
    for (at, byte) in found.iter().enumerate() {
        let is_allowed = versions.iter().any(|version| version.get(at) == Some(byte))
            || *byte == 0 && grew_over(at, versions);
        if !is_allowed {
            return Err(format!("byte {at} is {byte}, which was never there"));
        }
    }
    Ok(())
}
