//! The single facts, each read from where Linux keeps it.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn kernel() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.release().to_string_lossy(), uname.machine().to_string_lossy())
}

/// Asks the SQLite that the workloads run on, which need not be the one of the headers.
pub(super) fn sqlite() -> (String, String) {
    let ask = || -> rusqlite::Result<(String, String)> {
        rusqlite::Connection::open_in_memory()?.query_row(
            "SELECT sqlite_version(), sqlite_source_id()",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    };
    ask().unwrap_or_default()
}

pub(super) fn cpu() -> (String, usize) {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // x86 says "model name", ARM boards "Model" or "Hardware".
    let model = ["model name", "Model", "Hardware", "cpu model"]
        .iter()
        .find_map(|key| {
            info.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.trim() == *key)
        })
        .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, value)| value.trim().to_owned());
    (model, std::thread::available_parallelism().map_or(1, usize::from))
}

pub(super) fn memory_bytes() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = info.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()
    });
    kib.unwrap_or(0u64) * 1024
}

pub(super) fn date() -> String {
    // A clock may be set to before 1970, and the library panics then.
    humantime::format_rfc3339_seconds(SystemTime::now().max(UNIX_EPOCH)).to_string()
}
