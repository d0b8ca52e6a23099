//! The threads that this library starts in a process that belongs to somebody else.
//!
//! Invariant, cited in tests: such a thread takes no signal that is sent to the process. A program
//! may block a signal in its own threads to guard a section against its handler. One more thread
//! with the signal open would run the handler all the same.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::ffi;

/// Starts a thread of this library. There is no other way to do so.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    ffi::with_signals_blocked(|| Builder::new().name(name.to_owned()).spawn(body))
}
