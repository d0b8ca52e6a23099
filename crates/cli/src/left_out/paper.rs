//! In the place of `bench/paper.rs`.

use super::asked::Asked;
use super::options::Options;
use crate::failure::Failure;

pub fn main(asked: Asked, _: &Options) -> Result<(), Failure> {
    match asked {}
}
