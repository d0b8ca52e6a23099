//! `/sys/block/DEV/stat`, Linux `Documentation/block/stat.rst`.

use std::fs;
use std::path::PathBuf;

use oneflush_trace::kernel::KernelError;
use oneflush_trace::model::SECTOR_BYTES;

/// Completed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceStat {
    pub(super) bytes: u64,
    pub(super) writes: u64,
    pub(super) flushes: u64,
}

impl DeviceStat {
    pub(super) fn read(device: &str) -> Result<DeviceStat, KernelError> {
        let path = PathBuf::from(format!("/sys/block/{device}/stat"));
        let text = fs::read_to_string(&path)
            .map_err(|reason| KernelError::Read { path: path.clone(), reason })?;
        DeviceStat::parse(&text).ok_or(KernelError::Format {
            path,
            what: "17 numbers are expected (Linux 5.5 or later)".to_owned(),
        })
    }

    fn parse(text: &str) -> Option<DeviceStat> {
        let fields: Vec<u64> =
            text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(DeviceStat {
            writes: *fields.get(4)?,
            bytes: fields.get(6)? * SECTOR_BYTES,
            flushes: *fields.get(15)?,
        })
    }

    pub(super) fn since(self, start: DeviceStat) -> DeviceStat {
        DeviceStat {
            bytes: self.bytes.saturating_sub(start.bytes),
            writes: self.writes.saturating_sub(start.writes),
            flushes: self.flushes.saturating_sub(start.flushes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_kernel_puts_them() {
        let stat = DeviceStat::parse("1 2 3 4 50 6 70 8 9 10 11 12 13 14 15 160 17\n").unwrap();
        assert_eq!(stat, DeviceStat { bytes: 70 * 512, writes: 50, flushes: 160 });
        assert_eq!(DeviceStat::parse("1 2 3"), None);
    }
}
