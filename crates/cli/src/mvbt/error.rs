//! Messages, and the way out.

use std::io;

use oneflush_mvbt::{Error, PageNo, TreeId};

#[derive(Debug, thiserror::Error)]
pub enum MvbtError {
    #[error("{name}: cannot be read: {source}. Check the name, and who may read it [OF-701]")]
    Unreadable { name: String, source: io::Error },
    #[error("{source}. Nothing was changed [OF-702]")]
    NoDatabase { source: Error },
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
            Error::Io { .. }
            | Error::OtherFormat { .. }
            | Error::NewerFormat { .. }
            | Error::AnchorsDamaged { .. } => MvbtError::NoDatabase { source },
            source => MvbtError::Damaged { name: name.to_owned(), source },
        }
    }
}
