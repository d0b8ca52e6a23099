//! Labels: what the owner of a device says of it, for whoever reads the recordings of many devices.
//!
//! ```text
//! # Which device this is.
//! device=kiosk-7
//! build=2026.11-B
//! ```
//!
//! A name is `[a-z][a-z0-9_]*`. Whatever stands behind the first `=` is the value. Blanks around
//! both do not count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a reader keeps ([`crate::import::Facts`]).
const LABELS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum LabelsError {
    #[error("--labels {}: cannot be read: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },

    #[error("--labels {}, line {line}: {reason}", file.display())]
    Line { file: PathBuf, line: usize, reason: String },
}

/// In the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    file: Option<PathBuf>,
    all: Vec<(String, String)>,
}

impl Labels {
    pub fn read(file: &Path) -> Result<Labels, LabelsError> {
        let text = fs::read_to_string(file)
            .map_err(|source| LabelsError::Read { file: file.to_owned(), source })?;
        let mut all: Vec<(String, String)> = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let wrong = |reason| LabelsError::Line { file: file.to_owned(), line: n + 1, reason };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = label(line).map_err(wrong)?;
            if all.iter().any(|(known, _)| *known == name) {
                return Err(wrong(format!("{name} stands above already; give it once")));
            }
            if all.len() == LABELS_MAX {
                return Err(wrong(format!("more than {LABELS_MAX} labels; leave some out")));
            }
            all.push((name, value));
        }
        Ok(Labels { file: Some(file.to_owned()), all })
    }

    /// Reads the file again. After an error the labels are what they were.
    pub(super) fn refresh(&mut self) -> Result<(), LabelsError> {
        if let Some(file) = &self.file {
            *self = Labels::read(file)?;
        }
        Ok(())
    }

    pub(super) fn all(&self) -> &[(String, String)] {
        &self.all
    }
}

fn label(line: &str) -> Result<(String, String), String> {
    let (name, value) = line
        .split_once('=')
        .ok_or_else(|| format!("{line:?} is no label; write NAME=VALUE, or # before a comment"))?;
    let (name, value) = (name.trim_end(), value.trim_start());
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.bytes().all(is_part) {
        return Err(format!(
            "{name:?} is no name of a label; it has small letters, digits and _, and begins with \
                a letter"
        ));
    }
    for (what, text) in [("name", name), ("value", value)] {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("the {what} is longer than {TEXT_BYTES_MAX} bytes; shorten it"));
        }
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("labels");
        fs::write(&file, text).unwrap();
        Labels::read(&file).map(|labels| labels.all).map_err(|error| error.to_string())
    }

    #[test]
    fn comments_and_empty_lines_are_passed_over_and_a_value_may_hold_anything() {
        let text = "# the device\n\n device = kiosk 7 \nbuild=a=b #1\nempty=\n";
        let expected = [("device", "kiosk 7"), ("build", "a=b #1"), ("empty", "")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(text).unwrap(), expected);
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn an_error_names_the_file_the_line_and_the_way_out() {
        for (text, words) in [
            ("a=1\nb", ["line 2", "write NAME=VALUE"]),
            ("Device=1", ["line 1", "small letters"]),
            ("7a=1", ["line 1", "begins with a letter"]),
            ("=1", ["line 1", "begins with a letter"]),
            ("a b=1", ["line 1", "small letters"]),
            ("a=1\n\na=2", ["line 3", "give it once"]),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("--labels /"), "{error}");
            assert!(words.iter().all(|word| error.contains(word)), "{words:?} in {error}");
        }
        let many: Vec<String> = (0..=LABELS_MAX).map(|n| format!("a{n}=1")).collect();
        assert!(read(&many.join("\n")).unwrap_err().contains("more than 64"));
        assert!(read(&format!("a={}", "x".repeat(257))).unwrap_err().contains("shorten it"));
        let error = Labels::read(Path::new("/nowhere/labels")).unwrap_err().to_string();
        assert!(error.contains("--labels /nowhere/labels: cannot be read"), "{error}");
    }

    #[test]
    fn after_an_error_the_labels_are_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("labels");
        fs::write(&file, "a=1").unwrap();
        let mut labels = Labels::read(&file).unwrap();
        fs::write(&file, "a=2").unwrap();
        labels.refresh().unwrap();
        assert_eq!(labels.all(), [("a".to_owned(), "2".to_owned())]);
        fs::write(&file, "A=3").unwrap();
        assert!(labels.refresh().is_err());
        assert_eq!(labels.all(), [("a".to_owned(), "2".to_owned())]);
        assert!(Labels::default().refresh().is_ok());
    }
}
