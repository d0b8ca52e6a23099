//! The system's log, written through its socket. `syslog()` of the C library would keep a
//! descriptor and take a lock.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

pub const PATH: &str = "/dev/log";

/// `user.warning`.
const PRIORITY: u8 = 8 + 4;

pub fn is_there() -> io::Result<()> {
    let connect = || UnixDatagram::unbound()?.connect(PATH);
    connect().map_err(|error| {
        io::Error::new(error.kind(), format!("{PATH}: {error}; use stderr or a file [OF-405]"))
    })
}

pub fn write(socket: &Path, line: &str) {
    // Nobody is left to tell of an error.
    let _ = send(socket, format!("<{PRIORITY}>{line}").as_bytes());
}

fn send(socket: &Path, datagram: &[u8]) -> io::Result<()> {
    let ours = UnixDatagram::unbound()?;
    ours.set_nonblocking(true)?;
    ours.send_to(datagram, socket)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_datagram_with_its_priority_and_a_missing_log_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        write(&path, "nobody listens");
        let socket = UnixDatagram::bind(&path).unwrap();
        write(&path, "oneflush[7]: a.db: why");
        let mut datagram = [0; 100];
        let length = socket.recv(&mut datagram).unwrap();
        assert_eq!(&datagram[..length], b"<12>oneflush[7]: a.db: why");
    }
}
