//! `oneflush __worker`: one connection of a run, as a process of its own.

use oneflush_measure::run::process;

use crate::failure::Failure;

pub fn main() -> Result<(), Failure> {
    process::serve().map_err(Failure::failed)
}
