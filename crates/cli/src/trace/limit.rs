//! What `--rotate` takes: a size, a time, or both.
//!
//! `m` could be minutes or megabytes. So a size's unit begins with a capital letter, as `64M`, and
//! a time's units are small ones, as `10m`. A number without a unit is neither.

use std::time::Duration;

use oneflush_trace::record::Limit;

use crate::size;

/// Below these, a file would mostly be its head.
const BYTES_LEAST: u64 = 64 << 10;
const TIME_LEAST: Duration = Duration::from_secs(1);

pub fn parse(text: &str) -> Result<Limit, String> {
    let mut limit = Limit::default();
    for part in text.split(',') {
        let is_given_twice = match one(part)? {
            Limit { bytes: Some(bytes), .. } => limit.bytes.replace(bytes).is_some(),
            Limit { time, .. } => std::mem::replace(&mut limit.time, time).is_some(),
        };
        if is_given_twice {
            return Err(format!("{part:?} is the second of its kind; give one size and one time"));
        }
    }
    Ok(limit)
}

fn one(text: &str) -> Result<Limit, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let wrong = |why: &str| {
        format!("{text:?} {why}; give a size such as 64M, a time such as 10m (minutes), or 64M,10m")
    };
    if unit.is_empty() {
        return Err(wrong("has no unit"));
    }
    if unit.starts_with(|letter: char| letter.is_ascii_uppercase()) {
        let bytes = size::parse(text).map_err(|why| wrong(&format!("is no size: {why}")))?;
        if bytes < BYTES_LEAST {
            return Err(wrong("is too small: a file has at least 64K"));
        }
        return Ok(Limit { bytes: Some(bytes), time: None });
    }
    // In humantime's units M is a month.
    if text.contains(|letter: char| letter.is_ascii_uppercase()) {
        return Err(wrong("is neither a size nor a time"));
    }
    let time = humantime::parse_duration(text)
        .map_err(|why| wrong(&format!("is no time, whose units are small letters: {why}")))?;
    if time < TIME_LEAST {
        return Err(wrong("is too short: a file has at least 1s"));
    }
    Ok(Limit { bytes: None, time: Some(time) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes: Option<u64>, seconds: Option<u64>) -> Result<Limit, String> {
        Ok(Limit { bytes, time: seconds.map(Duration::from_secs) })
    }

    #[test]
    fn a_capital_unit_is_a_size_and_a_small_one_a_time() {
        for (text, bytes, seconds) in [
            ("64M", Some(64 << 20), None),
            ("64K", Some(64 << 10), None),
            ("1GiB", Some(1 << 30), None),
            ("10m", None, Some(600)),
            ("10min", None, Some(600)),
            ("1h 30m", None, Some(5400)),
            ("1h30m", None, Some(5400)),
            ("1s", None, Some(1)),
            ("7days", None, Some(7 * 86_400)),
            ("64M,10m", Some(64 << 20), Some(600)),
            ("1d,1G", Some(1 << 30), Some(86_400)),
        ] {
            assert_eq!(parse(text), limit(bytes, seconds), "{text}");
        }
    }

    #[test]
    fn what_is_unclear_too_small_or_given_twice_is_refused_with_the_way_out() {
        for (text, word) in [
            ("64", "no unit"),
            ("", "no unit"),
            ("64M,", "no unit"),
            ("64mb", "no time"),
            ("64k", "no time"),
            ("10 M", "neither"),
            ("M", "no size"),
            ("64X", "no size"),
            ("1.5G", "neither"),
            ("-1m", "no time"),
            ("1K", "at least 64K"),
            ("10ms", "at least 1s"),
            ("0s", "at least 1s"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word) && error.contains("64M,10m"), "{text}: {error}");
        }
        for text in ["64M,32M", "1m,2m", "1m,64M,2m"] {
            assert!(parse(text).unwrap_err().contains("second of its kind"), "{text}");
        }
    }
}
