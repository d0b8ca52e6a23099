//! What the tests of all crates share.
//!
//! How a test skips itself, how it waits, what its name is, and where data are that are no part of
//! the project. Processes that die with the test. With feature `fuse`, places that do not keep what
//! a database relies on. With feature `house`, which modules of a crate know which, and the texts
//! in them.

#[cfg(feature = "fuse")]
pub mod flawed;
#[cfg(feature = "house")]
pub mod house;
mod named;
#[cfg(feature = "fuse")]
mod own_mounts;
mod running;
mod scenes;
mod waiting;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;

#[doc(hidden)]
pub use named::without_crate;
#[cfg(feature = "fuse")]
pub use own_mounts::in_own_mounts;
pub use running::{Running, copy_program, dies_with_test, run};
pub use scenes::Scenes;
pub use waiting::{slowed, wait_until};

/// A file that [`skip`] appends to: `make test` sets it and shows in its table what is there.
const SKIPPED: &str = "ONEFLUSH_TEST_SKIPPED";

const SEED: &str = "ONEFLUSH_TEST_SEED";

/// Says that the calling test, or a part of it, cannot run here, and why; the test then returns.
///
/// `cargo test` shows nothing of it and counts the test as passed, hence the file.
pub fn skip(reason: impl Display) {
    let reason = reason.to_string().replace(['\n', '\t'], " ");
    eprintln!("skipped: {reason}");
    if let Some(path) = std::env::var_os(SKIPPED) {
        let program = std::env::current_exe().ok();
        let program = program
            .as_deref()
            .and_then(Path::file_name)
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let test = thread::current().name().unwrap_or("?").to_owned();
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .expect("the list of skipped tests");
        // In one write: tests append at the same time.
        file.write_all(format!("{program} {test}\t{reason}\n").as_bytes())
            .expect("the list of skipped tests");
    }
}

/// What random tests draw from. `make test` sets it by the commit, so that each commit draws
/// something else, and a failure repeats.
///
/// Without it, as in `cargo test`, it is always the same.
pub fn seed() -> u64 {
    let Some(text) = std::env::var_os(SEED) else { return 3 };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{SEED}: {text:?} is no number"))
}

/// A file or folder of the data beside the project, which are no part of it (`../shared/data`).
/// `None`: they are not there, and the test skips.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    shared("data", name)
}

/// The same of the small inputs that once failed (`../shared/cases`).
pub fn shared_case(name: &str) -> Option<PathBuf> {
    shared("cases", name)
}

fn shared(folder: &str, name: &str) -> Option<PathBuf> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder).join(name);
    if !path.exists() {
        skip(format_args!("../shared/{folder}/{name} is not beside the project"));
        return None;
    }
    Some(path)
}

/// Whether all of these programs are installed; if not, the test skips.
pub fn has_programs(names: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |name: &&&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let missing = names.iter().find(|name| !is_there(name));
    if let Some(name) = missing {
        skip(format_args!("there is no {name}"));
    }
    missing.is_none()
}

/// The folder of what `make built` leaves, for a test that runs these programs with it: an
/// extension cannot be built inside `cargo test`. `None`: the test skips.
pub fn built(programs: &[&str]) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("ONEFLUSH_BUILT") else {
        skip("ONEFLUSH_BUILT is not set; `make units` sets it to the folder of `make built`");
        return None;
    };
    has_programs(programs).then(|| folder.into())
}
