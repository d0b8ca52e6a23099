//! A probe as people read it, in 80 columns.

use std::fmt;

use oneflush_vfs::Verdict;

use super::{DirectIo, Probe};

const TEXT_COLUMNS_MAX: usize = 62;

/// What a strategy does here, in lines.
pub fn verdict(verdict: &Verdict) -> Vec<String> {
    let does = match (verdict.refuses, &verdict.reason) {
        (true, Some(reason)) => format!("refuses: {reason}"),
        (_, Some(reason)) => format!("works, and says: {reason}"),
        (_, None) => "works".to_owned(),
    };
    wrapped(&does)
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > TEXT_COLUMNS_MAX {
            lines.push(word.to_owned());
        } else {
            let gap = if lines[last].is_empty() { "" } else { " " };
            lines[last] += &format!("{gap}{word}");
        }
    }
    lines
}

fn line(f: &mut fmt::Formatter<'_>, label: &str, text: String) -> fmt::Result {
    let text: String = text.chars().take(TEXT_COLUMNS_MAX).collect();
    writeln!(f, "{label:<17} {text}")
}

impl Probe {
    fn write_device(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => {
                line(f, "device", device.to_string())?;
                line(
                    f,
                    "write cache",
                    if device.write_cache.is_empty() {
                        "unknown".into()
                    } else {
                        device.write_cache.clone()
                    },
                )?;
                line(f, "FUA", if device.fua { "yes" } else { "no" }.into())?;
            }
            None => line(f, "device", "none of its own: write cache and FUA are unknown".into())?,
        }
        Ok(())
    }

    /// What device and file system offer beyond plain reads and writes.
    fn write_abilities(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direct_io = match self.direct_io {
            DirectIo::Refused => "refused".to_owned(),
            DirectIo::Unknown => "accepted; this kernel does not tell the alignment".to_owned(),
            DirectIo::Aligned { memory_bytes, offset_bytes } => {
                format!("memory aligned to {memory_bytes} B, offset and size to {offset_bytes} B")
            }
        };
        line(f, "direct I/O", direct_io)?;
        let atomic = match self.atomic_write {
            Some(atomic) => format!(
                "{} to {} B, {} segment(s), best up to {} B; no provider",
                atomic.unit_bytes_min,
                atomic.unit_bytes_max,
                atomic.segments_max,
                atomic.unit_bytes_max_opt
            ),
            None => "not offered here".to_owned(),
        };
        line(f, "RWF_ATOMIC", atomic)?;
        if let Some(sync) = &self.zfs_sync {
            line(f, "ZFS sync", sync.clone())?;
        }
        Ok(())
    }

    fn write_latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.latencies.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:<32} {:>10} {:>10}", "4 KiB write", "p50 µs", "p99 µs")?;
        for latency in &self.latencies {
            let us = |ns: u64| ns as f64 / 1e3;
            writeln!(
                f,
                "{:<32} {:>10.1} {:>10.1}",
                latency.what.label(),
                us(latency.p50_ns),
                us(latency.p99_ns)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "directory", self.dir.display().to_string())?;
        line(f, "file system", format!("{} {}", self.fs, self.mount_options))?;
        self.write_device(f)?;
        self.write_abilities(f)?;
        line(f, "tried", "what the strategies rely on".into())?;
        for tried in &self.tried {
            let said = tried.fails.clone().unwrap_or_else(|| "works".to_owned());
            let mut label = format!("  {}", tried.what);
            for text in wrapped(&said) {
                line(f, &std::mem::take(&mut label), text)?;
            }
        }
        line(f, "atomic commits", "what strategy maw can make them with".into())?;
        for provider in &self.atomic_providers {
            let said = match &provider.fails {
                Some(reason) => format!("no: {reason}"),
                None => "works".to_owned(),
            };
            let mut label = format!("  {}", provider.name);
            for text in wrapped(&said) {
                line(f, &std::mem::take(&mut label), text)?;
            }
        }
        line(f, "strategies", self.strategies.join(", "))?;
        for of_strategy in &self.ground {
            let mut label = format!("  {}", of_strategy.strategy);
            for text in verdict(of_strategy) {
                line(f, &std::mem::take(&mut label), text)?;
            }
        }
        self.write_latencies(f)
    }
}
