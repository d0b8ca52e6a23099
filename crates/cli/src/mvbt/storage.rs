//! The file, to be read alone.

use std::io;
use std::path::Path;
use std::sync::Arc;

use oneflush_blocklog::DirectFile;

pub fn open(path: &Path) -> io::Result<Arc<DirectFile>> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    DirectFile::open_to_read(path).map(Arc::new).map_err(io::Error::other)
}

/// For a database that is not written, whatever is done with it.
pub fn options() -> oneflush_mvbt::Options {
    let mut options = oneflush_mvbt::Options::default();
    options.read_only = true;
    options
}
