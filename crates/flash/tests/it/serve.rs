//! The device as a block device: a file system on a loop device on FUSE.
//!
//! The server is a process of its own. A process that did I/O through the loop device and served it
//! as well could wait for itself. All is in a mount namespace that ends with the test; the loop
//! device ends with the last that has it open.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use oneflush_flash::serve::{Options, Precondition, serve};
use oneflush_flash::{Preset, Timing};
use oneflush_testing::{Running, in_own_mounts, named, run, skip, wait_until};
use serde_json::Value;

const SERVE_AT: &str = "ONEFLUSH_FLASH_TEST_SERVE_AT";
const DEVICE_BYTES: u64 = 128 << 20;
const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
const UNIT: usize = 4096;

fn why_not() -> Option<String> {
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(error) = OpenOptions::new().read(true).write(true).open(device) {
            return Some(format!("{device}: {error}"));
        }
    }
    (!rustix::process::geteuid().is_root()).then(|| "only root may mount".to_owned())
}

/// Slow enough to be told apart from the path to it.
fn options() -> Options {
    let mut options = Options::of(Preset::named("emmc").expect("a preset"), DEVICE_BYTES);
    options.model.timing = Timing {
        read_ns: 4_000_000,
        program_ns: 5_000_000,
        erase_ns: 5_000_000,
        bus_mb_per_s: 1000,
        command_ns: 100_000,
        flush_ns: 7_000_000,
    };
    options.model.queue_depth = 4;
    options.precondition = Some(Precondition { share: 0.5, overwrites: 0.5 });
    options
}

/// Not a test: this is what the tests start. It serves at the path that the variable names.
#[test]
fn server_of_the_tests() {
    let Some(at) = std::env::var_os(SERVE_AT) else { return };
    let backing = tempfile::tempfile_in("/var/tmp").expect("a file for the image");
    serve(Path::new(&at), options(), backing).expect("a device");
}

struct Served {
    at: PathBuf,
    server: Running,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("device");
        fs::create_dir(&at).expect("a folder to mount on");
        let mut command = Command::new(std::env::current_exe().expect("the test's own program"));
        command.args([named!(server_of_the_tests), "--exact", "--nocapture"]).env(SERVE_AT, &at);
        let server = Running::start(&mut command);
        let disk = at.join("disk");
        wait_until("the device is mounted", || disk.exists());
        Served { at, server, _folder: folder }
    }

    fn counters(&self) -> Value {
        let text = fs::read_to_string(self.at.join("counters")).expect("the counters");
        serde_json::from_str(&text).expect("JSON")
    }

    fn flushes(&self) -> u64 {
        self.counters()["counters"]["host"]["flushes"].as_u64().expect("a number")
    }

    /// It ends when it is unmounted.
    fn end(mut self) {
        run(Command::new("umount").arg(&self.at));
        let mut status = None;
        wait_until("the server has ended", || {
            status = self.server.try_wait().expect("the server");
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
    }
}

/// A loop device that is gone when this is, also if the process is killed.
struct Loop {
    path: PathBuf,
    held: File,
}

impl Loop {
    fn on(disk: &Path) -> Loop {
        let said = run(Command::new("losetup").args(["--direct-io=on", "-f", "--show"]).arg(disk));
        let path = PathBuf::from(said.trim());
        let held = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_DIRECT)
            .open(&path)
            .expect("the loop device");
        // While it is held, that only makes it end with the last that has it open.
        run(Command::new("losetup").arg("-d").arg(&path));
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let dio = fs::read_to_string(format!("/sys/block/{name}/loop/dio")).expect("sysfs");
        assert_eq!(dio.trim(), "1", "direct I/O");
        Loop { path, held }
    }
}

/// At an address that direct I/O takes.
fn aligned(buffer: &mut Vec<u8>, byte: u8) -> &mut [u8] {
    buffer.resize(2 * UNIT, 0);
    let skip = buffer.as_ptr().align_offset(UNIT);
    let unit = &mut buffer[skip..skip + UNIT];
    unit.fill(byte);
    unit
}

fn took<T>(what: impl FnOnce() -> io::Result<T>) -> Duration {
    let begin = Instant::now();
    what().expect("it is done");
    begin.elapsed()
}

