//! Devices, pipes, sockets and programs.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use oneflush_testing::named;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{compare, open};

#[test]
fn special_files_and_programs_are_the_same() {
    compare(named!(special_files_and_programs_are_the_same), |seen| {
        let mode = Mode::from_raw_mode(0o640);
        let mut make = |name: &str, kind, device| {
            let made = mknodat(CWD, seen.at(name), kind, mode, device);
            seen.note(name, made.map_err(Into::into));
            seen.stat(name);
        };
        make("pipe", FileType::Fifo, 0);
        make("null", FileType::CharacterDevice, libc::makedev(1, 3));
        make("disk", FileType::BlockDevice, libc::makedev(259, 1_000));
        make("plain", FileType::RegularFile, 0);
        seen.list("");
        seen.note("write to the device", fs::write(seen.at("null"), "gone"));
        seen.contents("null");
        let pipe = seen.at("pipe");
        let reader = std::thread::spawn(move || fs::read_to_string(pipe));
        seen.note("write to the pipe", fs::write(seen.at("pipe"), "through"));
        seen.note("read from the pipe", reader.join().unwrap());
        let listener = UnixListener::bind(seen.at("socket")).unwrap();
        let mut stream = UnixStream::connect(seen.at("socket")).unwrap();
        stream.write_all(b"hello").unwrap();
        drop(stream);
        let mut said = String::new();
        seen.note("socket", listener.accept().and_then(|mut one| one.0.read_to_string(&mut said)));
        seen.stat("socket");

        fs::copy("/bin/true", seen.at("program")).unwrap();
        seen.note("run", Command::new(seen.at("program")).status().map(|status| status.code()));
        fs::copy("/bin/sleep", seen.at("sleep")).unwrap();
        let mut running = Command::new(seen.at("sleep")).arg("100").spawn().unwrap();
        seen.note("write to what runs", open(&seen.at("sleep"), libc::O_WRONLY).map(drop));
        running.kill().unwrap();
        running.wait().unwrap();
        fs::set_permissions(seen.at("program"), Permissions::from_mode(0o644)).unwrap();
        seen.note("not to be run", Command::new(seen.at("program")).status().map(|_| ()));
    });
}
