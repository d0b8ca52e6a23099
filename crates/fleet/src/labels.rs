//! Labels: what somebody says of a trace that the trace does not say itself.
//!
//! `docs/dataset.md` says where they come from and which of them wins.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::FleetError;
use crate::schema::{DAY, DEVICE, FILE_SYSTEM, KERNEL, NULL, TRACES, TRANSACTIONS};

/// A column of the file of labels that is no label: the time of the trace's first event.
const BEGIN: &str = "begin";
const TRACE: &str = "trace";

/// Names and their values, none empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// `device=kiosk-7,build=B`, as it stands on the command line.
    pub fn parse(text: &str) -> Result<Labels, FleetError> {
        let mut labels = Labels::default();
        for pair in text.split(',') {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                FleetError::Label(format!(
                    "{pair:?} is no label; give NAME=VALUE, such as device=kiosk-7"
                ))
            })?;
            labels
                .set(name.trim(), value.trim())
                .map_err(|reason| FleetError::Label(format!("label {name:?}: {reason}")))?;
        }
        Ok(labels)
    }

    /// An empty value is no label.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        check_name(name)?;
        if value == NULL {
            return Err(format!("{NULL} means that there is no value; leave the label out"));
        }
        if value.is_empty() {
            self.0.remove(name);
        } else {
            self.0.insert(name.to_owned(), value.to_owned());
        }
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// `others` win.
    pub fn extend(&mut self, others: &Labels) {
        self.0.extend(others.0.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// The names that make a column of their own.
    pub(crate) fn own(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| !is_filled(name))
    }
}

/// Labels that fill a column that is always there.
fn is_filled(name: &str) -> bool {
    [DEVICE, KERNEL, FILE_SYSTEM].contains(&name)
}

pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|letter| letter.is_ascii_lowercase());
    let is_plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    if !begins || !letters.all(is_plain) {
        return Err("a name has small letters, digits and _, and begins with a letter".to_owned());
    }
    let is_column = TRANSACTIONS.iter().chain(&TRACES).any(|column| column.name == name);
    if (is_column && !is_filled(name)) || name == DAY {
        return Err(format!("{name} is a column of the data set; choose another name"));
    }
    Ok(())
}

/// A table of traces and their labels (`--labels`).
#[derive(Debug)]
pub struct LabelsFile {
    path: PathBuf,
    rows: Vec<Row>,
    /// By the last part of their paths.
    by_name: HashMap<OsString, Vec<usize>>,
}

#[derive(Debug, Default)]
struct Row {
    trace: PathBuf,
    labels: Labels,
    begin: Option<SystemTime>,
}

impl LabelsFile {
    pub fn read(path: &Path) -> Result<LabelsFile, FleetError> {
        let at = |line: Option<u64>, reason: String| FleetError::LabelsFile {
            path: path.to_owned(),
            line,
            reason,
        };
        let csv =
            |error: csv::Error| at(error.position().map(csv::Position::line), error.to_string());
        let mut reader =
            csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).map_err(csv)?;
        let head = reader.headers().map_err(csv)?.clone();
        if !head.iter().any(|name| name == TRACE) {
            let reason = "has no column trace in its first line, such as: trace,device,build";
            return Err(at(Some(1), reason.to_owned()));
        }
        for (place, name) in head.iter().enumerate() {
            if head.iter().take(place).any(|before| before == name) {
                return Err(at(Some(1), format!("column {name:?} stands twice")));
            }
        }
        for name in head.iter().filter(|name| ![TRACE, BEGIN].contains(name)) {
            check_name(name).map_err(|reason| at(Some(1), format!("column {name:?}: {reason}")))?;
        }
        let mut file =
            LabelsFile { path: path.to_owned(), rows: Vec::new(), by_name: HashMap::new() };
        for record in reader.records() {
            let record = record.map_err(csv)?;
            let line = record.position().map(csv::Position::line);
            let mut row = Row::default();
            for (name, value) in head.iter().zip(&record) {
                match name {
                    TRACE => row.trace = PathBuf::from(value),
                    BEGIN if value.is_empty() => {}
                    BEGIN => row.begin = Some(time(value).map_err(|reason| at(line, reason))?),
                    _ => row.labels.set(name, value).map_err(|reason| at(line, reason))?,
                }
            }
            let name = row.trace.file_name().unwrap_or_default().to_owned();
            file.by_name.entry(name).or_default().push(file.rows.len());
            file.rows.push(row);
        }
        Ok(file)
    }

    /// What the file says of a trace: on the line whose path is the end of the trace's, and the
    /// longest of such.
    pub fn of(&self, trace: &Path) -> Result<Option<(&Labels, Option<SystemTime>)>, FleetError> {
        let named = self.by_name.get(trace.file_name().unwrap_or_default());
        let rows = named.into_iter().flatten().map(|number| &self.rows[*number]);
        let mut fitting: Vec<&Row> = rows.filter(|row| trace.ends_with(&row.trace)).collect();
        let length = |row: &&Row| row.trace.components().count();
        fitting.sort_by_key(length);
        match fitting.as_slice() {
            [] => Ok(None),
            [.., one, other] if length(one) == length(other) => Err(FleetError::LabelsFile {
                path: self.path.clone(),
                line: None,
                reason: format!("has several lines for {}", trace.display()),
            }),
            [.., row] => Ok(Some((&row.labels, row.begin))),
        }
    }
}

