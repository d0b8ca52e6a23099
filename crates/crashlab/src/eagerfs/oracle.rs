//! What may be there after a loss of power and a recovery.
//!
//! - *Names and attributes*: all that was done before the last sync that was acknowledged. Where
//!   the lower keeps the order of changes, they are those of one moment since. Where it does not,
//!   each name has what it had after some of the operations since.
//! - *Contents*: of each file those of its last sync, and of what was written since any part. A
//!   file that has taken another's name since has at least the contents that it had then.
//! - Nothing of the recovery is left.

use std::collections::{BTreeMap, BTreeSet};

use super::image::{Change, Image, Ino, Node, NodeKind, ROOT_INO};
use super::loss::Order;
use super::script::{Ideal, Step};

/// A tree by its paths, to compare trees whose objects have other numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shape(BTreeMap<String, Seen>);

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
            if image.nodes.get(ino).is_some_and(|node| node.what == NodeKind::Directory) {
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
        let node = &image.nodes[&ino];
        let first = first.entry(ino).or_insert_with(|| path.clone()).clone();
        let Node { what, mode, extended, .. } = node.clone();
        shape.insert(path, Seen { what, mode, extended, first });
    }
    Shape(shape)
}

/// What a script asks for.
pub struct Oracle<'a> {
    base: &'a Image,
    steps: &'a [Step],
    /// The ideal tree before the first step and after each.
    ideals: Vec<Image>,
    /// What each step did to names and attributes.
    changes: Vec<Option<Change>>,
}

