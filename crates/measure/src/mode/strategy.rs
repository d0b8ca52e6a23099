//! Who makes the commit: SQLite alone, or our VFS with one of its strategies.

use std::fmt;

use oneflush_vfs::StrategyKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// SQLite's own VFS; ours is not in the way.
    Sqlite,
    /// Our VFS.
    Oneflush(StrategyKind),
}

const SQLITE: &str = "sqlite";

impl Strategy {
    /// Changes nothing and accounts for everything: what the others are compared with.
    pub const STOCK: Strategy = Strategy::Oneflush(StrategyKind::Stock);

    pub fn names() -> Vec<&'static str> {
        let ours = StrategyKind::ALL.into_iter().map(StrategyKind::name);
        std::iter::once(SQLITE).chain(ours).collect()
    }

    pub fn find(word: &str) -> Option<Strategy> {
        if word == SQLITE {
            return Some(Strategy::Sqlite);
        }
        StrategyKind::ALL.into_iter().find(|kind| kind.name() == word).map(Strategy::Oneflush)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Sqlite => f.pad(SQLITE),
            Strategy::Oneflush(kind) => f.pad(kind.name()),
        }
    }
}
