//! An emulated flash device below a scratch file system (`oneflush-flash`).
//!
//! ```text
//! file system ─▶ loop device ─▶ FUSE file "disk" ─▶ process `oneflush __flash` ─▶ nameless image
//! ```
//!
//! The device is served by a process of its own. If it were this process, a thread that waits for
//! the device could keep the one that serves it from ending.
//!
//! That process ends when the device is unmounted. It ends, too, when this process does, however
//! that ends: its standard input is a pipe from here. Then the kernel drops the whole chain.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use oneflush_flash::serve::{Late, Options, Precondition};
use oneflush_flash::{Counters, Geometry, Preset};
use oneflush_trace::kernel::Guard;
use rustix::mount::{UnmountFlags, unmount};
use serde::Deserialize;

use super::flash_counts::FlashCounts;
use super::{PlaceError, fresh_directory, loopdev};

/// A preset, and whether the device was in use before.
#[derive(Clone, Copy, Debug)]
pub struct FlashKind {
    pub preset: &'static Preset,
    /// Nothing was ever written to it. Else it is nearly full, and was overwritten at random.
    pub is_new: bool,
}

/// Of a device that is in use: so much of it is full, and was overwritten so often at random. So it
/// collects garbage from the first write on.
const IN_USE: Precondition = Precondition { share: 0.9, overwrites: 1.0 };

impl FlashKind {
    /// For the papers' phones.
    pub fn emmc() -> FlashKind {
        FlashKind { preset: Preset::ALL[0], is_new: false }
    }

    const NEW: &str = ":new";

    pub fn name(self) -> &'static str {
        self.preset.name
    }

    /// Erase blocks of a small device are as large as of a large one, so it needs many.
    pub fn bytes_least(self) -> u64 {
        (if self.name() == "nvme" { 8 } else { 1 }) << 30
    }

    pub fn names() -> String {
        let names = Preset::ALL.map(|preset| preset.name);
        format!("{}, each also with {} behind it", names.join(", "), FlashKind::NEW)
    }
}

impl FromStr for FlashKind {
    type Err = String;

    fn from_str(word: &str) -> Result<FlashKind, String> {
        let (name, is_new) = match word.strip_suffix(FlashKind::NEW) {
            Some(name) => (name, true),
            None => (word, false),
        };
        let preset = Preset::named(name);
        let preset = preset.ok_or_else(|| format!("it is one of: {}", FlashKind::names()))?;
        Ok(FlashKind { preset, is_new })
    }
}

impl fmt::Display for FlashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.preset.name, if self.is_new { FlashKind::NEW } else { "" })
    }
}

/// Until the device can be opened, which takes as long as it is filled.
const READY_MAX: Duration = Duration::from_secs(60);
/// Until the kernel has given the loop device up.
const FREE_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub struct FlashDevice {
    mountpoint: PathBuf,
    server: Child,
    /// None: it is taken away.
    guard: Option<Guard>,
}

/// Reads the file "counters" of a device.
pub fn read_counts(counters: &Path) -> io::Result<FlashCounts> {
    let report: ServerReport = serde_json::from_slice(&fs::read(counters)?)?;
    let counters = report.counters;
    Ok(FlashCounts {
        host_bytes: counters.host.write_bytes,
        programmed_bytes: counters.programmed.bytes(),
        erases: counters.erases + counters.map_erases,
        answers: report.late.answers,
        late_us: (report.late.late_us_mean * report.late.late as f64) as u64,
        life_bytes: report.physical_bytes * u64::from(report.options.model.endurance_cycles),
    })
}

/// What is wanted of the file "counters".
#[derive(Deserialize)]
struct ServerReport {
    options: ServerOptions,
    physical_bytes: u64,
    counters: Counters,
    late: Late,
}

#[derive(Deserialize)]
struct ServerOptions {
    model: ServerModel,
}

#[derive(Deserialize)]
struct ServerModel {
    endurance_cycles: u32,
}

