//! Work that may wait for the kernel, aside from those who answer it.
//!
//! Fetching what the kernel has cached of a file waits until the kernel's own writes are answered.
//! If all who answer did that at once, nobody would. So one thread does it, after another.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

type Work = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub struct Aside {
    sender: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Aside {
    pub fn start(name: &str) -> io::Result<Aside> {
        let (sender, receiver) = channel::<Work>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            for work in receiver {
                // `Served::watch` has stopped a panic already. The next one is served.
                let _ = catch_unwind(AssertUnwindSafe(work));
            }
        })?;
        Ok(Aside { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// After the end nothing is done any more: who asked is gone.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) {
        if let Some(sender) = &*self.sender.lock() {
            // The thread ends only when there is no sender.
            let _ = sender.send(Box::new(work));
        }
    }

    /// Does what was asked for until now, and ends.
    pub fn end(&self) {
        drop(self.sender.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // A panic was shown when it happened.
            let _ = thread.join();
        }
    }
}
