//! The file, to be read alone.

use std::io;
use std::path::Path;
use std::sync::Arc;

use oneflush_blocklog::DirectFile;
use oneflush_mvbt::{Database, Options};
use oneflush_vfs::shown_name;

use super::error::MvbtError;

pub fn file(path: &Path) -> Result<Arc<DirectFile>, MvbtError> {
    let is_file = path.metadata().map(|metadata| metadata.is_file());
    let opened = is_file.and_then(|is_file| match is_file {
        true => DirectFile::open_to_read(path).map(Arc::new).map_err(io::Error::other),
        false => Err(io::Error::other("it is no regular file")),
    });
    opened.map_err(|source| MvbtError::Unreadable { name: shown_name(path).into_owned(), source })
}

/// What is no regular file is refused before anything is made beside it.
pub fn database(path: &Path) -> Result<Database, MvbtError> {
    file(path)?;
    let mut options = Options::default();
    // Whatever is done with it.
    options.read_only = true;
    Database::open(path, options).map_err(|source| MvbtError::of(&shown_name(path), source))
}
