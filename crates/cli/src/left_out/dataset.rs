//! In the places of `identify/dataset.rs` and `report/dataset.rs`.

use std::path::Path;

use super::message;
use crate::failure::Failure;

pub fn main<Options>(_: &Options, _: &Path) -> Result<(), Failure> {
    Err(Failure::usage(message("data sets")))
}
