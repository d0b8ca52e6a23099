//! Takes the events out of the kernel's buffers at the end of a slice, and before that when a
//! buffer fills.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use oneflush_trace::kernel::attribute::Event;
use oneflush_trace::kernel::{Buffers, Decoder, KernelError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::ObserveError;

/// A thread that sleeps in poll(2) until a buffer is full enough or the slice is over.
#[derive(Debug)]
pub(super) struct Drain {
    /// Closed: the slice is over.
    go_on: Option<io::PipeWriter>,
    thread: Option<JoinHandle<io::Result<Vec<Event>>>>,
}

impl Drain {
    pub(super) fn start(buffers: Buffers, decoder: Decoder) -> Result<Drain, ObserveError> {
        let (over, go_on) = io::pipe().map_err(failed)?;
        let thread = thread::Builder::new()
            .name("observe".to_owned())
            .spawn(move || run(buffers, &over.into(), &decoder))
            .map_err(failed)?;
        Ok(Drain { go_on: Some(go_on), thread: Some(thread) })
    }

    /// Call it after recording was switched off.
    pub(super) fn finish(mut self) -> Result<Vec<Event>, ObserveError> {
        Ok(self.join().map_err(failed)?)
    }

    fn join(&mut self) -> io::Result<Vec<Event>> {
        self.go_on = None;
        match self.thread.take() {
            Some(thread) => thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the reading thread panicked"))),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // An instance cannot be removed while the thread has its files open. The events are not
        // wanted.
        let _ = self.join();
    }
}

fn failed(reason: io::Error) -> KernelError {
    KernelError::Read { path: PathBuf::from("trace_pipe_raw"), reason }
}

fn run(mut buffers: Buffers, over: &OwnedFd, decoder: &Decoder) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    loop {
        let is_over = {
            let mut waits = vec![PollFd::new(over, PollFlags::IN)];
            waits.extend(buffers.files().map(|file| PollFd::new(file, PollFlags::IN)));
            match poll(&mut waits, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            !waits[0].revents().is_empty()
        };
        buffers.read(|_, time_ns, record| events.extend(decoder.decode(time_ns, record)))?;
        if is_over {
            return Ok(events);
        }
    }
}
