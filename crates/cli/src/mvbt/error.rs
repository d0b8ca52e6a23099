//! Messages, and the way out.

use std::io;

use oneflush_mvbt::{Error, PageNo, TreeId};

use crate::engine::Engine;

#[derive(Debug, thiserror::Error)]
pub enum MvbtError {
    #[error("{name}: cannot be read: {source}. Check the name, and who may read it [OF-701]")]
    Unreadable { name: String, source: io::Error },
    #[error("{source}. Nothing was changed [OF-702]")]
    NoDatabase { source: Error },
    #[error(
        "{name}: a database of SQLite's own engine. `oneflush stats` says what its files tell, and \
            PRAGMA integrity_check whether it is sound [OF-707]"
    )]
    OfSqlite { name: String },
    #[error(
        "{name}: {source}. `oneflush mvbt check` says how much is damaged, and `oneflush mvbt dump \
            --page` shows a page [OF-703]"
    )]
    Damaged { name: String, source: Error },
    #[error(
        "{name}: it has faults. Restore a backup, or copy the rows that `oneflush mvbt dump \
            --tree` still shows [OF-704]"
    )]
    Faults { name: String },
    #[error("{name}: there is no page {no}; it has pages 1 to {pages} [OF-705]")]
    NoPage { name: String, no: PageNo, pages: u64 },
    #[error("{name}: there is no tree {id}; `oneflush mvbt dump {name}` lists the trees [OF-706]")]
    NoTree { name: String, id: TreeId },
}

impl MvbtError {
    /// The messages of some errors begin with the file's name.
    pub fn of(name: &str, source: Error) -> MvbtError {
        match source {
            Error::OtherFormat { path, .. } if Engine::of(&path) == Some(Engine::Sqlite) => {
                MvbtError::OfSqlite { name: name.to_owned() }
            }
            Error::Io { .. }
            | Error::OtherFormat { .. }
            | Error::NewerFormat { .. }
            | Error::AnchorsDamaged { .. } => MvbtError::NoDatabase { source },
            source => MvbtError::Damaged { name: name.to_owned(), source },
        }
    }
}