impl<'a> Oracle<'a> {
    pub fn new(base: &'a Image, steps: &'a [Step]) -> Oracle<'a> {
        let mut ideal = Ideal(base.clone());
        let mut ideals = vec![base.clone()];
        let mut changes = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            changes.push(ideal.change(number, *step).filter(|_| step.is_change()));
            ideal.step(number, *step);
            ideals.push(ideal.0.clone());
        }
        Oracle { base, steps, ideals, changes }
    }

    /// `acknowledged`: so many steps have returned. `begun`: so many were begun.
    pub fn check(
        &self,
        found: &Image,
        order: Order,
        acknowledged: usize,
        begun: usize,
    ) -> Result<(), String> {
        let found_shape = shape(found);
        let synced = self.steps[..acknowledged].iter().rposition(|step| step.is_sync());
        let durable = synced.map_or(0, |place| place + 1);
        if order == Order::Any {
            return self.check_each_name(found, durable, acknowledged, begun);
        }
        let mut why = None;
        for kept in self.prefixes(durable, begun) {
            let is_kept = |step: usize| step < durable || kept.contains(&step);
            let ideal = self.after(durable, begun, is_kept);
            if shape(&ideal) != found_shape {
                continue;
            }
            match self.contents(found, &ideal, &is_kept, acknowledged, begun) {
                Ok(()) => return Ok(()),
                Err(error) => why = why.or(Some(error)),
            }
        }
        Err(why.unwrap_or_else(|| self.other_names(&found_shape, durable)))
    }

    /// The changes that are not durable.
    fn optional(&self, durable: usize, begun: usize) -> Vec<usize> {
        (durable..begun).filter(|step| self.changes[*step].is_some()).collect()
    }

    /// What may be kept of them, one after the other.
    fn prefixes(&self, durable: usize, begun: usize) -> Vec<BTreeSet<usize>> {
        let optional = self.optional(durable, begun);
        (0..=optional.len()).map(|kept| optional[..kept].iter().copied().collect()).collect()
    }

    /// The tree after all that is durable and these changes. One that needs another that is lost
    /// is lost, too.
    fn after(&self, durable: usize, begun: usize, is_kept: impl Fn(usize) -> bool) -> Image {
        let mut ideal = self.base.clone();
        for step in (0..begun).filter(|step| *step < durable || is_kept(*step)) {
            if let Some(change) = &self.changes[step] {
                let _ = ideal.apply(change);
                ideal.drop_nameless();
            }
        }
        ideal
    }

    /// Where the lower keeps no order.
    fn check_each_name(
        &self,
        found: &Image,
        durable: usize,
        acknowledged: usize,
        begun: usize,
    ) -> Result<(), String> {
        let optional = self.optional(durable, begun);
        let mut possible: BTreeMap<String, BTreeSet<Option<Ino>>> = BTreeMap::new();
        let mut trees = Vec::new();
        for bits in 0..1u32 << optional.len() {
            let place = |step| optional.iter().position(|of| *of == step);
            let is_kept = |step| place(step).is_some_and(|place| bits >> place & 1 != 0);
            trees.push(paths(&self.after(durable, begun, is_kept)));
        }
        let all: BTreeSet<&String> = trees.iter().flat_map(|tree| tree.keys()).collect();
        for path in all {
            let held = trees.iter().map(|tree| tree.get(path).copied());
            possible.insert(path.clone(), held.collect());
        }
        let there = paths(found);
        if let Some(path) = there.keys().find(|path| !possible.contains_key(*path)) {
            return Err(format!("{path} was never there"));
        }
        for (path, held) in &possible {
            let Some(node) = there.get(path).map(|ino| &found.nodes[ino]) else {
                if held.contains(&None) {
                    continue;
                }
                return Err(format!("{path} is gone"));
            };
            let fits = |ino: &Ino| self.is_it(node, *ino, path, acknowledged, begun);
            if !held.iter().flatten().any(fits) {
                let bytes = node.bytes.len();
                return Err(format!("{path} ({bytes} bytes) is none of what it was"));
            }
        }
        Ok(())
    }

    /// True if what has this name can be the object, in some version of it.
    fn is_it(&self, node: &Node, ino: Ino, path: &str, acknowledged: usize, begun: usize) -> bool {
        let versions = || self.ideals.iter().filter_map(|ideal| ideal.nodes.get(&ino));
        let is_kind = versions().any(|version| version.what == node.what);
        if node.what != NodeKind::File {
            return is_kind;
        }
        let has_moved_here = |step: usize| match self.steps[step] {
            Step::Rename(_, to) => format!("/{to}") == path,
            _ => false,
        };
        let from = self.floor(ino, &has_moved_here, acknowledged, begun);
        let bytes: Vec<&[u8]> = (from..=begun)
            .filter_map(|at| Some(&self.ideals[at].nodes.get(&ino)?.bytes[..]))
            .collect();
        is_kind && !bytes.is_empty() && check_bytes(&node.bytes, &bytes).is_ok()
    }

    fn other_names(&self, found: &Shape, durable: usize) -> String {
        let wanted = shape(&self.ideals[durable]);
        let text = |shape: &Shape| {
            let one = |(path, seen): (&String, &Seen)| {
                let link = if *path == seen.first { "" } else { &seen.first };
                let what = match seen.what {
                    NodeKind::File => "",
                    NodeKind::Directory => "/",
                    _ => "@",
                };
                format!("{path}{what}{link} {:o} {:?}", seen.mode, seen.extended)
            };
            shape.0.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        format!(
            "names or attributes are those of no moment: [{}]; durable were [{}]",
            text(found),
            text(&wanted)
        )
    }

    /// `ideal` has the names that were found.
    fn contents(
        &self,
        found: &Image,
        ideal: &Image,
        is_kept: &dyn Fn(usize) -> bool,
        acknowledged: usize,
        begun: usize,
    ) -> Result<(), String> {
        let there = paths(found);
        for (path, ino) in paths(ideal) {
            if ideal.nodes[&ino].what != NodeKind::File {
                continue;
            }
            let node = &found.nodes[&there[&path]];
            let from = self.floor(ino, is_kept, acknowledged, begun);
            let versions: Vec<&[u8]> = (from..=begun)
                .filter_map(|at| Some(&self.ideals[at].nodes.get(&ino)?.bytes[..]))
                .collect();
            check_bytes(&node.bytes, &versions)
                .map_err(|error| format!("{path}: {error} (durable since step {from})"))?;
        }
        Ok(())
    }

    /// The moment from which on the contents of an object count.
    fn floor(
        &self,
        ino: Ino,
        is_kept: &dyn Fn(usize) -> bool,
        acknowledged: usize,
        begun: usize,
    ) -> usize {
        let mut floor = 0;
        for (number, step) in self.steps[..begun].iter().enumerate() {
            let before = Ideal(self.ideals[number].clone());
            let is_it = |path: &str| before.find(path) == Some(ino);
            let raises = match step {
                Step::Sync => number < acknowledged,
                Step::Fsync(path) => number < acknowledged && is_it(path),
                Step::Rename(from, to) => {
                    is_kept(number) && is_it(from) && before.find(to).is_some()
                }
                Step::Exchange(one, other) => is_kept(number) && (is_it(one) || is_it(other)),
                _ => false,
            };
            if raises {
                floor = number;
            }
        }
        floor
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
