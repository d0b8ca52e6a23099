//! Busy loops: programs that take all the processor time they get while a run lasts, as on a
//! machine with other work.
//!
//! Each is a process of this program (the hidden subcommand `__busy`), so none of its time is
//! counted as the workers'. A loop dies with its parent.

use std::hint::spin_loop;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::getppid;
use serde::Serialize;

/// The name of the hidden subcommand.
pub const SUBCOMMAND: &str = "__busy";

/// How many loops run beside the workers, and the program that they are processes of.
#[derive(Clone, Debug, Serialize)]
pub struct Busy {
    pub loops: u32,
    #[serde(skip)]
    pub program: PathBuf,
}

/// Loops that run; dropping this ends them.
pub struct Loops(Vec<Child>);

impl Loops {
    pub fn begin(busy: &Busy) -> io::Result<Loops> {
        let mut loops = Loops(Vec::new());
        for _ in 0..busy.loops {
            loops.0.push(spawn(&busy.program)?);
        }
        Ok(loops)
    }
}

fn spawn(program: &Path) -> io::Result<Child> {
    let parent = std::process::id().to_string();
    Command::new(program)
        .args([SUBCOMMAND, &parent])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Both fail only where the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Between two looks whether the parent is still there: about a millisecond.
const SPINS: u32 = 1 << 20;

/// The loop's side: it ends when somebody ends it, at the latest when its parent does.
pub fn serve(parent: u32) {
    while getppid().is_some_and(|pid| pid.as_raw_nonzero().get() as u32 == parent) {
        (0..SPINS).for_each(|_| spin_loop());
    }
}
