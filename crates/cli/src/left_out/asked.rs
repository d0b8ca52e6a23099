//! In the place of `bench/asked.rs`.

use std::str::FromStr;

use crate::left_out;

/// There is none.
#[derive(Clone, Copy)]
pub enum Asked {}

impl FromStr for Asked {
    type Err = String;

    fn from_str(_: &str) -> Result<Asked, String> {
        Err(left_out::message("papers"))
    }
}
