//! In the places of `identify/dataset.rs` and `report/dataset.rs`.

use std::path::Path;

use super::Options;
use crate::{Failure, left_out};

pub fn main(_: &Options, _: &Path) -> Result<(), Failure> {
    Err(Failure::usage(left_out::message("data sets")))
}
