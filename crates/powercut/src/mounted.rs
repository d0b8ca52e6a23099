//! `oneflush mount` over the file system of a state, as the guest had it.
//!
//! ```text
//! /mnt                the state
//! /mnt/lower          what the guest had mounted
//! /mnt/lower-oneflush its log
//! /mnt/at             where the databases are, for the guest and here
//! ```
//!
//! A loss of power is another boot, so the log is replayed. By turns that is done by
//!
//! - `oneflush mount`: the databases are judged through the mount. After its end there is no log.
//! - `oneflush recover --fs`: they are judged in the directory itself, which is bound to the mount
//!   point. A super-journal has the paths that it had in the guest.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::place::MOUNT_POINT;

const LOWER: &str = "lower";
const LOG: &str = "lower-oneflush";
const AT: &str = "at";

/// How the log of a state comes into its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// By a mount and by the command.
    InTurn,
    /// Not at all: a control.
    None,
}

impl Recovery {
    /// Recovers the mounted state of this number and has it judged. A recovery that fails is an
    /// objection, too.
    pub fn judge(
        self,
        number: usize,
        judge: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<(), String> {
        let at = below(AT);
        // The guest had made it durable before its first note. Only a broken daemon has lost it.
        fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        if self == Recovery::InTurn && number.is_multiple_of(2) {
            let daemon = Daemon::begin(&at)?;
            let judged = judge(&at);
            let ended = daemon.end();
            return judged.and(ended).and_then(|()| has_no_log("oneflush mount"));
        }
        if self == Recovery::InTurn {
            let mut command = oneflush()?;
            command.args(["recover", "--fs"]).arg(below(LOWER));
            run(command, "oneflush recover --fs")?;
            has_no_log("oneflush recover --fs")?;
        }
        mount_bind(below(LOWER), &at).map_err(|errno| format!("{LOWER}: {errno}"))?;
        let judged = judge(&at);
        unmount(&at, UnmountFlags::empty()).map_err(|errno| format!("{AT}: {errno}"))?;
        judged
    }
}

fn below(name: &str) -> PathBuf {
    Path::new(MOUNT_POINT).join(name)
}

fn has_no_log(command: &str) -> Result<(), String> {
    match below(LOG).exists() {
        true => Err(format!("{command} has ended, and its log is there")),
        false => Ok(()),
    }
}

/// The program beside this one.
fn oneflush() -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program.with_file_name("oneflush"));
    // Ctrl-C is for this process, which unmounts.
    command.stdin(Stdio::null()).process_group(0);
    Ok(command)
}

fn run(mut command: Command, name: &str) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "{name} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// A mount that is served.
struct Daemon {
    child: Child,
    /// While nobody reads it, what it says has nowhere to go.
    _said: BufReader<ChildStdout>,
    at: PathBuf,
    is_ended: bool,
}

impl Daemon {
    fn begin(at: &Path) -> Result<Daemon, String> {
        let failed = |error: io::Error| format!("oneflush mount: {error}");
        let mut command = oneflush()?;
        command.arg("mount").arg(below(LOWER)).arg(at).arg("--foreground");
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let Some(stdout) = child.stdout.take() else {
            return Err("oneflush mount has no output".to_owned());
        };
        let mut said = BufReader::new(stdout);
        let mut line = String::new();
        while !line.contains(" is mounted at ") {
            line.clear();
            if said.read_line(&mut line).map_err(failed)? == 0 {
                return Err(ended(&mut child));
            }
        }
        Ok(Daemon { child, _said: said, at: at.to_owned(), is_ended: false })
    }

    fn end(mut self) -> Result<(), String> {
        let mut command = oneflush()?;
        command.arg("umount").arg(&self.at);
        run(command, "oneflush umount")?;
        self.is_ended = true;
        match self.child.wait().map_err(|error| error.to_string())?.success() {
            true => Ok(()),
            false => Err(ended(&mut self.child)),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_ended {
            let _ = unmount(&self.at, UnmountFlags::DETACH);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What a daemon that has ended said.
fn ended(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        // What cannot be read is not shown.
        let _ = stderr.read_to_string(&mut text);
    }
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    format!("oneflush mount ended with {status}: {}", text.trim())
}
