//! In the place of `bench/guest.rs`.

use std::str::FromStr;

use clap::Args;
use oneflush_bench::report::Report;
use oneflush_measure::run::Plan;

use crate::failure::Failure;
use crate::left_out;

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

pub fn main(
    _: &[GuestFs],
    _: Option<GuestArch>,
    _: Plan,
    _: Option<u32>,
) -> Result<Report, Failure> {
    Err(Failure::usage(left_out::message("guests")))
}
