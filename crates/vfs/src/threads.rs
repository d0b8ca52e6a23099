//! The threads that this library starts, in a process that is somebody else's.
//!
//! Invariant, cited in tests: a thread of ours takes no signal that is sent to the process. A program that blocks a signal in its own threads
//! guards a section against its handler by that; one more thread with the signal open would run the handler all the same.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::ffi;

/// Starts a thread of ours, the only way to do so.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    ffi::with_signals_blocked(|| Builder::new().name(name.to_owned()).spawn(body))
}
