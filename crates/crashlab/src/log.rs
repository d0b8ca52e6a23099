//! What happened on a disk, in order: the operations that change it, with their data, and the marks
//! of its users.
//!
//! A log is all that is needed to make every state that a loss of power could leave
//! (`timeline.rs`). So the log of a failing state is written to a file and replayed alone.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A file, whatever its names are.
pub type Ino = u32;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Op {
    Create {
        name: String,
        ino: Ino,
    },
    Write {
        ino: Ino,
        offset: u64,
        data: Data,
    },
    Truncate {
        ino: Ino,
        size: u64,
    },
    /// These writes become durable, all or none, and with them what was written before.
    Atomic {
        ino: Ino,
        writes: Vec<(u64, Data)>,
    },
    Sync {
        ino: Ino,
        /// The sync covers what stands in the log before this place. It began there, and others
        /// went on meanwhile. `None`: all before the sync.
        #[serde(default)]
        covers: Option<u32>,
        /// With the write before it this is one forced write (FUA). It does not flush what else is
        /// in flight.
        #[serde(default)]
        forced: bool,
    },
    /// The kernel reported an error, and marked the file's dirty sectors clean. Some may have
    /// reached the medium.
    SyncFailed {
        ino: Ino,
        seed: u64,
    },
    Unlink {
        name: String,
    },
    Rename {
        from: String,
        to: String,
    },
    SyncDir {
        dir: String,
    },
    /// This makes nothing durable, and the application knows that.
    SyncDirFailed,
    Mark(Mark),
}

/// What an application knows about its transactions. `file` counts the databases of the case, and
/// `order` the commits in one. `digest` is what the database holds then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// From here on the transaction may be there after a crash.
    Begun { file: usize, order: u32, digest: u64 },
    /// COMMIT has returned. `promised`: the setting makes the commit durable.
    Acknowledged { file: usize, order: u32, digest: u64, promised: bool },
    /// A transaction that was begun was rolled back: it is not there after a crash any more.
    RolledBack { file: usize, order: u32, digest: u64 },
    /// One transaction makes these orders of the databases 0 and 1: both or none.
    Together { orders: [u32; 2] },
}

/// The directory that a name is in.
pub fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// Bytes that many owners share. In a file they are hexadecimal.
#[derive(Clone, Debug)]
pub struct Data(pub Arc<[u8]>);

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Data, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes =
            from_hex(&text).ok_or_else(|| serde::de::Error::custom("data is not hexadecimal"))?;
        Ok(Data(bytes.into()))
    }
}

pub fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_survives_the_way_through_a_file() {
        let op = Op::Write { ino: 3, offset: 24, data: Data((0..=255).collect()) };
        let text = serde_json::to_string(&op).unwrap();
        let Op::Write { data, .. } = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        assert!(data.0.iter().copied().eq(0..=255));
        assert!(serde_json::from_str::<Op>(&text.replace("00", "0x")).is_err());
    }
}
