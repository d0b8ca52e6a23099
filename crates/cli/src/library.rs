//! The libraries of this program. They are searched for in three folders, in this order:
//!
//! 1. the program's own, where `make build` leaves them,
//! 2. `../lib/oneflush` from there, as in the tar.gz and in `/usr/local`,
//! 3. `../lib/<triplet>/oneflush`, where Debian keeps what belongs to one processor.

use std::env::consts::ARCH;
use std::io;
use std::path::{Path, PathBuf};

/// What a program with SQLite loads.
pub const EXTENSION: &str = "liboneflush.so";
/// SQLite with both engines, in the place of `libsqlite3.so.0`.
pub const SQLITE: &str = "liboneflush_sqlite3.so";
/// What is preloaded, so that a program's SQLite loads the extension.
pub const PRELOAD: &str = "liboneflush_preload.so";

#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error(
        "{name} is neither in {beside} nor in {installed} nor in {multiarch}; `{make}` leaves \
            it beside the program [OF-501]"
    )]
    Missing {
        name: &'static str,
        beside: String,
        installed: String,
        multiarch: String,
        make: &'static str,
    },
    #[error("cannot find this program's own folder: {0} [OF-502]")]
    Myself(io::Error),
}

pub fn find(name: &'static str) -> Result<PathBuf, LibraryError> {
    let program = std::env::current_exe().map_err(LibraryError::Myself)?;
    let folders = folders(program.parent().unwrap_or(Path::new("/")));
    if let Some(path) = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()) {
        return Ok(path);
    }
    let [beside, installed, multiarch] = folders.map(|folder| folder.display().to_string());
    let make = if name == SQLITE { "make sqlite-lsmvbt" } else { "make build" };
    Err(LibraryError::Missing { name, beside, installed, multiarch, make })
}

fn folders(beside: &Path) -> [PathBuf; 3] {
    let lib = beside.join("../lib");
    [beside.to_owned(), lib.join("oneflush"), lib.join(triplet()).join("oneflush")]
}

/// Debian's word for this processor and C library.
fn triplet() -> String {
    let processor = if ARCH == "x86" { "i386" } else { ARCH };
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    format!("{processor}-linux-{libc}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debian_package_has_its_libraries_in_the_folder_of_the_processor() {
        let [_, _, last] = folders(Path::new("/usr/bin"));
        let expected = match (ARCH, cfg!(target_env = "gnu")) {
            ("x86_64", true) => "/usr/bin/../lib/x86_64-linux-gnu/oneflush",
            ("aarch64", true) => "/usr/bin/../lib/aarch64-linux-gnu/oneflush",
            _ => return,
        };
        assert_eq!(last, Path::new(expected));
    }
}
