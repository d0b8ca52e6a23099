//! The house: which folder of `crates/vfs/src` may know which (ARCHITECTURE.md), as read from the
//! imports.

use std::path::{Path, PathBuf};

use oneflush_testing::house::{self, Import};

/// What may be imported of this crate by the folders that know no strategy and no raw call.
const ENGINE: [&str; 12] = [
    "config",
    "error",
    "futex",
    "kill_point",
    "mutant",
    "port",
    "role",
    "stats",
    "super_journal",
    "sync",
    "threads",
    "wal_file",
];
const PORT: [&str; 1] = ["error"];
/// It asks the kernel, and knows nothing of what this process does with the database.
const WHO: [&str; 3] = ["lock_bytes", "names", "path"];
/// What strategies share that have a log.
const SHARED: [&str; 2] = ["strategy::board", "strategy::log_life"];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn imports() -> Vec<Import> {
    let found = house::imports(&src());
    assert!(found.len() > 200, "the sources were read");
    found
}

/// The folder that a module or an item is of, or the file of the crate's root. Those of the
/// strategies are folders of their own.
fn folder(path: &[String]) -> String {
    match path {
        [first, second, ..] if first == "strategy" && src().join(first).join(second).is_dir() => {
            format!("strategy::{second}")
        }
        [first, ..] => first.clone(),
        [] => String::new(),
    }
}

#[test]
fn engine_port_and_who_know_nothing_above_them() {
    let mut wrong = Vec::new();
    for import in imports() {
        let (from, to) = (folder(&import.from), folder(&import.to));
        let may = match from.as_str() {
            _ if from == to => true,
            "engine" => ENGINE.contains(&to.as_str()),
            "port" => PORT.contains(&to.as_str()),
            "who" => WHO.contains(&to.as_str()),
            // The strategies do not know each other, and what they share knows none of them.
            "strategy::plain" | "strategy::eager" | "strategy::waldio" => {
                !to.starts_with("strategy::") || SHARED.contains(&to.as_str())
            }
            shared if SHARED.contains(&shared) => {
                !to.starts_with("strategy::") || SHARED.contains(&to.as_str())
            }
            _ => true,
        };
        if !may {
            wrong.push(import.to_string());
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Between folders; a strategy's folder is a part of `strategy`.
#[test]
fn no_folder_knows_one_that_knows_it() {
    let folder = |path: &[String]| path.first().filter(|first| src().join(first).is_dir()).cloned();
    if let Some(circle) = house::circle(&imports(), folder) {
        panic!("a circle; move what they share below both:\n{circle}");
    }
}
