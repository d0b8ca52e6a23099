//! What the kernel says of a block device.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

/// `/sys/block/NAME`: a disk or loop device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    pub name: String,
    pub model: String,
    /// Only for a loop device: whether it uses direct I/O on its backing file.
    pub loop_direct_io: Option<bool>,
    /// "write back" (a flush does something) or "write through".
    pub write_cache: String,
    pub fua: bool,
    pub rotational: bool,
    pub logical_block_bytes: u32,
    pub physical_block_bytes: u32,
    pub scheduler: String,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if !self.model.is_empty() {
            write!(f, " ({})", self.model)?;
        }
        match self.loop_direct_io {
            Some(true) => write!(f, ", direct I/O")?,
            Some(false) => write!(f, ", buffered")?,
            None => write!(f, ", {}", if self.rotational { "rotating" } else { "not rotating" })?,
        }
        if !self.write_cache.is_empty() {
            write!(f, ", {}{}", self.write_cache, if self.fua { " + FUA" } else { ", no FUA" })?;
        }
        write!(f, ", {} B sectors", self.logical_block_bytes)
    }
}

pub(crate) fn device(name: &str) -> DeviceInfo {
    let read = |file: &str| {
        fs::read_to_string(format!("/sys/block/{name}/{file}"))
            .map(|text| text.trim().to_owned())
            .ok()
    };
    let number = |file: &str| read(file).and_then(|text| text.parse().ok()).unwrap_or(0);
    let scheduler = read("queue/scheduler").unwrap_or_default();
    DeviceInfo {
        name: name.to_owned(),
        model: read("device/model").or_else(|| read("device/name")).unwrap_or_default(),
        loop_direct_io: read("loop/dio").map(|text| text == "1"),
        write_cache: read("queue/write_cache").unwrap_or_default(),
        fua: number("queue/fua") != 0,
        rotational: number("queue/rotational") != 0,
        logical_block_bytes: number("queue/logical_block_size"),
        physical_block_bytes: number("queue/physical_block_size"),
        // "mq-deadline kyber [none]": the one in brackets is in use.
        scheduler: scheduler
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
            .map_or(scheduler.clone(), |(chosen, _)| chosen.to_owned()),
    }
}
