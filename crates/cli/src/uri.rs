//! Database files as URIs that SQLite opens through Oneflush.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use oneflush_vfs::{StrategyKind, VFS_NAME};

/// `path` is absolute. Without a strategy the environment decides (`ONEFLUSH_STRATEGY`).
pub fn of(path: &Path, strategy: Option<StrategyKind>) -> String {
    let name: String = path.as_os_str().as_bytes().iter().copied().map(escaped).collect();
    let strategy = strategy.map(|kind| format!("&strategy={kind}")).unwrap_or_default();
    // With an authority, which is empty: a path may begin with two slashes.
    format!("file://{name}?vfs={VFS_NAME}{strategy}")
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
