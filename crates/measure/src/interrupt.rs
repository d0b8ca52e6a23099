//! Ctrl-C: the first one asks, the second one ends.
//!
//! A signal handler may do next to nothing. So the first SIGINT, SIGTERM or SIGHUP only sets a
//! flag. A long loop polls the flag with [`requested`] and returns early. Every scratch place,
//! trace and temporary file goes away in the ordinary `Drop`s.
//!
//! The second signal ends the process at once, as if there were no handler. What the process leaves
//! is taken away by the kernel (mount namespace, loop device) and by the guard process of
//! [`crate::place`].

use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the handlers; later calls do nothing. Call it before the first thread is started.
pub fn install() -> io::Result<()> {
    if REQUESTED.get().is_some() {
        return Ok(());
    }
    let flag = Arc::clone(REQUESTED.get_or_init(Arc::default));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Handlers run in the order they were registered: the flag is still unset for the first
        // signal.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(())
}

/// Whether the user asked to stop. False as long as [`install`] was not called.
pub fn requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}