impl FlashDevice {
    pub(super) fn begin(
        kind: FlashKind,
        program: &Path,
        size_bytes: u64,
    ) -> Result<FlashDevice, PlaceError> {
        let preset = kind.preset;
        let failed = |message: String| PlaceError::Flash { preset: preset.name, message };
        if size_bytes < kind.bytes_least() {
            let least = kind.bytes_least() >> 30;
            return Err(failed(format!(
                "--size is {size_bytes} bytes, and {least} GiB is the least"
            )));
        }
        Geometry::new(preset.model().shape, size_bytes)
            .map_err(|error| failed(format!("--size {size_bytes}: {error}")))?;
        if !Path::new("/dev/fuse").exists() {
            return Err(failed("/dev/fuse is missing; modprobe fuse".to_owned()));
        }
        let image = loopdev::nameless_file().map_err(|error| failed(error.to_string()))?;
        let (mountpoint, guard) = fresh_directory(&std::env::temp_dir())?;
        // The number means this process's descriptor, which is open until the device is there.
        let image_path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
        let mut command = Command::new(program);
        command.arg("__flash").arg(&mountpoint).arg(kind.to_string());
        command.args([size_bytes.to_string(), image_path]);
        // Ctrl-C is for this process alone.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
        let server = command.stderr(Stdio::piped()).spawn();
        let server = server.map_err(|error| failed(error.to_string()))?;
        // From here on it is taken away, also on an early return.
        let mut device = FlashDevice { mountpoint, server, guard: Some(guard) };
        device.wait_ready().map_err(failed)?;
        Ok(device)
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while !self.disk().exists() {
            if let Ok(Some(status)) = self.server.try_wait() {
                let mut said = String::new();
                if let Some(mut stderr) = self.server.stderr.take() {
                    let _ = stderr.read_to_string(&mut said);
                }
                let said = said.trim().replace('\n', "; ");
                return Err(if said.is_empty() { status.to_string() } else { said });
            }
            if begin.elapsed() > READY_MAX {
                return Err(format!("it is not there after {} s", READY_MAX.as_secs()));
            }
            thread::sleep(LOOK);
        }
        // What it says later must not fill the pipe.
        if let Some(stderr) = self.server.stderr.take() {
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    eprintln!("{line}");
                }
            });
        }
        Ok(())
    }

    fn disk(&self) -> PathBuf {
        self.mountpoint.join("disk")
    }

    /// For a loop device.
    pub(super) fn open(&self) -> io::Result<File> {
        File::options().read(true).write(true).open(self.disk())
    }

    /// The file that has the device's counters.
    pub fn counters(&self) -> PathBuf {
        self.mountpoint.join("counters")
    }

    /// The file system on it is unmounted. Says if something stays behind.
    pub(super) fn take_away(&mut self) -> Result<(), PlaceError> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let begin = Instant::now();
        // The loop device lets go a moment after its last user.
        let unmounted = loop {
            match unmount(&self.mountpoint, UnmountFlags::empty()) {
                Err(rustix::io::Errno::BUSY) if begin.elapsed() < FREE_MAX => thread::sleep(LOOK),
                other => break other,
            }
        };
        let mut result = Ok(());
        if let Err(errno) = unmounted
            && self.disk().exists()
        {
            let path = self.mountpoint.clone();
            result = Err(PlaceError::TakeAway { path, reason: errno.into() });
            let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        }
        // The end of its standard input ends it, wherever it is.
        drop(self.server.stdin.take());
        let _ = self.server.wait();
        if let Err(reason) = fs::remove_dir(&self.mountpoint) {
            let path = self.mountpoint.clone();
            result = result.and(Err(PlaceError::TakeAway { path, reason }));
        }
        guard.dismiss();
        result
    }
}

impl Drop for FlashDevice {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.take_away();
    }
}

/// All presets, each number with its source.
pub fn describe() -> Result<String, String> {
    let mut text = String::from(
        "Emulated flash devices: models, and no products. Behind each number is its source.\n",
    );
    for preset in Preset::ALL {
        text.push_str(&format!("\n{}: {}\n", preset.name, preset.describes));
        for fact in preset.facts() {
            text.push_str(&format!("  {:<17} {:>8}  {}\n", fact.name, fact.value, fact.source));
        }
    }
    Ok(text)
}

/// `oneflush __flash MOUNTPOINT KIND BYTES IMAGE`: serves the device until it is unmounted, or
/// until nobody holds the other end of its standard input.
pub fn serve(mountpoint: &Path, kind: FlashKind, bytes: u64, image: &Path) -> Result<(), String> {
    let image = File::options().read(true).write(true).open(image);
    let image = image.map_err(|error| format!("the image: {error}"))?;
    thread::spawn(|| {
        let mut byte = [0];
        while matches!(io::stdin().read(&mut byte), Ok(count) if count > 0) {}
        std::process::exit(1);
    });
    let mut options = Options::of(kind.preset, bytes);
    options.precondition = (!kind.is_new).then_some(IN_USE);
    oneflush_flash::serve::serve(mountpoint, options, image).map_err(|error| error.to_string())
}