/// A time as RFC 3339 says it: `2026-11-28T22:44:10Z`, also with fractions of a second.
pub fn time(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339_weak(text)
        .ok()
        .filter(|time| *time >= UNIX_EPOCH)
        .ok_or_else(|| format!("{text:?} is no time in UTC, such as 2026-11-28T22:44:10Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<LabelsFile, FleetError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("labels.csv");
        std::fs::write(&path, text).unwrap();
        LabelsFile::read(&path)
    }

    #[test]
    fn labels_are_names_and_values() {
        let mut labels = Labels::parse("device=kiosk-7, build=B=2,region=").unwrap();
        assert_eq!(labels.get("device"), Some("kiosk-7"));
        assert_eq!(labels.get("build"), Some("B=2"));
        assert_eq!(labels.get("region"), None);
        labels.extend(&Labels::parse("build=C,kernel=6.1").unwrap());
        assert_eq!(labels.get("build"), Some("C"));
        assert_eq!(labels.own().collect::<Vec<_>>(), ["build"]);
    }

    #[test]
    fn a_label_is_no_column_of_the_data_set() {
        for wrong in [
            "device",
            "Build=1",
            "1a=1",
            "=1",
            "day=1",
            "latency_ns=1",
            "sha256=1",
            "a-b=1",
            "device=__HIVE_DEFAULT_PARTITION__",
        ] {
            assert!(Labels::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_says_what_it_knows_of_a_trace() {
        let text = "trace,device,begin,build\n\
                    /a/t.zst,one,2026-11-28T10:00:00Z,\nb/u.zst,two,,B\nv.zst,three,,\n";
        let file = file(text).unwrap();
        let of = |path: &str| file.of(Path::new(path)).unwrap();
        let (labels, begin) = of("/a/t.zst").unwrap();
        assert_eq!((labels.get("device"), labels.get("build")), (Some("one"), None));
        assert_eq!(begin, Some(time("2026-11-28T10:00:00Z").unwrap()));
        assert_eq!(of("/data/b/u.zst").unwrap().0.get("device"), Some("two"));
        // Files of one name are of many devices.
        assert!(of("c/u.zst").is_none() && of("w.zst").is_none());
        assert_eq!(of("anywhere/v.zst").unwrap().0.get("device"), Some("three"));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_said_with_its_line() {
        for (text, said) in [
            ("device,build\na,b\n", "no column trace"),
            ("trace,latency_ns\n", "latency_ns is a column"),
            ("trace,begin\nt,yesterday\n", "line 2: \"yesterday\" is no time"),
            ("trace,device\nt,a,b\n", "line 2"),
            ("trace,device,device\nt,a,b\n", "stands twice"),
        ] {
            let error = file(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let twice = file("trace,device\nt,1\nb/t,2\nt,3\n").unwrap();
        let device = twice.of(Path::new("b/t")).unwrap().unwrap().0.get("device");
        assert_eq!(device, Some("2"));
        assert!(twice.of(Path::new("c/t")).is_err());
    }
}
