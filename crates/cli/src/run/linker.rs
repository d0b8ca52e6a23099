//! Libraries under paths that the dynamic linker takes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::RunError;

/// The dynamic linker splits `LD_PRELOAD` at spaces and colons. A path that has some is preloaded
/// through a link. The program and its children need the link for as long as they run, so the link
/// stays. Its name says whose it is and where it leads, so there is only one.
pub fn preloadable(library: PathBuf) -> Result<PathBuf, RunError> {
    let splits =
        |path: &Path| path.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
    if !splits(&library) {
        return Ok(library);
    }
    let user = rustix::process::geteuid().as_raw();
    let metadata =
        library.metadata().map_err(|source| RunError::Link { link: library.clone(), source })?;
    let name = format!("oneflush-preload-{user}-{:x}-{:x}.so", metadata.dev(), metadata.ino());
    let link = std::env::temp_dir().join(name);
    if splits(&link) {
        return Err(RunError::Unpreloadable(link));
    }
    let made = |source| RunError::Link { link: link.clone(), source };
    match std::os::unix::fs::symlink(&library, &link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A link of somebody else could lead to his code.
            let is_ours = fs::symlink_metadata(&link).is_ok_and(|link| link.uid() == user);
            if !is_ours {
                return Err(made(io::Error::new(
                    error.kind(),
                    "it is there and belongs to somebody else",
                )));
            }
            if fs::read_link(&link).is_ok_and(|target| target == library) {
                return Ok(link);
            }
            replace(&library, &link).map_err(made)?;
        }
        linked => linked.map_err(made)?,
    }
    Ok(link)
}

/// In one step: others may be about to use the link.
pub fn replace(library: &Path, link: &Path) -> io::Result<()> {
    let new = link.with_extension(format!("{}.new", std::process::id()));
    std::os::unix::fs::symlink(library, &new)?;
    fs::rename(&new, link)
}

/// What the user has in the variable already stays, behind ours.
pub fn before(ours: &Path, variable: &str) -> OsString {
    let mut all = ours.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(variable).filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
