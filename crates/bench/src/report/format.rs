//! Numbers as people read them: three digits that matter.

use oneflush_measure::workload::MB;

/// 0.042, 0.421, 4.21, 42.1, 421, 4213: never more than five characters below 100,000.
pub fn significant(value: f64) -> String {
    let digits = match value.abs() {
        magnitude if magnitude >= 99.95 || magnitude == 0.0 => 0,
        magnitude if magnitude >= 9.995 => 1,
        magnitude if magnitude >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

pub fn millis(ns: u64) -> String {
    significant(ns as f64 / 1e6)
}

/// KB of 1,024 bytes, as in the literature that the figures are compared with.
pub fn kilobytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1024.0)
}

/// MB of 1,024 KB.
pub fn megabytes(bytes: f64) -> String {
    significant(bytes / MB)
}

pub fn option(value: Option<f64>, format: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_matter() {
        for (value, text) in [
            (0.0421, "0.042"),
            (0.16, "0.160"),
            (1.0, "1.00"),
            (9.999, "10.0"),
            (99.96, "100"),
            (4213.2, "4213"),
        ] {
            assert_eq!(significant(value), text);
        }
        assert_eq!(millis(161_000), "0.161");
        assert_eq!(significant(0.0), "0");
    }
}
