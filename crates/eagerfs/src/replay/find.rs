//! Where the objects of the log are.

use std::collections::BTreeMap;
use std::io;

use rustc_hash::FxHashMap;

use crate::entry::{ObjectId, Place, ROOT};
use crate::fold::Wanted;
use crate::lower::{Found, Identity, Kind, Lower};

/// Finds the objects by their identities. First the lower is asked, then the names that the log
/// knows are looked at, and last all names that there are. `place`: that for recovery, if there is
/// one.
pub fn find<L: Lower>(
    lower: &L,
    wanted: &Wanted,
    place: Option<&L::Node>,
) -> io::Result<BTreeMap<ObjectId, L::Node>> {
    let mut nodes = BTreeMap::from([(ROOT, lower.root())]);
    let mut missing: FxHashMap<&Identity, ObjectId> = FxHashMap::default();
    for (&id, object) in wanted.objects.iter().filter(|(id, _)| **id != ROOT) {
        match lower.find(&object.identity)? {
            // One that is still open somewhere and has no name is none.
            Found::Here(node) if lower.look(&node)?.names > 0 => drop(nodes.insert(id, node)),
            Found::Here(_) | Found::Nowhere => {}
            Found::Unknown => drop(missing.insert(&object.identity, id)),
        }
    }
    while find_by_names(lower, wanted, &mut nodes, &mut missing)? {}
    if !missing.is_empty() {
        let mut dirs: Vec<L::Node> = place.cloned().into_iter().chain([lower.root()]).collect();
        while let Some(dir) = dirs.pop().filter(|_| !missing.is_empty()) {
            for name in seen(lower.names(&dir))?.unwrap_or_default() {
                let Some(node) = seen(lower.lookup(&dir, &name))? else { continue };
                if let Some(id) = missing.remove(&lower.identity(&node)?) {
                    nodes.insert(id, node.clone());
                }
                if lower.look(&node)?.kind == Kind::Directory {
                    dirs.push(node);
                }
            }
        }
    }
    Ok(nodes)
}

/// True: some were found, so that there may be more.
fn find_by_names<L: Lower>(
    lower: &L,
    wanted: &Wanted,
    nodes: &mut BTreeMap<ObjectId, L::Node>,
    missing: &mut FxHashMap<&Identity, ObjectId>,
) -> io::Result<bool> {
    let mut found = false;
    for (&id, object) in &wanted.objects {
        if nodes.contains_key(&id) || !missing.contains_key(&object.identity) {
            continue;
        }
        for at in &object.had {
            if let Some(node) = at_place(lower, nodes, at)?
                && lower.identity(&node)? == object.identity
            {
                missing.remove(&object.identity);
                nodes.insert(id, node);
                found = true;
                break;
            }
        }
    }
    Ok(found)
}

/// What has a name now. `None`: nothing, or the directory is nowhere.
pub fn at_place<L: Lower>(
    lower: &L,
    nodes: &BTreeMap<ObjectId, L::Node>,
    at: &Place,
) -> io::Result<Option<L::Node>> {
    let Some(dir) = nodes.get(&at.dir) else { return Ok(None) };
    match lower.lookup(dir, &at.name) {
        Ok(node) => Ok(Some(node)),
        Err(error) if is_no_name(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The directory that the log knows may be something else by now.
fn is_no_name(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// `None`: it is another's, or of another file system, and nothing of the log is there.
fn seen<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{CrossesDevices, PermissionDenied};
    match found {
        Err(error) if matches!(error.kind(), CrossesDevices | PermissionDenied) => Ok(None),
        found => found.map(Some),
    }
}
