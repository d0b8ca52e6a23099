//! What names a page, a version and a tree.

use std::fmt;

/// The number of a page, from 1. In a file it has 6 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u64);

/// The number of a committed transaction. In a file it has 6 bytes. Version 0 is the empty
/// database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The number of a tree, which it keeps for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

impl Version {
    /// Later than any transaction: the end of a cell that lives.
    pub const MAX: Version = Version((1 << 48) - 1);

    /// The version after this one.
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }

    /// The version before this one. Before version 0 there is none: it answers 0.
    pub fn previous(self) -> Version {
        Version(self.0.saturating_sub(1))
    }
}

impl PageNo {
    /// The largest number that fits in a cell.
    pub const MAX: PageNo = PageNo((1 << 48) - 1);
}

macro_rules! shown_as_number {
    ($($name:ident)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

shown_as_number!(PageNo Version TreeId);
