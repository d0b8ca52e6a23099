//! The numbers that no rule of a strategy gives, from `calibration.tsv`.
//!
//! `crates/cli/tests/it/advise_error.rs` fits them again.

use std::fmt;
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
    pub(super) fn of_page(&self, at: usize) -> OfPage {
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

    /// Every number with its name, in the order of the table. Of a range the middle one.
    pub fn numbers(&mut self) -> Vec<(String, &mut f64)> {
        let mut all: Vec<(String, &mut f64)> = Vec::new();
        for (name, [_, likely, _]) in [
            ("delta_bytes", &mut self.delta_bytes),
            ("growth_share", &mut self.growth_share),
            ("fill_share", &mut self.fill_share),
        ] {
            all.push((name.to_owned(), likely));
        }
        for (name, number) in [
            ("checkpoint_fs_bytes", &mut self.checkpoint_fs_bytes),
            ("checkpoint_flushes", &mut self.checkpoint_flushes),
            ("checkpoint_lag", &mut self.checkpoint_lag),
            ("eager_checkpoint_fs_bytes", &mut self.eager_checkpoint_fs_bytes),
            ("eager_checkpoint_flushes", &mut self.eager_checkpoint_flushes),
            ("eager_checkpoint_lag", &mut self.eager_checkpoint_lag),
            ("log_growth_fs_bytes", &mut self.log_growth_fs_bytes),
            ("log_growth_flushes", &mut self.log_growth_flushes),
            ("maw_sync_fs_bytes", &mut self.maw_sync_fs_bytes),
            ("maw_sync_flushes", &mut self.maw_sync_flushes),
            ("tick_fs_bytes", &mut self.tick_fs_bytes),
            ("tick_flushes", &mut self.tick_flushes),
        ] {
            all.push((name.to_owned(), number));
        }
        for (name, numbers) in [
            ("threads_share", &mut self.threads_share),
            ("eager_threads_share", &mut self.eager_threads_share),
            ("eager_processes_share", &mut self.eager_processes_share),
            ("merged_share", &mut self.merged_share),
        ] {
            for (writers, number) in [2, 4, 8, 16].into_iter().zip(numbers) {
                all.push((format!("{name} of {writers}"), number));
            }
        }
        all
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
            checkpoint_lag: lines.one("checkpoint_lag")?,
            eager_checkpoint_fs_bytes: lines.one("eager_checkpoint_fs_bytes")?,
            eager_checkpoint_flushes: lines.one("eager_checkpoint_flushes")?,
            eager_checkpoint_lag: lines.one("eager_checkpoint_lag")?,
            log_growth_fs_bytes: lines.one("log_growth_fs_bytes")?,
            log_growth_flushes: lines.one("log_growth_flushes")?,
            maw_sync_fs_bytes: lines.one("maw_sync_fs_bytes")?,
            maw_sync_flushes: lines.one("maw_sync_flushes")?,
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

/// As in the table.
impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, numbers: &[f64]| {
            let cells: Vec<String> = numbers.iter().map(|number| (*number).to_string()).collect();
            writeln!(f, "{name}\t{}", cells.join("\t"))
        };
        line("delta_bytes", &self.delta_bytes)?;
        line("growth_share", &self.growth_share)?;
        line("fill_share", &self.fill_share)?;
        line("checkpoint_fs_bytes", &[self.checkpoint_fs_bytes])?;
        line("checkpoint_flushes", &[self.checkpoint_flushes])?;
        line("checkpoint_lag", &[self.checkpoint_lag])?;
        line("eager_checkpoint_fs_bytes", &[self.eager_checkpoint_fs_bytes])?;
        line("eager_checkpoint_flushes", &[self.eager_checkpoint_flushes])?;
        line("eager_checkpoint_lag", &[self.eager_checkpoint_lag])?;
        line("log_growth_fs_bytes", &[self.log_growth_fs_bytes])?;
        line("log_growth_flushes", &[self.log_growth_flushes])?;
        line("maw_sync_fs_bytes", &[self.maw_sync_fs_bytes])?;
        line("maw_sync_flushes", &[self.maw_sync_flushes])?;
        line("tick_fs_bytes", &[self.tick_fs_bytes])?;
        line("tick_flushes", &[self.tick_flushes])?;
        line("threads_share", &self.threads_share)?;
        line("eager_threads_share", &self.eager_threads_share)?;
        line("eager_processes_share", &self.eager_processes_share)?;
        line("merged_share", &self.merged_share)
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

    #[test]
    fn the_table_is_written_as_it_is_read() {
        let mut table = Calibration::parse(TABLE).unwrap();
        assert_eq!(Calibration::parse(&table.to_string()).unwrap(), table);
        assert_eq!(table.numbers().len(), 3 + 12 + 4 * 4);
    }
}
