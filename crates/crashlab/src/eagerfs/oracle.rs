//! What may be there after a loss of power and a recovery.
//!
//! - *Names and attributes*: all that was done before the last sync that was acknowledged. Where
//!   the lower keeps the order of changes, they are those of one moment since. Where it does not,
//!   each operation since then is whole or not at all. But of one that replaced an object by its
//!   name the object may be gone and nothing more: an operation behind it was kept.
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
        let mut why = None;
        for kept in self.subsets(order, durable, begun) {
            let mut ideal = self.base.clone();
            let is_kept = |step: usize| step < durable || kept.contains(&(step, false));
            for step in 0..begun {
                let Some(change) = &self.changes[step] else { continue };
                // One that needs another that is lost is lost, too.
                if kept.contains(&(step, true))
                    && let Change::Renamed { to, replaced: Some(replaced), .. } = change
                {
                    let _ = ideal.apply(&Change::Unlinked { ino: *replaced, at: to.clone() });
                }
                if is_kept(step) {
                    let _ = ideal.apply(change);
                }
                ideal.drop_nameless();
            }
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

    /// What may be kept of the steps that are not durable. With a step's number: true for what it
    /// replaced, false for the step itself.
    fn subsets(&self, order: Order, durable: usize, begun: usize) -> Vec<BTreeSet<(usize, bool)>> {
        let mut optional = Vec::new();
        for step in durable..begun {
            if let Some(change) = &self.changes[step] {
                if order == Order::Any
                    && matches!(change, Change::Renamed { replaced: Some(_), .. })
                {
                    optional.push((step, true));
                }
                optional.push((step, false));
            }
        }
        match order {
            Order::Prefix => (0..=optional.len())
                .map(|kept| optional[..kept].iter().copied().collect())
                .collect(),
            Order::Any => (0..1u32 << optional.len())
                .map(|bits| {
                    let places = optional.iter().enumerate();
                    let kept = places.filter(|(place, _)| bits >> place & 1 != 0);
                    kept.map(|(_, step)| *step).collect()
                })
                .collect(),
        }
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
