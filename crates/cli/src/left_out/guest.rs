//! In the place of `bench/guest.rs`.

use std::str::FromStr;

use clap::Args;
use oneflush_bench::report::Report;

use super::Options;
use crate::{Failure, left_out};

pub const SUBCOMMAND: &str = "__guest";

/// There is none.
#[derive(Clone, Copy)]
pub enum GuestFs {}

impl FromStr for GuestFs {
    type Err = String;

    fn from_str(_: &str) -> Result<GuestFs, String> {
        Err(left_out::message("guests"))
    }
}

pub type GuestArch = GuestFs;

#[derive(Args)]
pub struct Inside {}

pub fn inside(_: &Inside) -> Result<(), Failure> {
    Err(Failure::usage(left_out::message("guests")))
}

pub fn main(_: &[GuestFs], _: &Options) -> Result<Report, Failure> {
    Err(Failure::usage(left_out::message("guests")))
}
