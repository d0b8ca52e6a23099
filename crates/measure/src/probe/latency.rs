//! Latencies of the ways to make 4 KiB durable, and of one that does not.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use oneflush_blocklog::AlignedBuffer;
use rustix::io::ReadWriteFlags;
use serde::Serialize;

use crate::floor::{BLOCK_BYTES, open_direct, quantile};
use crate::interrupt;

/// Enough for a p99, unless the device is slow.
const WRITES: usize = 400;
const TIME_MAX: Duration = Duration::from_secs(2);
const WARM_UP_WRITES: usize = 4;
const FILE_BLOCKS: u64 = 256;
const SILENT: Duration = Duration::from_secs(2);

/// A way to write one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RawWrite {
    BufferedAppendFdatasync,
    BufferedOverwriteFdatasync,
    DirectOverwrite,
    DirectOverwriteFdatasync,
    DirectOverwriteDsync,
}

impl RawWrite {
    pub const ALL: [RawWrite; 5] = [
        RawWrite::BufferedAppendFdatasync,
        RawWrite::BufferedOverwriteFdatasync,
        RawWrite::DirectOverwrite,
        RawWrite::DirectOverwriteFdatasync,
        RawWrite::DirectOverwriteDsync,
    ];

    pub fn label(self) -> &'static str {
        match self {
            RawWrite::BufferedAppendFdatasync => "buffered append + fdatasync",
            RawWrite::BufferedOverwriteFdatasync => "buffered overwrite + fdatasync",
            RawWrite::DirectOverwrite => "direct overwrite, no flush",
            RawWrite::DirectOverwriteFdatasync => "direct overwrite + fdatasync",
            RawWrite::DirectOverwriteDsync => "direct overwrite, RWF_DSYNC",
        }
    }

    fn is_direct(self) -> bool {
        match self {
            RawWrite::BufferedAppendFdatasync | RawWrite::BufferedOverwriteFdatasync => false,
            RawWrite::DirectOverwrite
            | RawWrite::DirectOverwriteFdatasync
            | RawWrite::DirectOverwriteDsync => true,
        }
    }

    fn once(self, file: &File, block: &[u8], offset: u64) -> io::Result<()> {
        match self {
            RawWrite::BufferedAppendFdatasync
            | RawWrite::BufferedOverwriteFdatasync
            | RawWrite::DirectOverwriteFdatasync => {
                file.write_all_at(block, offset)?;
                file.sync_data()
            }
            RawWrite::DirectOverwrite => file.write_all_at(block, offset),
            RawWrite::DirectOverwriteDsync => write_dsync(file, block, offset),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latency {
    pub what: RawWrite,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub writes: usize,
}

pub(super) enum Failed {
    Interrupted,
    Io(&'static str, io::Error),
}

/// Ways that the file system refuses are left out.
pub(super) fn measure(dir: &Path) -> Result<Vec<Latency>, Failed> {
    let began = Instant::now();
    let mut latencies = Vec::new();
    for what in RawWrite::ALL {
        if began.elapsed() > SILENT {
            eprintln!("measuring {} …", what.label());
        }
        latencies.extend(one(dir, what)?);
    }
    Ok(latencies)
}

fn one(dir: &Path, what: RawWrite) -> Result<Option<Latency>, Failed> {
    let io = |reason| Failed::Io(what.label(), reason);
    let named = tempfile::NamedTempFile::new_in(dir).map_err(io)?;
    let mut block = AlignedBuffer::zeroed(BLOCK_BYTES);
    let appends = what == RawWrite::BufferedAppendFdatasync;
    if !appends {
        for number in 0..FILE_BLOCKS {
            named.as_file().write_all_at(&block, number * BLOCK_BYTES as u64).map_err(io)?;
        }
    }
    named.as_file().sync_all().map_err(io)?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)?;
    let file = if what.is_direct() {
        match open_direct(named.path()).map_err(io)? {
            (file, true) => file,
            (_, false) => return Ok(None),
        }
    } else {
        OpenOptions::new().write(true).open(named.path()).map_err(io)?
    };
    let mut latencies_ns = Vec::with_capacity(WRITES);
    let began = Instant::now();
    for number in 0..WRITES + WARM_UP_WRITES {
        if interrupt::requested() {
            return Err(Failed::Interrupted);
        }
        block.fill(number as u8);
        let index = if appends { number as u64 } else { number as u64 % FILE_BLOCKS };
        let started = Instant::now();
        match what.once(&file, &block, index * BLOCK_BYTES as u64) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
            // The flag was taken, and is refused now.
            Err(error) if what.is_direct() && error.raw_os_error() == Some(libc::EINVAL) => {
                return Ok(None);
            }
            Err(error) => return Err(io(error)),
        }
        if number >= WARM_UP_WRITES {
            latencies_ns.push(started.elapsed().as_nanos() as u64);
        }
        if began.elapsed() > TIME_MAX && !latencies_ns.is_empty() {
            break;
        }
    }
    latencies_ns.sort_unstable();
    Ok(Some(Latency {
        what,
        p50_ns: quantile(&latencies_ns, 0.50),
        p99_ns: quantile(&latencies_ns, 0.99),
        writes: latencies_ns.len(),
    }))
}

fn write_dsync(file: &File, block: &[u8], offset: u64) -> io::Result<()> {
    let slices = [IoSlice::new(block)];
    let written = rustix::io::pwritev2(file, &slices, offset, ReadWriteFlags::DSYNC)?;
    if written < block.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}
