//! The house: which folder of `crates/vfs/src` may know which (ARCHITECTURE.md), as read from the
//! imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders that know no strategy and no raw call may import these modules of the crate.
const ENGINE: [&str; 13] = [
    "config",
    "engine",
    "error",
    "futex",
    "kill_point",
    "port",
    "role",
    "stats",
    "super_journal",
    "sync",
    "threads",
    "wal_file",
    "test_wal",
];
const PORT: [&str; 1] = ["error"];

struct Import {
    file: PathBuf,
    line: usize,
    from: String,
    to: String,
}

/// The folder of a file. Each strategy has a folder of its own. A file of the crate's root counts
/// as a folder.
fn folder(file: &Path) -> String {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy().replace(".rs", "")).collect();
    match parts.as_slice() {
        [first, second, _, ..] if first == "strategy" => format!("strategy::{second}"),
        [first, ..] => first.clone(),
        [] => String::new(),
    }
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Every `crate::NAME` outside of comments and of code for tests only.
fn imports() -> Vec<Import> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for path in sources(&root) {
        let file = path.strip_prefix(&root).unwrap().to_owned();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if name.ends_with("tests") || name.starts_with("test_") || name == "model" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
        let code = code.split("#[cfg(all(test").next().unwrap();
        for (at, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap();
            for part in line.split("crate::").skip(1) {
                let to: String = part.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
                let mut to = to.trim_end_matches(':').split("::");
                let first = to.next().unwrap_or_default();
                let is_folder = |second: &str| root.join(first).join(second).is_dir();
                let to = match to.next() {
                    Some(second) if first == "strategy" && is_folder(second) => format!("strategy::{second}"),
                    _ => first.to_owned(),
                };
                found.push(Import { file: file.clone(), line: at + 1, from: folder(&file), to });
            }
        }
    }
    assert!(found.len() > 200, "the sources were read");
    found
}

#[test]
fn engine_and_port_know_nothing_above_them() {
    let mut wrong = Vec::new();
    for import in imports() {
        let allowed: &[&str] = match import.from.as_str() {
            "engine" => &ENGINE,
            "port" => &PORT,
            // They know each other only by the engine and the port.
            "strategy::plain" | "strategy::eager" => {
                if import.to.starts_with("strategy::") && import.to != import.from {
                    wrong.push(format!("{}:{} imports {}", import.file.display(), import.line, import.to));
                }
                continue;
            }
            _ => continue,
        };
        if !allowed.contains(&import.to.as_str()) {
            wrong.push(format!("{}:{} imports {}", import.file.display(), import.line, import.to));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Between folders; a strategy's folder is a part of `strategy`.
#[test]
fn no_folder_knows_one_that_knows_it() {
    let mut known: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let is_folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name).is_dir();
    let top = |name: &str| name.split("::").next().unwrap().to_owned();
    for import in imports() {
        let (from, to) = (top(&import.from), top(&import.to));
        if from != to && is_folder(&from) && is_folder(&to) {
            let place = format!("{}:{}", import.file.display(), import.line);
            known.entry(from).or_default().entry(to).or_insert(place);
        }
    }
    fn reaches(
        known: &BTreeMap<String, BTreeMap<String, String>>,
        from: &str,
        to: &str,
        seen: &mut BTreeSet<String>,
    ) -> bool {
        known.get(from).is_some_and(|next| {
            next.keys().any(|next| next == to || (seen.insert(next.clone()) && reaches(known, next, to, seen)))
        })
    }
    for (from, next) in &known {
        for (to, place) in next {
            let circle = reaches(&known, to, from, &mut BTreeSet::new());
            assert!(!circle, "{place}: {from} imports {to}, which comes to know {from} again");
        }
    }
}
