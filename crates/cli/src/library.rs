//! The libraries that `make build` leaves beside this program, or that are installed in
//! `../lib/oneflush` from there.

use std::io;
use std::path::{Path, PathBuf};

/// What a program with SQLite loads.
pub const EXTENSION: &str = "liboneflush.so";

#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error(
        "{name} is neither in {beside} nor in {installed}; `make build` leaves it beside the \
            program [OF-501]"
    )]
    Missing { name: &'static str, beside: String, installed: String },
    #[error("cannot find this program's own folder: {0} [OF-502]")]
    Myself(io::Error),
}

pub fn find(name: &'static str) -> Result<PathBuf, LibraryError> {
    let program = std::env::current_exe().map_err(LibraryError::Myself)?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let installed = beside.join("../lib/oneflush");
    [beside, &installed]
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| LibraryError::Missing {
            name,
            beside: beside.display().to_string(),
            installed: installed.display().to_string(),
        })
}
