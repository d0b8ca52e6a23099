//! The process that serves a mount while the shell goes on.
//!
//! It is this program again. It says on its standard output that it is ready, and who has started
//! it passes that on and ends. From then on it has no terminal.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::setsid;
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::failure::Failure;
use crate::output;

/// Set for the process that serves.
const VARIABLE: &str = "ONEFLUSH_MOUNT_SERVES";
/// Behind this nothing more comes.
const READY: &str = "ready\n";

pub fn is_child() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Starts the process that serves, and answers when it does.
pub fn start() -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(Failure::failed)?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::failed)?;
    let mut told = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        let mut bytes = [0; 512];
        while !told.ends_with(READY) {
            match stdout.read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(length) => told += &String::from_utf8_lossy(&bytes[..length]),
            }
        }
    }
    match told.strip_suffix(READY) {
        Some(text) => output::print(text),
        // It has said why on the standard error that is also this process's.
        None => Err(ended(child.wait().map_err(Failure::failed)?)),
    }
}

fn ended(status: ExitStatus) -> Failure {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Failure::WithCode(format!("nothing is mounted ({status})").into(), code)
}

/// This process serves: says so, and leaves the terminal.
pub fn is_ready(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    write!(stdout, "{text}{READY}")?;
    stdout.flush()?;
    // It fails only where this process has a session of its own already.
    let _ = setsid();
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    std::env::set_current_dir("/")
}
