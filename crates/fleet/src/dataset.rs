//! The folder of a data set: its marker, what divides its rows, and the names of its folders.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::FleetError;
use crate::folders::{self, Folders};
use crate::labels;
use crate::schema::{DAY, DEVICE, NULL, VERSION};

const MARKER: &str = "oneflush-dataset.json";
const KIND: &str = "oneflush data set";
/// Files that are not whole yet.
const WRITING: &str = ".writing";
/// Of files there that stay: what a writer is about to do, and whose turn it is.
pub(crate) const PLAN_END: &str = "plan";
pub(crate) const LOCK_END: &str = "lock";
/// What a writer that was killed has left is older than any writer that lives.
const LEFT_AGE_MIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// Of a file or folder, on each of Linux' file systems.
const NAME_BYTES_MAX: usize = 255;

#[derive(Debug)]
pub struct Dataset {
    pub dir: PathBuf,
    /// What divides the rows of `transactions`: labels, and [`DAY`].
    pub by: Vec<String>,
    pub(crate) folders: Folders,
}

#[derive(Serialize, Deserialize)]
struct Marker {
    kind: String,
    version: i64,
    by: Vec<String>,
}

impl Dataset {
    /// Whether the folder says that it is one.
    pub fn is_at(dir: &Path) -> bool {
        dir.join(MARKER).is_file()
    }

    pub fn open(dir: &Path) -> Result<Dataset, FleetError> {
        let path = dir.join(MARKER);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FleetError::NoDataset { path: dir.to_owned() });
            }
            Err(error) => return Err(FleetError::io(path, "reading")(error)),
        };
        let wrong = |reason: String| FleetError::Marker { path: path.clone(), reason };
        let marker: Marker =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if marker.kind != KIND {
            return Err(wrong(format!("kind is {:?}", marker.kind)));
        }
        if marker.version > VERSION {
            return Err(FleetError::Newer { path: dir.to_owned(), version: marker.version });
        }
        check_by(&marker.by).map_err(|error| wrong(error.to_string()))?;
        Ok(Dataset { dir: dir.to_owned(), by: marker.by, folders: Folders::default() })
    }

    /// Opens a data set, or makes one in a new or empty folder. `by`: as the caller wants it, if
    /// that matters to him; else device and day, or what is there.
    pub fn open_or_make(dir: &Path, by: Option<&[String]>) -> Result<Dataset, FleetError> {
        if let Some(by) = by {
            check_by(by)?;
        }
        if !Dataset::is_at(dir) {
            let standard = [DEVICE.to_owned(), DAY.to_owned()];
            make(dir, by.unwrap_or(&standard))?;
        }
        let dataset = Dataset::open(dir)?;
        match by {
            Some(by) if by != dataset.by => Err(FleetError::OtherBy {
                path: dir.to_owned(),
                there: dataset.by.join(","),
                asked: by.join(","),
            }),
            _ => {
                let writing = dataset.writing();
                dataset.folders.make(dir, &writing)?;
                remove_left(&writing);
                Ok(dataset)
            }
        }
    }

    pub(crate) fn writing(&self) -> PathBuf {
        self.dir.join(WRITING)
    }

    pub fn traces(&self) -> PathBuf {
        self.dir.join("traces")
    }

    pub fn transactions(&self) -> PathBuf {
        self.dir.join("transactions")
    }

    /// The folder of the rows with these values, one for each of `by`, below the data set's own.
    pub(crate) fn partition(&self, values: &[Option<String>]) -> Result<String, FleetError> {
        let mut path = "transactions".to_owned();
        for (name, value) in self.by.iter().zip(values) {
            let mut folder = format!("{name}=");
            match value {
                Some(value) => escape(value, &mut folder),
                None => folder.push_str(NULL),
            }
            if folder.len() > NAME_BYTES_MAX {
                return Err(FleetError::Label(format!(
                    "label {name}: its value makes a folder's name of {} bytes, and \
                     {NAME_BYTES_MAX} are allowed; give a shorter one, or divide by something else \
                     with --by",
                    folder.len()
                )));
            }
            path.push('/');
            path.push_str(&folder);
        }
        Ok(path)
    }
}

fn check_by(by: &[String]) -> Result<(), FleetError> {
    if by.is_empty() {
        return Err(FleetError::By(
            "--by: names no column; give for example device,day".to_owned(),
        ));
    }
    for (number, name) in by.iter().enumerate() {
        if by[..number].contains(name) {
            return Err(FleetError::By(format!("--by: {name} stands twice")));
        }
        if name != DAY {
            labels::check_name(name)
                .map_err(|reason| FleetError::By(format!("--by {name}: {reason}")))?;
        }
    }
    Ok(())
}

