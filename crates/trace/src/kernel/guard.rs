//! A small process that cleans up if this one is killed.
//!
//! SIGKILL leaves no time for `Drop`. The guard is a shell that waits for the end of its standard
//! input. Only we hold the other end: the kernel closes it however we end. The guard then does what
//! `Drop` would have done. The guard ignores the signals of the terminal, so Ctrl-C does not take
//! it down with us.
//!
//! If the guard is killed as well (a whole container, a power cut), directories stay. They hold
//! nothing but scratch data and are named `oneflush-…`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Never descends into a mount: `umount` comes first, and `rm` stays in one file system. Repeated
/// for two seconds, because the kernel closes our pipe before it is done with our other files. An
/// open file is busy. It comes before the test, too: where the server of a mount by FUSE is dead,
/// the directory seems not to be there.
const REMOVE_DIRECTORY: &str = r#"
trap '' INT TERM HUP QUIT
read -r _
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    umount -l "$1"
    test -e "$1" || exit 0
    rm -rf --one-file-system -- "$1" && exit 0
    sleep 0.1
done"#;

/// A tracefs instance goes away with a plain rmdir.
const REMOVE_INSTANCE: &str = r#"
trap '' INT TERM HUP QUIT
read -r _
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    test -e "$1" || exit 0
    rmdir "$1" && exit 0
    sleep 0.1
done"#;

#[derive(Debug)]
pub struct Guard {
    shell: Child,
}

impl Guard {
    /// Unmounts what is mounted on `path`, if anything, and removes it with its contents.
    pub fn of_directory(path: &Path) -> io::Result<Guard> {
        Guard::start(REMOVE_DIRECTORY, path)
    }

    /// Removes a tracefs instance.
    pub fn of_trace_instance(path: &Path) -> io::Result<Guard> {
        Guard::start(REMOVE_INSTANCE, path)
    }

    fn start(script: &str, path: &Path) -> io::Result<Guard> {
        let shell = Command::new("/bin/sh")
            .args([
                OsStr::new("-c"),
                OsStr::new(script),
                OsStr::new("oneflush-guard"),
                path.as_os_str(),
            ])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Guard { shell })
    }

    /// Called after the clean-up was done here. Lets the guard see that nothing is left, and waits
    /// for it.
    pub fn dismiss(mut self) {
        drop(self.shell.stdin.take());
        // An error means that the guard is gone already.
        let _ = self.shell.wait();
    }
}
