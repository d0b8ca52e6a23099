//! In the place of `flash.rs` where the feature `flash` is not: no such device can be named.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::PlaceError;
use super::flash_counts::FlashCounts;

const LEFT_OUT: &str = "this build has no emulated devices: `make build-all` has them";

/// There is none.
#[derive(Clone, Copy, Debug)]
pub enum FlashKind {}

impl FlashKind {
    pub fn name(self) -> &'static str {
        match self {}
    }

    pub fn bytes_least(self) -> u64 {
        match self {}
    }
}

impl FromStr for FlashKind {
    type Err = String;

    fn from_str(_: &str) -> Result<FlashKind, String> {
        Err(LEFT_OUT.to_owned())
    }
}

impl fmt::Display for FlashKind {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// There is none.
#[derive(Debug)]
pub enum FlashDevice {}

impl FlashDevice {
    pub(super) fn begin(kind: FlashKind, _: &Path, _: u64) -> Result<FlashDevice, PlaceError> {
        match kind {}
    }

    pub(super) fn open(&self) -> io::Result<File> {
        match *self {}
    }

    pub fn counters(&self) -> PathBuf {
        match *self {}
    }

    pub(super) fn take_away(&mut self) -> Result<(), PlaceError> {
        match *self {}
    }
}

pub fn read_counts(_: &Path) -> io::Result<FlashCounts> {
    Err(io::Error::new(io::ErrorKind::Unsupported, LEFT_OUT))
}

pub fn describe() -> Result<String, String> {
    Err(LEFT_OUT.to_owned())
}

pub fn serve(_: &Path, kind: FlashKind, _: u64, _: &Path) -> Result<(), String> {
    match kind {}
}
