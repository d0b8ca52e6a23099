//! The program that is started to be recorded.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus};

use oneflush_trace::record::Recorder;
use rustix::process::{Pid, Signal, kill_process};

pub(super) struct Program {
    pub(super) name: String,
    child: Child,
}

impl Program {
    /// Where standard output has the recording, what the program prints goes to standard error.
    pub(super) fn start(
        command: &[OsString],
        recorder: &Recorder<File>,
        is_stdout_taken: bool,
    ) -> Result<Option<Program>, String> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        let name = program.to_string_lossy().into_owned();
        let cannot = |error: io::Error| format!("cannot start {name}: {error}");
        let mut command = Command::new(program);
        command.args(arguments).env("ONEFLUSH_TRACE_MARKER", recorder.marker());
        if is_stdout_taken {
            command.stdout(io::stderr().as_fd().try_clone_to_owned().map_err(cannot)?);
        }
        let child = command.spawn().map_err(cannot)?;
        Ok(Some(Program { name, child }))
    }

    pub(super) fn wait(&mut self) -> Result<ExitStatus, String> {
        self.child.wait().map_err(|error| format!("lost {}: {error}", self.name))
    }

    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("lost {}: {error}", self.name))
    }

    /// The terminal sends Ctrl-C to it too; SIGTERM to this process it would not see.
    pub(super) fn ask_to_end(&self) {
        // One that has just ended needs no signal.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
    }
}
