//! Workers as processes: the hidden subcommand `__worker` of this program.
//!
//! ```text
//! parent → worker (stdin)     one line of JSON: WorkerSpec       "go"
//! worker → parent (stdout)                               "ready"      one line of JSON: its result
//! ```
//!
//! A worker dies with its parent; one that is told nothing before its stdin ends gives up.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::failure::Failure;
use super::worker::{Start, WorkerResult, run_worker};
use crate::clock;
use crate::interrupt;
use crate::workload::WorkerSpec;

/// The name of the hidden subcommand.
pub const SUBCOMMAND: &str = "__worker";

const READY: &str = "ready";
const FAILED: &str = "failed";
const GO: &str = "go";

/// A worker process; dropping it ends it.
pub struct WorkerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl WorkerProcess {
    pub fn spawn(program: &Path, spec: &WorkerSpec) -> io::Result<WorkerProcess> {
        let mut child = Command::new(program)
            .arg(SUBCOMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("a pipe to a worker process is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let mut worker = WorkerProcess { child, stdin: Some(stdin), stdout };
        worker.send(&serde_json::to_string(spec)?)?;
        Ok(worker)
    }

    /// Waits until the worker has opened its databases; false if it failed.
    pub fn wait_ready(&mut self) -> io::Result<bool> {
        Ok(self.receive()? == READY)
    }

    pub fn go(&mut self) -> io::Result<()> {
        self.send(GO)
    }

    /// Waits for the worker's end. Where it was never told to go, it gives up and says why.
    pub fn result(mut self) -> io::Result<Result<WorkerResult, Failure>> {
        self.stdin = None;
        let line = self.receive()?;
        self.child.wait()?;
        serde_json::from_str(&line).map_err(|_| {
            let status = self.child.try_wait().ok().flatten().map(|status| status.to_string());
            io::Error::other(format!(
                "a worker process ended without a result ({})",
                status.unwrap_or_default()
            ))
        })
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        match &mut self.stdin {
            Some(stdin) => writeln!(stdin, "{line}").and_then(|()| stdin.flush()),
            None => Err(io::Error::other("the worker process was already let go")),
        }
    }

    /// Waits for a line, or for Ctrl-C. A signal to the parent alone does not reach the workers;
    /// dropping them ends them.
    fn receive(&mut self) -> io::Result<String> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if interrupt::requested() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let mut readable = [PollFd::new(self.stdout.get_ref(), PollFlags::IN)];
            match poll(&mut readable, Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Both fail only where the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The worker's side: reads its work from stdin, writes its result to stdout.
pub fn serve() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The terminal sends Ctrl-C to the workers too. They end at their next transaction, as the
    // parent does.
    interrupt::install()?;
    let mut stdin = io::stdin().lock();
    let mut line = String::new();
    stdin.read_line(&mut line)?;
    let spec: WorkerSpec = serde_json::from_str(&line).map_err(|error| {
        io::Error::other(format!("this command is for `oneflush bench` itself to run ({error})"))
    })?;
    let start = Pipe { stdin: RefCell::new(stdin) };
    let result: Result<WorkerResult, Failure> = run_worker(&spec, &start);
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(&result)?)?;
    stdout.flush()
}

struct Pipe<R> {
    stdin: RefCell<R>,
}

impl<R: BufRead> Start for Pipe<R> {
    fn arrive(&self, ready: bool) -> bool {
        let mut stdout = io::stdout().lock();
        let told = writeln!(stdout, "{}", if ready { READY } else { FAILED })
            .and_then(|()| stdout.flush());
        let mut line = String::new();
        told.is_ok()
            && self.stdin.borrow_mut().read_line(&mut line).is_ok()
            && line.trim_end() == GO
    }

    fn cpu_ns(&self) -> u64 {
        clock::process_cpu_ns()
    }

    fn has_own_process(&self) -> bool {
        true
    }
}
