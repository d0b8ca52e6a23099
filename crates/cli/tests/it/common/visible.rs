//! What a reader sees of a data set.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// All files that are not hidden, below the folder, with what is in them.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => {
                    let name = path.strip_prefix(dir).unwrap().display().to_string();
                    found.insert(name, fs::read(path).unwrap());
                }
            }
        }
    }
    found
}
