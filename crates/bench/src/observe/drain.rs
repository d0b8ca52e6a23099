//! Takes the events out of the kernel's buffers: at the end of a slice, and before when a buffer fills.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::ObserveError;
use super::attribute::Event;
use super::decode::Decoder;
use super::ring;

/// A thread that sleeps in poll(2) until a buffer is full enough or the slice is over.
#[derive(Debug)]
pub(super) struct Drain {
    /// Closed: the slice is over.
    go_on: Option<io::PipeWriter>,
    thread: Option<JoinHandle<io::Result<Vec<Event>>>>,
}

impl Drain {
    pub(super) fn start(pipes: Vec<File>, sub_buffer_bytes: usize, decoder: Decoder) -> Result<Drain, ObserveError> {
        let failed = |reason| ObserveError::Read { path: PathBuf::from("trace_pipe_raw"), reason };
        let (over, go_on) = io::pipe().map_err(failed)?;
        let thread = thread::Builder::new()
            .name("observe".to_owned())
            .spawn(move || run(pipes, &over.into(), sub_buffer_bytes, &decoder))
            .map_err(failed)?;
        Ok(Drain { go_on: Some(go_on), thread: Some(thread) })
    }

    /// Call it after recording was switched off.
    pub(super) fn finish(mut self) -> Result<Vec<Event>, ObserveError> {
        self.join().map_err(|reason| ObserveError::Read { path: PathBuf::from("trace_pipe_raw"), reason })
    }

    fn join(&mut self) -> io::Result<Vec<Event>> {
        self.go_on = None;
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|_| Err(io::Error::other("the reading thread panicked"))),
            None => Ok(Vec::new()),
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // An instance cannot be removed as long as the thread has its files open. The events are not wanted.
        let _ = self.join();
    }
}

fn run(mut pipes: Vec<File>, over: &OwnedFd, sub_buffer_bytes: usize, decoder: &Decoder) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut sub_buffer = vec![0; sub_buffer_bytes];
    loop {
        let is_over = {
            let mut waits = vec![PollFd::new(over, PollFlags::IN)];
            waits.extend(pipes.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            match poll(&mut waits, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            !waits[0].revents().is_empty()
        };
        for pipe in &mut pipes {
            loop {
                match pipe.read(&mut sub_buffer) {
                    Ok(0) => break,
                    Ok(length) => ring::records(&sub_buffer[..length], |time_ns, record| {
                        events.extend(decoder.decode(time_ns, record));
                    }),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if is_over {
            return Ok(events);
        }
    }
}
