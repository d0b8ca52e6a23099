//! The file that a trace is in: its name and its hash.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::FleetError;

#[derive(Clone, Debug)]
pub struct Source {
    /// As it was given.
    pub name: String,
    /// Hexadecimal.
    pub sha256: String,
    pub bytes: u64,
    parts: Vec<PathBuf>,
}

impl Source {
    /// Reads the whole trace once. `parts`: the files that are one trace with `path`; none if it
    /// is alone. `goes_on`: false ends it with an error.
    pub fn of(
        path: &Path,
        parts: &[PathBuf],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Source, FleetError> {
        let parts = if parts.is_empty() { vec![path.to_owned()] } else { parts.to_vec() };
        let mut hash = Sha256::new();
        let mut bytes = 0;
        for part in &parts {
            let read = open(part).and_then(|file| feed(file, &mut hash, goes_on));
            bytes += read.map_err(FleetError::io(part, "reading"))?;
        }
        let sha256 = super::hex(&hash.finalize());
        Ok(Source { name: path.display().to_string(), sha256, bytes, parts })
    }

    /// Another length than when it was hashed.
    pub fn has_changed(&self) -> bool {
        let length = |part: &PathBuf| part.metadata().map_or(0, |file| file.len());
        self.parts.iter().map(length).sum::<u64>() != self.bytes
    }
}

/// A pipe has nothing when it is read again.
fn open(path: &Path) -> io::Result<File> {
    let is_other = |file: std::fs::Metadata| !file.is_file();
    if path.metadata().is_ok_and(is_other) {
        let reason = "it is no file, and a trace is read twice; write it to a file first";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    File::open(path)
}

fn feed(mut file: File, hash: &mut Sha256, goes_on: &dyn Fn() -> bool) -> io::Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        if !goes_on() {
            return Err(io::Error::other("stopped by a signal"));
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(bytes),
            Ok(n) => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
