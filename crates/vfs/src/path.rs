//! Paths as text: the names by which files are known.
//!
//! SQLite's names are bytes. A name that is not UTF-8 is known by a text that no file has as its
//! name, each by its own. So two databases never share anything because their names look alike, and
//! no file is opened by such a text.
//!
//! A strategy opens files by name. A database with such a name is therefore opened as with SQLite
//! alone. Where that would break a promise, the open is refused.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serializer;

/// No path begins like this: a full path begins with a slash, or as another VFS wants it.
const NOT_UTF8: &str = "(not UTF-8) ";

/// The text for the path of these bytes. Suffixes stay, so that side files are known by their
/// database's.
pub fn of_bytes(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(path) => Cow::Borrowed(path),
        Err(_) => Cow::Owned(format!("{NOT_UTF8}{}", name.escape_ascii())),
    }
}

/// True if files can be opened by this text.
pub fn is_name(path: &str) -> bool {
    !path.starts_with(NOT_UTF8)
}

/// The text for a reader, of a name as the operating system has it.
pub fn shown<N: AsRef<OsStr> + ?Sized>(name: &N) -> Cow<'_, str> {
    of_bytes(name.as_ref().as_bytes())
}

/// The text for a reader, in JSON.
pub fn serialize_shown<N: AsRef<OsStr>, S: Serializer>(
    name: &N,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&shown(name))
}

/// The name with `suffix` behind it, as the operating system has it.
pub fn with_suffix(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The name of a file beside a database. `name` is the function for a database whose name is UTF-8.
pub fn beside(database: &Path, name: fn(&str) -> String) -> PathBuf {
    with_suffix(database, name(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;

    #[test]
    fn two_names_are_never_one_and_side_files_keep_their_database() {
        let names: [&[u8]; 5] = [
            b"/d/a\xff.db",
            b"/d/a\xfe.db",
            "/d/a\u{fffd}.db".as_bytes(),
            b"/d/a\\xff.db",
            b"/d/a\xff\\.db",
        ];
        let paths: Vec<_> = names.iter().map(|name| of_bytes(name)).collect();
        for (at, path) in paths.iter().enumerate() {
            assert_eq!(paths.iter().filter(|other| *other == path).count(), 1, "{path}");
            assert_eq!(is_name(path), std::str::from_utf8(names[at]).is_ok(), "{path}");
            let wal = [names[at], b"-wal"].concat();
            assert_eq!(Role::of_side_file(&of_bytes(&wal)), Some((Role::Wal, path.as_ref())));
        }
    }
}
