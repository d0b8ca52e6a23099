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
}

impl Source {
    /// Reads the whole trace once. `parts`: the files that are one trace with `path`; none if it
    /// is alone.
    pub fn of(path: &Path, parts: &[PathBuf]) -> Result<Source, FleetError> {
        let alone = [path.to_owned()];
        let parts = if parts.is_empty() { &alone[..] } else { parts };
        let mut hash = Sha256::new();
        let mut bytes = 0;
        for part in parts {
            let read = File::open(part).and_then(|file| feed(file, &mut hash));
            bytes += read.map_err(FleetError::io(part, "reading"))?;
        }
        let sha256 = super::hex(&hash.finalize());
        Ok(Source { name: path.display().to_string(), sha256, bytes })
    }
}

fn feed(mut file: File, hash: &mut Sha256) -> io::Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
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
