//! The pages that a cursor has come by: one of each height. To step within a leaf, or to seek close
//! by, takes nobody's lock and looks nothing up.
//!
//! A page stays what it is for a snapshot, and for a transaction while it does not change the tree.
//! A page that the transaction has changed itself is not held.

use std::cell::RefCell;
use std::sync::Arc;

use crate::page::image::Image;
use crate::search::{PageRef, Source, TreeRef};
use crate::{PageNo, Result, TreeId, Version};

/// Trees are not higher, or their upper pages are looked up.
const HEIGHTS: usize = 8;

#[derive(Default)]
pub struct Near {
    pages: [Option<Held>; HEIGHTS],
}

struct Held {
    no: PageNo,
    image: Arc<Image>,
    /// None: the newest.
    version: Option<Version>,
}

impl Held {
    fn page<'a>(&self) -> PageRef<'a> {
        let image = Arc::clone(&self.image);
        match self.version {
            Some(version) => PageRef::At(image, version),
            None => PageRef::Newest(image),
        }
    }
}

impl Near {
    fn find<'a>(&self, no: PageNo) -> Option<PageRef<'a>> {
        self.pages.iter().flatten().find(|held| held.no == no).map(Held::page)
    }

    fn hold(&mut self, no: PageNo, page: &PageRef<'_>) {
        let (image, version) = match page {
            PageRef::At(image, version) => (image, Some(*version)),
            PageRef::Newest(image) => (image, None),
            PageRef::Draft(_) => return,
        };
        if let Some(place) = self.pages.get_mut(usize::from(image.active().height)) {
            *place = Some(Held { no, image: Arc::clone(image), version });
        }
    }
}

/// A source, seen by one that has pages of it at hand.
pub struct Beside<'a> {
    source: &'a dyn Source,
    near: RefCell<&'a mut Near>,
}

impl<'a> Beside<'a> {
    pub fn new(source: &'a dyn Source, near: &'a mut Near) -> Beside<'a> {
        Beside { source, near: RefCell::new(near) }
    }
}

impl Source for Beside<'_> {
    fn page(&self, no: PageNo) -> Result<PageRef<'_>> {
        if let Some(page) = self.near.borrow().find(no) {
            return Ok(page);
        }
        let page = self.source.page(no)?;
        self.near.borrow_mut().hold(no, &page);
        Ok(page)
    }

    /// A root that is at hand was held when it was looked up.
    fn hold_root(&self, root: PageNo) -> Result<()> {
        match self.near.borrow().find(root) {
            Some(_) => Ok(()),
            None => self.source.hold_root(root),
        }
    }

    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        self.source.overflow(no)
    }

    fn pages(&self) -> Result<u64> {
        self.source.pages()
    }

    fn read_ahead(&self, next: PageNo, ahead: &dyn Fn() -> Vec<PageNo>) {
        self.source.read_ahead(next, ahead);
    }

    fn changes(&self, tree: TreeId) -> u64 {
        self.source.changes(tree)
    }

    fn tree(&self, tree: &TreeRef) -> Result<TreeRef> {
        self.source.tree(tree)
    }
}
