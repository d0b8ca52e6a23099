//! What `oneflush run` says from inside of the program: on standard error, and where `ONEFLUSH_LOG`
//! says. With `off` it is silent.
//!
//! Descriptor 2 may have become another file. So a line goes there only while it is what it was at
//! the start. A regular file must also be the standard error that `oneflush run` had, or be open
//! for nothing but writing, as no database is.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

/// `user.warning`.
const PRIORITY: u8 = 8 + 4;
/// How much of a file is read to tell whether it is text.
const LOOK_BYTES: u64 = 512;

/// Device and inode of descriptor 2.
static STDERR: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Whether one of `once()` was said, by this process or another that a fork made of it.
static SAID: AtomicPtr<AtomicBool> = AtomicPtr::new(&raw const SAID_HERE as *mut _);
static SAID_HERE: AtomicBool = AtomicBool::new(false);

pub fn at_start() {
    let stat = stderr();
    STDERR[0].store(stat.st_dev, Relaxed);
    STDERR[1].store(stat.st_ino, Relaxed);
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, of zeros, that stays.
    let shared = unsafe { libc::mmap(std::ptr::null_mut(), 1, protection, flags, -1, 0) };
    if shared != libc::MAP_FAILED {
        SAID.store(shared.cast(), Relaxed);
    }
}

fn said() -> &'static AtomicBool {
    // SAFETY: either place stays; zeros are false.
    unsafe { &*SAID.load(Relaxed) }
}

pub fn is_said() -> bool {
    said().load(Relaxed)
}

/// No line is needed any more.
pub fn is_known() {
    said().store(true, Relaxed);
}

/// Says it, if it is the first of these lines: they all say that Oneflush is not in use.
pub fn once(message: &str) {
    if !said().swap(true, Relaxed) {
        line(message);
    }
}

pub fn fail(message: &str) -> ! {
    eprintln!("oneflush run: {message}");
    // SAFETY: ends the process at once, without the program's exit handlers: it has done nothing
    // with SQLite yet.
    unsafe { libc::_exit(1) }
}

pub fn line(message: &str) {
    let line = format!("oneflush run: {message}\n");
    let log = variable(c"ONEFLUSH_LOG").map(CStr::to_string_lossy).unwrap_or_default();
    match &*log.to_ascii_lowercase() {
        "" | "off" => return,
        "stderr" => {}
        "syslog" => to_system(&line),
        _ => to_file(Path::new(&*log), &line),
    }
    if takes_a_line() {
        // SAFETY: the bytes are the line's. Nobody is left to tell of an error.
        let _ = unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
}

/// A line that would have to wait is not said, and one without readers would change how the program
/// ends (`SIGPIPE`).
fn takes_a_line() -> bool {
    let stat = stderr();
    let noted = variable(c"ONEFLUSH_RUN_STDERR").map(CStr::to_bytes).unwrap_or_default();
    let is_noted = noted.ends_with(format!(":{}:{}", stat.st_dev, stat.st_ino).as_bytes());
    // SAFETY: asks for the flags of a descriptor.
    let is_written_only =
        unsafe { libc::fcntl(2, libc::F_GETFL) } & libc::O_ACCMODE == libc::O_WRONLY;
    if [stat.st_dev, stat.st_ino] != [STDERR[0].load(Relaxed), STDERR[1].load(Relaxed)]
        || stat.st_mode & libc::S_IFMT == libc::S_IFREG && !is_noted && !is_written_only
    {
        return false;
    }
    let mut polled = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one element, which lives.
    let count = unsafe { libc::poll(&mut polled, 1, 0) };
    count == 1 && polled.revents == libc::POLLOUT
}

fn stderr() -> libc::stat64 {
    let mut stat = MaybeUninit::<libc::stat64>::zeroed();
    // SAFETY: zeros are a valid value, which the kernel replaces if the descriptor is open.
    unsafe {
        libc::fstat64(2, stat.as_mut_ptr());
        stat.assume_init()
    }
}

/// As the extension writes its own messages.
fn to_file(path: &Path, line: &str) {
    let mut options = OpenOptions::new();
    options.append(true).read(true).mode(0o644).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let is_new = !path.exists();
    let Ok(mut file) = options.create(true).open(path) else { return };
    let Ok(metadata) = file.metadata() else { return };
    let mut begin = Vec::new();
    let _ = (&file).take(LOOK_BYTES).read_to_end(&mut begin);
    if begin.contains(&0) {
        return;
    }
    if is_new
        && metadata.uid() == 0
        && let Some(Ok(folder)) = path.parent().map(Path::metadata)
    {
        let _ = fchown(&file, Some(folder.uid()), Some(folder.gid()));
    }
    let _ = file.write_all(format!("{} {line}", now()).as_bytes());
}

fn to_system(line: &str) {
    let datagram = format!("<{PRIORITY}>{}", line.trim_end());
    let _ = UnixDatagram::unbound().and_then(|ours| {
        ours.set_nonblocking(true)?;
        ours.send_to(datagram.as_bytes(), "/dev/log")
    });
}

/// In UTC.
fn now() -> String {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: zeros are valid values, which are replaced.
    let (time, parts) = unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, time.as_mut_ptr());
        let time = time.assume_init();
        libc::gmtime_r(&time.tv_sec, parts.as_mut_ptr());
        (time, parts.assume_init())
    };
    format!(
        "{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        time.tv_nsec / 1_000_000
    )
}

pub fn program() -> String {
    std::env::args_os().next().unwrap_or_default().to_string_lossy().into_owned()
}

/// Without the locks of the standard library: other threads may be ending, too.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a NUL; the value is looked at before anything else runs.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    }
}

/// True if the variable names this process.
pub fn is_this_process(name: &CStr) -> bool {
    // SAFETY: has no preconditions.
    let process = unsafe { libc::getpid() };
    variable(name).is_some_and(|pid| pid.to_bytes() == process.to_string().as_bytes())
}
