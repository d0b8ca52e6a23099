//! Looks at every page that can be reached: whether it is whole, where it belongs, and whether its
//! keys are in order.

use std::cmp::Ordering;

use crate::history;
use crate::page::cell::Content;
use crate::search::{Source, TreeRef, with_content};
use crate::work::{self, CATALOG_TREE, FREE_TREE};
use crate::{PageNo, Probe, Result, cursor::Cursor, payload};

/// How records of a tree are ordered, if the caller knows.
pub type Order<'a> = &'a dyn Fn(&[u8], &[u8]) -> Ordering;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, one line each.
    pub faults: Vec<String>,
    /// Of the database, without anchors and commit blocks.
    pub pages: u64,
    /// Pages of trees, with catalog and tree of free pages.
    pub tree_pages: u64,
    /// Pages of long payloads and records.
    pub overflow_pages: u64,
    /// Pages that can be used again now.
    pub free_pages: u64,
    /// Pages that belong to nobody. A crash leaves some; they are lost room, and no fault.
    pub lost: Vec<PageNo>,
    /// Pages that only older versions reach: the history, and readers that have begun.
    pub history_pages: u64,
    /// Those of them that nothing lists as free from some version on. A crash leaves some.
    pub unlisted: Vec<PageNo>,
    /// Cells of leaves.
    pub cells: u64,
}

/// No more faults are told than this.
const FAULTS_MAX: usize = 100;

pub(crate) struct Check<'a> {
    source: &'a dyn Source,
    order: Option<Order<'a>>,
    /// By page number less 1.
    is_reached: Vec<bool>,
    report: Report,
}

/// The least key of a subtree, and the one above all of it. None: no bound, or not known.
#[derive(Clone, Copy, Default)]
struct Bounds {
    from: Option<i64>,
    to: Option<i64>,
}

impl<'a> Check<'a> {
    /// `free`: pages that are known to be free, beside those of the tree of free pages. `older`
    /// answers which of so many pages older versions reach, and what is wrong with those.
    pub fn run(
        source: &'a dyn Source,
        order: Option<Order<'a>>,
        free: impl IntoIterator<Item = PageNo>,
        older: impl FnOnce(u64) -> (Vec<bool>, Vec<String>),
        pages_of_file: u64,
    ) -> Result<Report> {
        let claimed = work::page_count(source)?;
        // A hostile count would ask for any amount of memory.
        let report = Report { pages: claimed.min(pages_of_file), ..Report::default() };
        let mut check = Check { source, order, is_reached: Vec::new(), report };
        if claimed > pages_of_file {
            check.fault(format!("the file has {pages_of_file} pages, and not {claimed}"));
        }
        for tree in [CATALOG_TREE, FREE_TREE] {
            check.tree(&tree);
        }
        for id in work::trees(source)? {
            match work::tree(source, id) {
                Ok(tree) => check.tree(&tree),
                Err(error) => check.fault(format!("tree {id}: {error}")),
            }
        }
        match history::settings(source) {
            Ok(settings) => settings.into_iter().for_each(|settings| check.tree(&settings.marks)),
            Err(error) => check.fault(format!("the history: {error}")),
        }
        check.is_reached.resize(check.report.pages as usize, false);
        let is_current = check.is_reached.clone();
        check.free(free);
        let (is_older, faults) = older(check.report.pages);
        faults.into_iter().for_each(|fault| check.fault(fault));
        Ok(check.end(&is_current, &is_older))
    }

    fn fault(&mut self, fault: String) {
        if self.report.faults.len() < FAULTS_MAX {
            self.report.faults.push(fault);
        }
    }

    /// Notes that a page is reached. False: it was before, or cannot be.
    fn reach(&mut self, no: PageNo, what: &str) -> bool {
        if no.0 == 0 || no.0 > self.report.pages {
            let pages = self.report.pages;
            self.fault(format!("page {no} ({what}) is not one of the {pages} pages"));
            return false;
        }
        let index = (no.0 - 1) as usize;
        if self.is_reached.len() <= index {
            self.is_reached.resize(index + 1, false);
        }
        let is_new = !std::mem::replace(&mut self.is_reached[index], true);
        if !is_new {
            self.fault(format!("page {no} ({what}) is reached twice"));
        }
        is_new
    }

    fn tree(&mut self, tree: &TreeRef) {
        if let Err(error) = self.page(tree, tree.root, None, Bounds::default()) {
            self.fault(format!("tree {}: {error}", tree.id));
        }
    }

