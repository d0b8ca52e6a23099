//! The progress of a run.

use std::fmt;

/// What a run tells while it runs.
pub trait Progress {
    /// Slice `number` of `count` begins; both from 1. `mode` is what is measured.
    fn slice(&mut self, number: u32, count: u32, round: u32, mode: &dyn fmt::Display);
    fn round_done(&mut self, round: u32, rounds: u32);
    /// Of several runs, number `number` of `count` begins; from 1.
    fn part(&mut self, number: u32, count: u32, what: &str);
    fn done(&mut self);
}
