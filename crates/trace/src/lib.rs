//! Finds the individual SQLite transactions in a trace of what reached a block device.
//!
//! [`import`] reads traces of many tools into one event model ([`model`]); [`identify`] finds the transactions in the events;
//! [`report`] says what they cost over whole traces.

pub mod identify;
pub mod import;
pub mod model;
pub mod report;