/// Of two who make the same data set, one is first. Both then read what is there. Where there is a
/// marker, the folder's own name is durable.
fn make(dir: &Path, by: &[String]) -> Result<(), FleetError> {
    folders::make(dir)?;
    let mut entries = fs::read_dir(dir).map_err(FleetError::io(dir, "reading"))?;
    let is_other = |name: &str| !name.starts_with('.') && name != MARKER;
    if entries.any(|entry| entry.is_ok_and(|entry| is_other(&entry.file_name().to_string_lossy())))
        && !Dataset::is_at(dir)
    {
        return Err(FleetError::NotADataset { path: dir.to_owned() });
    }
    let marker = Marker { kind: KIND.to_owned(), version: VERSION, by: by.to_vec() };
    let text = serde_json::to_string_pretty(&marker).expect("texts and numbers are JSON") + "\n";
    let path = dir.join(MARKER);
    let write = || -> io::Result<()> {
        let mut file = readable(tempfile::Builder::new().prefix(".oneflush-"), dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(&path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
            // Its name is durable once that of the folder for unfinished files is.
            _ => Ok(()),
        }
    };
    write().map_err(FleetError::io(&path, "writing"))
}

/// A file for others to read, as far as the umask lets them.
pub(crate) fn readable(
    builder: &mut tempfile::Builder<'_, '_>,
    dir: &Path,
) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(fs::Permissions::from_mode(0o666)).tempfile_in(dir)
}

/// Nobody is harmed where that fails.
fn remove_left(writing: &Path) {
    let Ok(entries) = fs::read_dir(writing) else { return };
    for entry in entries.flatten() {
        // A plan tells the next writer what to mend. A lock's file is the same one for all.
        if entry.path().extension().is_some_and(|end| end == PLAN_END || end == LOCK_END) {
            continue;
        }
        let changed = entry.metadata().and_then(|file| file.modified());
        let age = changed.map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
        if age.is_ok_and(|age| age > LEFT_AGE_MIN) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// As Hive and Spark write a value into a folder's name. Other characters stay as they are.
fn escape(value: &str, out: &mut String) {
    for character in value.chars() {
        if character.is_ascii_control() || "\"#%'*/:=?\\{[]^".contains(character) {
            out.push_str(&format!("%{:02X}", character as u32));
        } else {
            out.push(character);
        }
    }
}

/// `NAME=VALUE` of a folder: the name and the value, none for null. `None`: no such folder.
pub(crate) fn folder(name: &str) -> Option<(&str, Option<String>)> {
    let (key, value) = name.split_once('=')?;
    if value == NULL {
        return Some((key, None));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = hex.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    Some((key, Some(String::from_utf8_lossy(&bytes).into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(by: &[&str]) -> Dataset {
        let by = by.iter().map(ToString::to_string).collect();
        Dataset { dir: PathBuf::new(), by, folders: Folders::default() }
    }

    #[test]
    fn a_value_comes_back_from_its_folder() {
        for value in ["kiosk-7", "a/b=c%2", "..", "é ü", "x:y\n", "%41"] {
            let path = dataset(&["device"]).partition(&[Some(value.to_owned())]).unwrap();
            let last = path.strip_prefix("transactions/").unwrap();
            assert!(!last.contains('/'), "{path}");
            assert_eq!(folder(last), Some(("device", Some(value.to_owned()))), "{path}");
        }
        let values = [None, Some("2026-11-28".to_owned())];
        let path = dataset(&["device", "day"]).partition(&values).unwrap();
        assert!(dataset(&["device"]).partition(&[Some("/".repeat(100))]).is_err());
        assert_eq!(path, format!("transactions/device={NULL}/day=2026-11-28"));
        assert_eq!(folder("device=__HIVE_DEFAULT_PARTITION__"), Some(("device", None)));
        assert_eq!(folder("plain"), None);
    }

    #[test]
    fn the_first_who_makes_it_decides_what_divides_it() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("fleet");
        let by = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let made = Dataset::open_or_make(&dir, Some(&by(&["region"]))).unwrap();
        assert_eq!(Dataset::open_or_make(&dir, None).unwrap().by, made.by);
        let other = Dataset::open_or_make(&dir, Some(&by(&["device", "day"]))).unwrap_err();
        assert!(other.to_string().contains("give --by region"), "{other}");
        for wrong in [&["latency_ns"][..], &["Region"], &["day", "day"], &[]] {
            let error = Dataset::open_or_make(&dir, Some(&by(wrong))).unwrap_err();
            assert!(error.to_string().contains("--by"), "{error}");
        }
    }

    #[test]
    fn a_folder_of_other_things_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
        let error = Dataset::open_or_make(folder.path(), None).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_newer_data_set_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let marker = r#"{"kind": "oneflush data set", "version": 2, "by": ["device"]}"#;
        fs::write(folder.path().join(MARKER), marker).unwrap();
        let error = Dataset::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("version 2") && error.contains("newer oneflush"), "{error}");
    }
}
