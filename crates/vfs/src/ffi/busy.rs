//! A connection's busy handler, as SQLite hands it to a VFS.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::port::BusyHandler;

type Call = unsafe extern "C" fn(*mut c_void) -> c_int;

/// "The first (void *) actually points to a function of type (int (*)(void *)). In order to invoke
/// the connection's busy-handler, this function should be invoked with the second (void *) in the
/// array as the only argument."
pub struct Handler {
    call: Call,
    argument: *mut c_void,
}

// SAFETY: the handler is called by the thread that uses the connection, inside a call of that
// connection.
unsafe impl Send for Handler {}
// SAFETY: as above.
unsafe impl Sync for Handler {}

impl Handler {
    /// # Safety
    /// `pair` is the argument of `SQLITE_FCNTL_BUSYHANDLER`, and the handler is not used after its
    /// file was closed.
    pub unsafe fn new(pair: *mut *mut c_void) -> Arc<Handler> {
        // SAFETY: the first is a function of that type, the second its argument.
        unsafe {
            Arc::new(Handler {
                call: std::mem::transmute::<*mut c_void, Call>(*pair),
                argument: *pair.add(1),
            })
        }
    }
}

impl BusyHandler for Handler {
    /// "If it returns non-zero, then SQLite should retry the operation. If it returns zero, the
    /// custom VFS should abandon the operation."
    fn wait(&self) -> bool {
        // SAFETY: the connection is open, and this is one of its calls.
        unsafe { (self.call)(self.argument) != 0 }
    }
}