    fn page(
        &mut self,
        tree: &TreeRef,
        no: PageNo,
        above: Option<u8>,
        bounds: Bounds,
    ) -> Result<()> {
        if !self.reach(no, &format!("of tree {}", tree.id)) {
            return Ok(());
        }
        self.report.tree_pages += 1;
        let page = self.source.page(no)?;
        let view = page.view()?;
        if page.tree() != tree.id || view.shape.is_record != tree.is_record {
            self.fault(format!("page {no} is not of tree {}", tree.id));
            return Ok(());
        }
        if above.is_some_and(|above| view.height >= above) {
            self.fault(format!("page {no} is higher than the page above it"));
            return Ok(());
        }
        let first = usize::from(view.height > 0);
        if !tree.is_record {
            self.integer_order(no, &view, first, bounds);
        } else if let Some(order) = self.order {
            self.record_order(no, &view, first, order)?;
        }
        if view.height == 0 {
            self.report.cells += view.len() as u64;
            for index in 0..view.len() {
                self.long(no, view.cell(index).content);
            }
            return Ok(());
        }
        if view.len() == 0 {
            self.fault(format!("page {no} has no children"));
        }
        for index in 0..view.len() {
            let cell = view.cell(index);
            if index > 0 {
                self.long(no, cell.content);
            }
            let key = |index: usize| (!tree.is_record).then(|| view.integer_key(index));
            let bounds = Bounds {
                from: if index > 0 { key(index) } else { bounds.from },
                to: if index + 1 < view.len() { key(index + 1) } else { bounds.to },
            };
            if let Err(error) = self.page(tree, cell.child, Some(view.height), bounds) {
                self.fault(format!("tree {}: {error}", tree.id));
            }
        }
        Ok(())
    }

    fn integer_order(
        &mut self,
        no: PageNo,
        view: &crate::page::image::View<'_>,
        first: usize,
        bounds: Bounds,
    ) {
        let mut before = None;
        for index in first..view.len() {
            let key = view.integer_key(index);
            if before.is_some_and(|before| before >= key) {
                self.fault(format!("page {no}: key {key} is not behind the one before it"));
            }
            let is_inside =
                bounds.from.is_none_or(|from| from <= key) && bounds.to.is_none_or(|to| key < to);
            if !is_inside {
                self.fault(format!("page {no}: key {key} belongs to another page"));
            }
            before = Some(key);
        }
    }

    fn record_order(
        &mut self,
        no: PageNo,
        view: &crate::page::image::View<'_>,
        first: usize,
        order: Order<'_>,
    ) -> Result<()> {
        let mut before: Option<Vec<u8>> = None;
        for index in first..view.len() {
            let record = with_content(self.source, view.cell(index).content, <[u8]>::to_vec)?;
            if before.is_some_and(|before| order(&before, &record) != Ordering::Less) {
                self.fault(format!("page {no}: record {index} is not behind the one before it"));
            }
            before = Some(record);
        }
        Ok(())
    }

    fn long(&mut self, no: PageNo, content: Content<'_>) {
        if content.overflow.is_none() {
            return;
        }
        let source = self.source;
        // Behind a page that others reach, so many cells could share a chain, and all walk it.
        let read = payload::each_until(source, content, |page, _| {
            let is_new = self.reach(page, &format!("of a long payload in page {no}"));
            self.report.overflow_pages += u64::from(is_new);
            is_new
        });
        if let Err(error) = read {
            self.fault(format!("page {no}: {error}"));
        }
    }

    fn free(&mut self, others: impl IntoIterator<Item = PageNo>) {
        let mut listed = Vec::new();
        if let Err(error) = self.listed_as_free(&mut listed) {
            self.fault(format!("the tree of free pages: {error}"));
        }
        for no in listed.into_iter().chain(others) {
            if self.reach(no, "free") {
                self.report.free_pages += 1;
            }
        }
    }

    fn listed_as_free(&self, listed: &mut Vec<PageNo>) -> Result<()> {
        let mut cursor = Cursor::new(self.source, FREE_TREE);
        cursor.seek(self.source, Probe::First)?;
        while let Some(key) = cursor.integer_key(self.source)? {
            let payload = cursor.payload(self.source)?.unwrap_or_default();
            listed.extend(work::listed_pages(key, &payload));
            cursor.next(self.source)?;
        }
        Ok(())
    }

    /// Which pages the newest version reaches, and which older ones do.
    fn end(mut self, is_current: &[bool], is_older: &[bool]) -> Report {
        let is_older = is_older.iter().copied().chain(std::iter::repeat(false));
        let rows = self.is_reached.iter().zip(is_current).zip(is_older);
        for (no, ((&is_listed, &is_current), is_older)) in (1..).map(PageNo).zip(rows) {
            let is_history = is_older && !is_current;
            self.report.history_pages += u64::from(is_history);
            self.report.free_pages -= u64::from(is_listed && is_history);
            match (is_listed, is_history) {
                (false, true) => self.report.unlisted.push(no),
                (false, false) => self.report.lost.push(no),
                (true, _) => {}
            }
        }
        self.report
    }
}
