//! The URI of a database, which names the VFS and the strategy.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::mode::{Mode, Strategy};

#[derive(Clone, Debug, thiserror::Error)]
pub enum VfsError {
    #[error(
        "the VFS \"oneflush\" could not be registered: {0}; use the strategy sqlite, for example \
            --modes wal:sqlite"
    )]
    Register(String),
}

/// The URI that opens `path` with the mode's strategy and its options; registers our VFS where it
/// is needed for the first time.
pub fn uri(path: &Path, mode: &Mode) -> Result<String, VfsError> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    match mode.strategy {
        _ if mode.is_lsmvbt() => {
            uri.push_str("?vfs=unix&engine=lsmvbt");
            push_parameters(&mut uri, mode);
        }
        // Named, so that an environment that makes ours the default does not turn the control into
        // the experiment.
        Strategy::Sqlite => uri.push_str("?vfs=unix"),
        Strategy::Oneflush(kind) => {
            register()?;
            uri.push_str(&format!("?vfs={}&strategy={kind}", oneflush_vfs::VFS_NAME));
            push_parameters(&mut uri, mode);
        }
    }
    Ok(uri)
}

fn push_parameters(uri: &mut String, mode: &Mode) {
    for (name, value) in mode.parameters.iter() {
        uri.push_str(&format!("&{name}={value}"));
    }
}

fn register() -> Result<(), VfsError> {
    static REGISTERED: OnceLock<Result<(), VfsError>> = OnceLock::new();
    REGISTERED
        .get_or_init(|| {
            oneflush_vfs::register().map_err(|error| VfsError::Register(error.to_string()))
        })
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_uri_characters_are_escaped() {
        let uri = uri(Path::new("/a b/c?d#e%.db"), &"wal:sqlite".parse().unwrap()).unwrap();
        assert_eq!(uri, "file:/a%20b/c%3Fd%23e%25.db?vfs=unix");
    }

    #[test]
    fn the_other_b_tree_is_an_engine() {
        let uri = uri(Path::new("/a.db"), &"lsmvbt".parse().unwrap()).unwrap();
        assert_eq!(uri, "file:/a.db?vfs=unix&engine=lsmvbt");
    }

    #[test]
    fn options_of_the_strategy_follow_it() {
        let mode = "wal:plain+prealloc=65536+keep_wal=off".parse().unwrap();
        let uri = uri(Path::new("/a.db"), &mode).unwrap();
        assert_eq!(uri, "file:/a.db?vfs=oneflush&strategy=plain&prealloc=65536&keep_wal=off");
    }
}