#[test]
fn a_file_system_on_it_keeps_its_files_and_flushes_reach_the_device() {
    if let Some(reason) = why_not() {
        return skip(reason);
    }
    let name = named!(a_file_system_on_it_keeps_its_files_and_flushes_reach_the_device);
    if !in_own_mounts(name, Duration::from_secs(120)) {
        return;
    }
    let served = Served::start();
    let device = Loop::on(&served.at.join("disk"));
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = folder.path();
    run(Command::new("mkfs.ext4").args(["-q", "-E", "nodiscard"]).arg(&device.path));
    let mount = || run(Command::new("mount").arg(&device.path).arg(mounted));
    mount();
    let contents: Vec<u8> = (0..1_000_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    let before = served.flushes();
    let file = File::create(mounted.join("file")).expect("a file");
    file.write_all_at(&contents, 0).expect("room");
    file.sync_all().expect("a sync");
    drop(file);
    assert!(served.flushes() > before, "a sync of a file is a flush of the device");
    run(Command::new("umount").arg(mounted));
    mount();
    let found = fs::read(mounted.join("file")).expect("the file");
    assert!(found == contents, "the file is another one");
    run(Command::new("fstrim").arg(mounted));
    let trimmed = &served.counters()["counters"]["host"]["trim_bytes"];
    assert!(trimmed.as_u64().is_some_and(|bytes| bytes > 0), "{trimmed}");
    run(Command::new("umount").arg(mounted));
    drop(device);
    served.end();
}

#[test]
fn a_write_and_its_flush_take_at_least_what_the_model_says() {
    if let Some(reason) = why_not() {
        return skip(reason);
    }
    let name = named!(a_write_and_its_flush_take_at_least_what_the_model_says);
    if !in_own_mounts(name, Duration::from_secs(120)) {
        return;
    }
    let served = Served::start();
    let device = Loop::on(&served.at.join("disk"));
    let timing = options().model.timing;
    let least = |ns: u64| Duration::from_nanos(ns);
    let mut buffer = Vec::new();
    let unit = aligned(&mut buffer, 7);
    for index in 0..10 {
        let offset = index * UNIT as u64;
        let written = took(|| device.held.write_all_at(unit, offset));
        assert!(written >= least(timing.command_ns), "{written:?}");
        let flushed = took(|| device.held.sync_data());
        let of_model = least(timing.command_ns + timing.program_ns + timing.flush_ns);
        assert!(flushed >= of_model, "{flushed:?} {of_model:?}");
        let read = took(|| device.held.read_exact_at(unit, offset));
        assert!(read >= least(timing.command_ns + timing.read_ns), "{read:?}");
        assert!(unit.iter().all(|&byte| byte == 7));
    }
    let report = served.counters();
    assert_eq!(report["options"]["name"], "emmc");
    let answers = &report["late"]["answers"];
    assert!(answers.as_u64().is_some_and(|answers| answers >= 30), "{answers}");
    println!("{}", report["late"]);
    drop(device);
    served.end();
}

#[test]
fn several_requests_are_in_flight() {
    if let Some(reason) = why_not() {
        return skip(reason);
    }
    let name = named!(several_requests_are_in_flight);
    if !in_own_mounts(name, Duration::from_secs(120)) {
        return;
    }
    let served = Served::start();
    let device = Loop::on(&served.at.join("disk"));
    let (threads, reads) = (4, 20);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let held = &device.held;
            scope.spawn(move || {
                let mut buffer = Vec::new();
                let unit = aligned(&mut buffer, 1);
                for read in 0..reads {
                    // The first half of the device is filled.
                    let offset = (read * 97 + thread * 1000) * UNIT as u64;
                    held.read_exact_at(unit, offset).expect("a read");
                }
            });
        }
    });
    let one_by_one =
        (threads * reads) as u32 * Duration::from_nanos(options().model.timing.read_ns);
    let together = begin.elapsed();
    println!("{together:?}, one by one at least {one_by_one:?}");
    assert!(together < one_by_one);
    drop(device);
    served.end();
}

#[test]
fn a_hole_reads_as_zeros_also_where_it_is_no_whole_unit() {
    if let Some(reason) = why_not() {
        return skip(reason);
    }
    let name = named!(a_hole_reads_as_zeros_also_where_it_is_no_whole_unit);
    if !in_own_mounts(name, Duration::from_secs(120)) {
        return;
    }
    let served = Served::start();
    let disk = OpenOptions::new().read(true).write(true).open(served.at.join("disk"));
    let disk = disk.expect("the file of the device");
    disk.write_all_at(&[9; 8 * UNIT], 0).expect("room");
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    let (from, to) = (UNIT - 512, 3 * UNIT + 1024);
    rustix::fs::fallocate(&disk, hole, from as u64, (to - from) as u64).expect("a hole");
    rustix::fs::fallocate(&disk, hole, 5 * UNIT as u64 + 512, 512).expect("a hole in a unit");
    let mut found = vec![1; 8 * UNIT];
    disk.read_exact_at(&mut found, 0).expect("what was written");
    let is_hole =
        |at: usize| (from..to).contains(&at) || (5 * UNIT + 512..5 * UNIT + 1024).contains(&at);
    for (at, &byte) in found.iter().enumerate() {
        assert_eq!(byte, if is_hole(at) { 0 } else { 9 }, "{at}");
    }
    let grown = rustix::fs::fallocate(&disk, rustix::fs::FallocateFlags::empty(), 0, 4096);
    assert_eq!(grown, Err(rustix::io::Errno::OPNOTSUPP));
    drop(disk);
    served.end();
}
