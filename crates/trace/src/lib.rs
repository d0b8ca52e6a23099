//! Finds the single SQLite transactions in a trace of what reached a block device.
//!
//! | module | does |
//! |---|---|
//! | [`record`] | makes a trace out of what the kernel tells ([`kernel`]) |
//! | [`import`] | reads traces of many tools into one event model ([`model`]) |
//! | [`identify`] | finds the transactions in the events |
//! | [`report`] | says what the transactions cost over whole traces |
//! | [`live`] | does all of this at once, and keeps figures of the last seconds |

pub mod advise;
mod escape;
pub mod identify;
pub mod import;
pub mod kernel;
pub mod live;
pub mod model;
pub mod record;
pub mod report;
pub mod utc;
