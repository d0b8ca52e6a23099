//! Database files as URIs that SQLite opens through Oneflush.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use oneflush_vfs::{StrategyKind, VFS_NAME};

/// `path` is absolute. Without a strategy the environment decides (`ONEFLUSH_STRATEGY`).
pub fn of(path: &Path, strategy: Option<StrategyKind>) -> String {
    let strategy = strategy.map(|kind| format!("&strategy={kind}")).unwrap_or_default();
    format!("{}?vfs={VFS_NAME}{strategy}", without_parameters(path))
}

/// For the VFS of the connection. `path` is absolute; parameters may follow, after a `?`.
pub fn without_parameters(path: &Path) -> String {
    let name: String = path.as_os_str().as_bytes().iter().copied().map(escaped).collect();
    // With an authority, which is empty: a path may begin with two slashes.
    format!("file://{name}")
}

/// A byte of a path in a URI.
fn escaped(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    }
}
