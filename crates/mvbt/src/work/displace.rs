//! What readers still need of a root, once the root has another height than that.
//!
//! It goes to pages of its own, and the root gets a dead cell for each. One page is enough nearly
//! always. But a dead cell takes more of a directory than one that lives. So the cells of a page
//! that was full may not fit in one where most of them are dead. Then each page is for some of the
//! versions. For one version alone all cells live, as they did in the root: that fits.

use crate::page::cell;
use crate::page::draft::{Displaced, Draft};
use crate::search::TreeRef;
use crate::work::{Work, child_cell};
use crate::{Error, PageNo, Result, Version};

/// A cell and its life span.
struct Lived<'a> {
    bytes: &'a [u8],
    start: Version,
    end: Version,
}

impl Work {
    pub(super) fn displace(&mut self, root: PageNo, displaced: &Displaced) -> Result<()> {
        self.leads_to_fresh = true;
        let draft = &self.drafts[&root];
        let tree = TreeRef { id: draft.tree, root, is_record: draft.shape().is_record };
        let what = "a cell of it is none";
        let cells = in_order(displaced, self.version);
        let cells = cells.ok_or(Error::Damaged { page: root, what })?;
        let mut end = displaced.end;
        while end > displaced.start {
            let no = self.fresh_draft(&tree, displaced.height)?;
            let empty = &self.drafts[&no];
            let found = starts(&cells, displaced.start, end)
                .into_iter()
                .find_map(|start| Some((start, filled(empty, &cells, start, end)?)));
            let what = "it has more than fits in a page";
            let (start, mut page) = found.ok_or(Error::Damaged { page: root, what })?;
            page.set_floor(Version(0));
            self.drafts.insert(no, page);
            let cell = child_cell(start, no, tree.is_record, None);
            self.list_history(root, displaced.height, &cell, end)?;
            // Readers below this transaction alone see it.
            self.note_pool();
            self.pool.free_later(no)?;
            end = start;
        }
        Ok(())
    }

    fn list_history(&mut self, root: PageNo, height: u8, cell: &[u8], end: Version) -> Result<()> {
        if self.list_dead(root, cell, end) {
            return Ok(());
        }
        self.hand_down(root, height)?;
        match self.list_dead(root, cell, end) {
            true => Ok(()),
            false => Err(Error::Damaged { page: root, what: "an emptied root has no room" }),
        }
    }
}

/// The cells that readers below a version see, in the order of the page. To those, what ends with
/// that version lives for ever.
fn in_order<'a>(displaced: &'a Displaced, version: Version) -> Option<Vec<Lived<'a>>> {
    let mut cells = Vec::with_capacity(displaced.live.len() + displaced.dead.len());
    let mut add = |bytes: &'a [u8], end: Version| {
        let start = cell::start(bytes)?;
        if start < version {
            let end = if end < version { end } else { Version::MAX };
            cells.push(Lived { bytes, start, end });
        }
        Some(())
    };
    let mut dead = displaced.dead.iter().peekable();
    for (rank, live) in displaced.live.iter().enumerate() {
        while let Some((bytes, one)) = dead.next_if(|(_, one)| usize::from(one.rank) <= rank) {
            add(bytes, one.end)?;
        }
        add(live, displaced.end)?;
    }
    for (bytes, one) in dead {
        add(bytes, one.end)?;
    }
    Some(cells)
}

/// Where a page for the versions before `end` may begin: the oldest place first.
fn starts(cells: &[Lived<'_>], first: Version, end: Version) -> Vec<Version> {
    let ends = cells.iter().map(|cell| cell.end).filter(|&one| first < one && one < end);
    let mut starts: Vec<Version> = ends.chain(std::iter::once(first)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The page for the versions from `start` to before `end`. None: it has no room for them.
fn filled(empty: &Draft, cells: &[Lived<'_>], start: Version, end: Version) -> Option<Draft> {
    let mut page = empty.clone();
    let mut rank = 0;
    for cell in cells.iter().filter(|cell| cell.start < end && cell.end > start) {
        if cell.end < end {
            page.add_dead(cell.bytes, rank, cell.end).then_some(())?;
        } else {
            page.insert(rank, cell.bytes, 0).then_some(())?;
            rank += 1;
        }
    }
    Some(page)
}
