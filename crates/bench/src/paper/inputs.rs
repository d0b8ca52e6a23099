//! What others recorded and a user has: a folder with recordings of apps and phones. Nothing of it
//! is part of this project.
//!
//! ```text
//! DIR/mobigen/facebook.mobigen   file operations, one a line
//! DIR/sql/facebook/              loading.sql, 0.sql, 1.sql: the statements of an app
//! DIR/traces/…                   traces of block I/O, in each form that `oneflush identify` reads
//! ```

use std::path::{Path, PathBuf};

use oneflush_measure::workload::{FileTrace, Replay};

#[derive(Clone, Debug)]
pub struct Inputs {
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "{}: {reason}; it is a folder with mobigen/NAME.mobigen, sql/NAME/loading.sql and traces/NAME, \
        as far as there are some", directory.display()
)]
pub struct InputsError {
    directory: PathBuf,
    reason: String,
}

const PARTS: [&str; 3] = ["mobigen", "sql", "traces"];

impl Inputs {
    pub fn open(directory: &Path) -> Result<Inputs, InputsError> {
        let error = |reason| InputsError { directory: directory.to_owned(), reason };
        let metadata = std::fs::metadata(directory).map_err(|reason| error(reason.to_string()))?;
        if !metadata.is_dir() {
            return Err(error("not a directory".to_owned()));
        }
        if !PARTS.iter().any(|part| directory.join(part).is_dir()) {
            return Err(error("none of mobigen, sql and traces is in it".to_owned()));
        }
        Ok(Inputs { directory: directory.to_owned() })
    }

    fn path(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.directory.join(name);
        let is_there = path.exists();
        is_there
            .then_some(path)
            .ok_or_else(|| format!("there is no {name} in the folder of inputs"))
    }
}

/// Of an input that is not there, or of a folder that was not given: why.
fn find(inputs: Option<&Inputs>, name: &str) -> Result<PathBuf, String> {
    let none = || format!("it needs DIR/{name}, a recording of others: --inputs DIR");
    inputs.ok_or_else(none)?.path(name)
}

pub fn file_trace(inputs: Option<&Inputs>, name: &str) -> Result<FileTrace, String> {
    let path = find(inputs, &format!("mobigen/{name}.mobigen"))?;
    FileTrace::open(&path, 0.0).map_err(|error| error.to_string())
}

pub fn sql(inputs: Option<&Inputs>, name: &str) -> Result<Replay, String> {
    let path = find(inputs, &format!("sql/{name}"))?;
    // One after the other, so that two runs do the same.
    Replay::open(&path, true).map_err(|error| error.to_string())
}

pub fn trace(inputs: Option<&Inputs>, name: &str) -> Result<PathBuf, String> {
    find(inputs, &format!("traces/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let text = Inputs::open(folder.path()).unwrap_err().to_string();
        assert!(text.contains("none of mobigen") && text.contains("NAME.mobigen"), "{text}");
        let text = Inputs::open(&folder.path().join("x")).unwrap_err().to_string();
        assert!(text.contains("No such file"), "{text}");
        std::fs::create_dir(folder.path().join("mobigen")).unwrap();
        let inputs = Inputs::open(folder.path()).unwrap();
        let text = file_trace(Some(&inputs), "gmail").unwrap_err();
        assert_eq!(text, "there is no mobigen/gmail.mobigen in the folder of inputs");
        let text = sql(None, "facebook").unwrap_err();
        assert!(text.contains("DIR/sql/facebook") && text.contains("--inputs DIR"), "{text}");
        std::fs::write(folder.path().join("mobigen/bad.mobigen"), "no trace").unwrap();
        let text = file_trace(Some(&inputs), "bad").unwrap_err();
        assert!(text.contains("bad.mobigen, line 1"), "{text}");
    }
}
