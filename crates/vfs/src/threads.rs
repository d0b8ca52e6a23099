//! The threads that this library starts in a process that belongs to somebody else.
//!
//! Invariant, cited in tests: such a thread takes no signal that is sent to the process. A program
//! may block a signal in its own threads to guard a section against its handler. One more thread
//! with the signal open would run the handler all the same.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

use oneflush_blocklog::messages;

use crate::ffi;

/// Starts a thread of this library. There is no other way to do so. If it panics, that is told, and
/// `panicked` sees to what it has left.
pub fn spawn(
    name: &'static str,
    panicked: impl FnOnce() + Send + 'static,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let body = move || {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            messages::thread_has_panicked(name);
            panicked();
        }
    };
    ffi::with_signals_blocked(|| Builder::new().name(name.to_owned()).spawn(body))
}
