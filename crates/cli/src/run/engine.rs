//! `--engine`: SQLite with both engines in the place of the program's `libsqlite3.so.0`.
//!
//! The dynamic linker looks into the folders of `LD_LIBRARY_PATH` first, but for a `DT_RPATH`. The
//! library has another file name where it is installed. So a folder is made with a link that has
//! the right one. The program and its children need it for as long as they run, so it stays. Its
//! name says whose it is and where it leads, so there is only one.
//!
//! The preloaded library sees where the program's SQLite comes from. If that is another file, it
//! ends the program with a message.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::RunError;
use super::linker::{before, replace};
use crate::engine::{self, Engine};
use crate::library::{self, SQLITE};

/// Where the library is, for the one that is preloaded.
pub const LIBRARY_VARIABLE: &str = "ONEFLUSH_SQLITE";
const FOLDERS_VARIABLE: &str = "LD_LIBRARY_PATH";
/// As programs ask for it.
const NAME: &str = "libsqlite3.so.0";

pub fn variables(engine: Engine) -> Result<[(&'static str, OsString); 3], RunError> {
    let library = library::find(SQLITE)?;
    let library =
        library.canonicalize().map_err(|source| RunError::Link { link: library, source })?;
    let folder = folder(&library)?;
    Ok([
        (engine::VARIABLE, engine.word().into()),
        (LIBRARY_VARIABLE, library.into()),
        (FOLDERS_VARIABLE, before(&folder, FOLDERS_VARIABLE)),
    ])
}

/// The folder with the link.
fn folder(library: &Path) -> Result<PathBuf, RunError> {
    let user = rustix::process::geteuid().as_raw();
    let metadata =
        library.metadata().map_err(|source| RunError::Link { link: library.to_owned(), source })?;
    let name = format!("oneflush-sqlite-{user}-{:x}-{:x}", metadata.dev(), metadata.ino());
    let folder = std::env::temp_dir().join(name);
    if folder.as_os_str().as_encoded_bytes().iter().any(|byte| b":;".contains(byte)) {
        return Err(RunError::Split(folder));
    }
    make(&folder, library, user)
        .map_err(|source| RunError::Folder { folder: folder.clone(), source })?;
    Ok(folder)
}

fn make(folder: &Path, library: &Path, user: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // In a folder of somebody else the link could lead to his code.
            let is_ours = fs::symlink_metadata(folder).is_ok_and(|metadata| {
                metadata.is_dir() && metadata.uid() == user && metadata.mode() & 0o022 == 0
            });
            if !is_ours {
                let text = "it is there, and others may write to it";
                return Err(io::Error::new(error.kind(), text));
            }
        }
        made => made?,
    }
    let link = folder.join(NAME);
    if fs::read_link(&link).is_ok_and(|target| target == library) {
        return Ok(());
    }
    replace(library, &link)
}
