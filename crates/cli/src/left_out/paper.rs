//! In the place of `bench/paper.rs`.

use std::str::FromStr;

use super::Options;
use crate::{Failure, left_out};

/// There is none.
#[derive(Clone, Copy)]
pub enum Asked {}

impl FromStr for Asked {
    type Err = String;

    fn from_str(_: &str) -> Result<Asked, String> {
        Err(left_out::message("papers"))
    }
}

pub fn main(asked: Asked, _: &Options) -> Result<(), Failure> {
    match asked {}
}
