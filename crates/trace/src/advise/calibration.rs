//! The numbers that no rule of a strategy gives, from `calibration.tsv`.
//!
//! `crates/cli/tests/advise_error.rs` measures them again, and says how the file is made.

use std::sync::OnceLock;

const TABLE: &str = include_str!("calibration.tsv");

/// Bytes are those of the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// A changed page in a log of changes: few bytes, as expected, many. Never more than the page.
    pub delta_bytes: [f64; 3],
    /// How much of the pages that a database grows by is in the log, too: rows that were added.
    /// Cells that only moved there are not.
    pub growth_share: [f64; 3],
    /// How much of a page is not zeros, in a log that has the page whole.
    pub fill_share: [f64; 3],
    /// A checkpoint of a WAL, beside the pages that it copies: bytes of the file system, flushes.
    pub checkpoint_fs_bytes: f64,
    pub checkpoint_flushes: f64,
    /// The same with `eager`, beside pages and images of pages.
    pub eager_checkpoint_fs_bytes: f64,
    pub eager_checkpoint_flushes: f64,
    /// Each time that a log is made longer, beside its zeros.
    pub log_growth_fs_bytes: f64,
    pub log_growth_flushes: f64,
    /// A sync of the database file by `maw`.
    pub maw_sync_fs_bytes: f64,
    pub maw_sync_flushes: f64,
    /// How much longer a log becomes before a checkpoint has caught up, where many write.
    pub checkpoint_lag: f64,
    pub eager_checkpoint_lag: f64,
    /// Each 5 s in which files were written.
    pub tick_fs_bytes: f64,
    pub tick_flushes: f64,
    /// Commits a flush where 2, 4, 8 and 16 writers always wait: threads of one process with a WAL,
    /// with `eager`; processes with `eager`.
    pub threads_share: [f64; 4],
    pub eager_threads_share: [f64; 4],
    pub eager_processes_share: [f64; 4],
    /// Of `plain`, whose processes share no flush: how many the block layer makes one of.
    pub merged_share: [f64; 4],
}

/// One of the numbers that are given as three: what a page costs in a log of changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfPage {
    pub delta_bytes: f64,
    pub growth_share: f64,
    pub fill_share: f64,
}

impl Calibration {
    /// `at`: 0 few bytes, 1 as expected, 2 many.
    pub fn of_page(&self, at: usize) -> OfPage {
        OfPage {
            delta_bytes: self.delta_bytes[at],
            growth_share: self.growth_share[at],
            fill_share: self.fill_share[at],
        }
    }

    pub fn get() -> &'static Calibration {
        static READ: OnceLock<Calibration> = OnceLock::new();
        READ.get_or_init(|| Calibration::parse(TABLE).expect("a test reads the table"))
    }

    fn parse(text: &str) -> Result<Calibration, String> {
        let mut lines = Lines(
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
                .map(|line| line.split('\t').map(str::trim).collect())
                .collect(),
        );
        let calibration = Calibration {
            delta_bytes: lines.take("delta_bytes")?,
            growth_share: lines.take("growth_share")?,
            fill_share: lines.take("fill_share")?,
            checkpoint_fs_bytes: lines.one("checkpoint_fs_bytes")?,
            checkpoint_flushes: lines.one("checkpoint_flushes")?,
            eager_checkpoint_fs_bytes: lines.one("eager_checkpoint_fs_bytes")?,
            eager_checkpoint_flushes: lines.one("eager_checkpoint_flushes")?,
            log_growth_fs_bytes: lines.one("log_growth_fs_bytes")?,
            log_growth_flushes: lines.one("log_growth_flushes")?,
            maw_sync_fs_bytes: lines.one("maw_sync_fs_bytes")?,
            maw_sync_flushes: lines.one("maw_sync_flushes")?,
            checkpoint_lag: lines.one("checkpoint_lag")?,
            eager_checkpoint_lag: lines.one("eager_checkpoint_lag")?,
            tick_fs_bytes: lines.one("tick_fs_bytes")?,
            tick_flushes: lines.one("tick_flushes")?,
            threads_share: lines.take("threads_share")?,
            eager_threads_share: lines.take("eager_threads_share")?,
            eager_processes_share: lines.take("eager_processes_share")?,
            merged_share: lines.take("merged_share")?,
        };
        match lines.0.as_slice() {
            [] => Ok(calibration),
            [line, ..] => Err(format!("{:?} is no number of the model", line[0])),
        }
    }
}

struct Lines<'a>(Vec<Vec<&'a str>>);

impl Lines<'_> {
    fn take<const N: usize>(&mut self, name: &str) -> Result<[f64; N], String> {
        let found = self.0.iter().position(|line| line[0] == name);
        let line = self.0.remove(found.ok_or_else(|| format!("{name} is missing"))?);
        let numbers: Result<Vec<f64>, _> = line[1..].iter().map(|cell| cell.parse()).collect();
        let numbers = numbers.map_err(|error| format!("{name}: {error}"))?;
        let count = numbers.len();
        numbers.try_into().map_err(|_| format!("{name} has {count} numbers, not {N}"))
    }

    fn one(&mut self, name: &str) -> Result<f64, String> {
        self.take::<1>(name).map(|[number]| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_number_once_and_in_order() {
        let table = Calibration::parse(TABLE).unwrap();
        for range in [table.delta_bytes, table.growth_share, table.fill_share] {
            assert!(range.is_sorted(), "{range:?}");
        }
        for shares in [
            table.threads_share,
            table.eager_threads_share,
            table.eager_processes_share,
            table.merged_share,
        ] {
            assert!(shares.is_sorted() && shares[0] >= 1.0, "{shares:?}");
        }
        assert!(Calibration::parse("").unwrap_err().contains("is missing"));
        let more = format!("{TABLE}\nunknown\t1\n");
        assert!(Calibration::parse(&more).unwrap_err().contains("unknown"));
    }
}
