//! Inode numbers of names. A number is never used again, so that the kernel's cache of a removed
//! file is nobody else's.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fuser::INodeNo;

#[derive(Debug)]
pub struct Names {
    paths: HashMap<u64, PathBuf>,
    numbers: HashMap<PathBuf, u64>,
    last: u64,
}

impl Names {
    /// Paths are below the root, whose own is empty.
    pub fn new() -> Names {
        let root = INodeNo::ROOT.0;
        Names {
            paths: [(root, PathBuf::new())].into(),
            numbers: [(PathBuf::new(), root)].into(),
            last: root,
        }
    }

    pub fn path(&self, inode: INodeNo) -> Option<&Path> {
        self.paths.get(&inode.0).map(PathBuf::as_path)
    }

    pub fn number(&mut self, path: &Path) -> INodeNo {
        if let Some(&number) = self.numbers.get(path) {
            return INodeNo(number);
        }
        self.last += 1;
        self.numbers.insert(path.to_owned(), self.last);
        self.paths.insert(self.last, path.to_owned());
        INodeNo(self.last)
    }

    pub fn removed(&mut self, path: &Path) {
        if let Some(number) = self.numbers.remove(path) {
            self.paths.remove(&number);
        }
    }

    /// Of a file; what a renamed folder contains is not followed.
    pub fn renamed(&mut self, from: &Path, to: &Path) {
        self.removed(to);
        if let Some(number) = self.numbers.remove(from) {
            self.paths.insert(number, to.to_owned());
            self.numbers.insert(to.to_owned(), number);
        }
    }
}
