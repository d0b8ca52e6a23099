//! Going down a tree, and finding a cell in a page.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::page::cell::Content;
use crate::page::draft::Draft;
use crate::page::image::{Image, View};
use crate::{Error, PageNo, Result, TreeId, Version, payload};

/// A stored record beside the one that is sought.
pub type Compare<'a> = &'a dyn Fn(&[u8]) -> Ordering;

/// What is sought.
#[derive(Clone, Copy)]
pub enum Probe<'a> {
    /// A key of an integer tree.
    Integer(i64),
    /// A record, by what the comparison says of those that are stored.
    Record(Compare<'a>),
    /// Before all cells, and behind them.
    First,
    Last,
}

/// A tree as some version has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRef {
    /// Its number.
    pub id: TreeId,
    /// The page at its top.
    pub root: PageNo,
    /// It has records, which the caller compares; else integer keys with payloads.
    pub is_record: bool,
}

/// A page as someone sees it.
pub enum PageRef<'a> {
    Newest(Arc<Image>),
    At(Arc<Image>, Version),
    Draft(&'a Draft),
}

impl PageRef<'_> {
    pub fn view(&self) -> Result<View<'_>> {
        match self {
            PageRef::Newest(image) => Ok(image.newest()),
            PageRef::At(image, version) => image.view(*version),
            PageRef::Draft(draft) => Ok(draft.view()),
        }
    }

    pub fn tree(&self) -> TreeId {
        match self {
            PageRef::Newest(image) | PageRef::At(image, _) => image.tree,
            PageRef::Draft(draft) => draft.tree,
        }
    }
}

/// Where pages come from: a snapshot, or a transaction.
pub trait Source {
    /// The page as this source sees it.
    fn page(&self, no: PageNo) -> Result<PageRef<'_>>;
    /// The root stays what it is now, for as long as this source lives or until it changes the tree
    /// itself. Called before a way down is looked for. Else a root that gets another height shows
    /// older readers what it had through a page of its own, and a way that was found before leads
    /// elsewhere.
    fn hold_root(&self, root: PageNo) -> Result<()>;
    /// The payload of an overflow page, and the next page.
    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)>;
    /// How many pages the file has room for. No tree has more leaves.
    fn pages(&self) -> Result<u64>;
    /// `next` is asked for next, and then `ahead`, perhaps. A source may read them together if it
    /// has to read the first.
    fn read_ahead(&self, _next: PageNo, _ahead: &dyn Fn() -> Vec<PageNo>) {}
    /// Rises with each change of this tree. A snapshot has none.
    fn changes(&self, _tree: TreeId) -> u64 {
        0
    }
    /// The tree with the root that it has now.
    fn tree(&self, tree: &TreeRef) -> Result<TreeRef> {
        Ok(*tree)
    }
}

/// No way down is longer. One to an old version passes each height that a root has had since.
const STEPS_MAX: usize = 4096;

/// So many pages are read ahead.
pub const AHEAD_MAX: usize = 64;

/// A page on the way down, and which cell was taken in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub no: PageNo,
    pub index: usize,
}

/// Calls with all of a content, which is read if it is long.
pub fn with_content<R>(
    source: &dyn Source,
    content: Content<'_>,
    call: impl FnOnce(&[u8]) -> R,
) -> Result<R> {
    match content.overflow {
        None => Ok(call(content.local)),
        Some(_) => Ok(call(&payload::read(source, content)?)),
    }
}

/// The first cell from `from` on that is not less than what is sought, and whether it is that.
fn find(
    source: &dyn Source,
    view: &View<'_>,
    probe: Probe<'_>,
    from: usize,
) -> Result<(usize, bool)> {
    let (mut low, mut high) = (from, view.len());
    let mut is_found = false;
    while low < high {
        let middle = low + (high - low) / 2;
        let order = match probe {
            Probe::Integer(key) => view.integer_key(middle).cmp(&key),
            Probe::Record(compare) => with_content(source, view.record(middle), compare)?,
            Probe::First => Ordering::Greater,
            Probe::Last => Ordering::Less,
        };
        match order {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => (high, is_found) = (middle, true),
            Ordering::Greater => high = middle,
        }
    }
    Ok((low, is_found))
}

/// The way to the leaf that holds what is sought, or would. The last step's index is the first cell
/// that is not less; it may be behind the leaf's last. True: that cell is what is sought.
pub fn descend(
    source: &dyn Source,
    tree: &TreeRef,
    probe: Probe<'_>,
    path: &mut Vec<Step>,
) -> Result<bool> {
    path.clear();
    source.hold_root(tree.root)?;
    descend_from(source, tree, tree.root, None, probe, path)
}

/// The same from a page on, which stands below one of height `above`.
pub fn descend_from(
    source: &dyn Source,
    tree: &TreeRef,
    mut no: PageNo,
    mut above: Option<u8>,
    probe: Probe<'_>,
    path: &mut Vec<Step>,
) -> Result<bool> {
    loop {
        let page = source.page(no)?;
        let view = page.view()?;
        let is_right = page.tree() == tree.id && view.shape.is_record == tree.is_record;
        let is_right = is_right && path.len() < STEPS_MAX;
        if !is_right || above.is_some_and(|above| view.height >= above) {
            return Err(not_meant(no));
        }
        if view.height == 0 {
            let (index, is_found) = find(source, &view, probe, 0)?;
            path.push(Step { no, index });
            return Ok(is_found);
        }
        if view.len() == 0 {
            return Err(Error::Damaged { page: no, what: "it has no children" });
        }
        // The first cell counts as less than anything.
        let (index, is_equal) = find(source, &view, probe, 1)?;
        let index = if is_equal { index } else { index - 1 };
        path.push(Step { no, index });
        above = view.bound();
        no = view.cell(index).child;
    }
}

/// How many cells the leaves of a tree have. `pages`: no tree has more.
pub fn count(source: &dyn Source, tree: &TreeRef, pages: u64) -> Result<u64> {
    let (mut cells, mut left) = (0, pages);
    let mut open = vec![(tree.root, None)];
    while let Some((no, above)) = open.pop() {
        source.read_ahead(no, &|| open.iter().rev().take(AHEAD_MAX).map(|(no, _)| *no).collect());
        let page = source.page(no)?;
        let view = page.view()?;
        let is_right = page.tree() == tree.id && view.shape.is_record == tree.is_record;
        if !is_right || above.is_some_and(|above| view.height >= above) {
            return Err(not_meant(no));
        }
        left = left.checked_sub(1).ok_or(Error::ReachedTwice { page: no })?;
        if view.height == 0 {
            cells += view.len() as u64;
            continue;
        }
        let children = (0..view.len()).rev().map(|index| view.cell(index).child);
        open.extend(children.map(|child| (child, view.bound())));
    }
    Ok(cells)
}

fn not_meant(no: PageNo) -> Error {
    Error::Damaged { page: no, what: "it is not the page that its parent means" }
}
