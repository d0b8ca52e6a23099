//! Times in UTC as text: RFC 3339 with nanoseconds, `2026-11-28T22:44:10.123456789Z`.

use std::time::{Duration, UNIX_EPOCH};

const DAYS_OF_400_YEARS: i64 = 146_097;
/// Days from March 1st of the year 0 to the begin of 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

/// `unix_ns`: nanoseconds since the begin of 1970.
pub(crate) fn text(unix_ns: u64) -> String {
    // 64 bits end in the year 2554.
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string()
}

/// `2026-11-28`, of a day counted from 1970, also before. Each day has a text of its own.
///
/// Days are counted from March 1st of the year 0, so that a leap day ends its year (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms").
pub fn date(day: i64) -> String {
    let days = day + DAYS_BEFORE_1970;
    let (era, day_of_era) =
        (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Nanoseconds since the begin of 1970; `None` if it is no such text. A fraction may be short or
/// missing; digits after the ninth do not count.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let since_1970 = humantime::parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    since_1970.as_nanos().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS_PER_S: u64 = 1_000_000_000;
    const NS_PER_DAY: u64 = 86_400 * NS_PER_S;

    #[test]
    fn known_moments_have_their_text_and_come_back() {
        for (unix_s, ns, known) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, 1, "2000-02-28T23:59:59.000000001Z"),
            (951_868_799, 999_999_999, "2000-02-29T23:59:59.999999999Z"),
            (951_868_800, 0, "2000-03-01T00:00:00.000000000Z"),
            (1_795_905_850, 123_456_789, "2026-11-28T22:44:10.123456789Z"),
            (4_107_542_399, 0, "2100-02-28T23:59:59.000000000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
        ] {
            let unix_ns = unix_s * NS_PER_S + ns;
            assert_eq!(text(unix_ns), known);
            assert_eq!(parse(known), Some(unix_ns), "{known}");
        }
    }

    #[test]
    fn each_day_has_a_name_of_its_own() {
        for (day, name) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (20_785, "2026-11-28"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "10000-01-01"),
        ] {
            assert_eq!(date(day), name);
        }
    }

    #[test]
    fn every_day_of_a_century_comes_back() {
        for day in 0..50_000 {
            let unix_ns = day * NS_PER_DAY;
            assert_eq!(parse(&text(unix_ns)), Some(unix_ns));
        }
    }

    #[test]
    fn a_fraction_may_be_short_long_or_missing_and_other_text_is_none() {
        assert_eq!(parse("1970-01-01T00:00:01Z"), Some(NS_PER_S));
        assert_eq!(parse("1970-01-01T00:00:01.5Z"), Some(3 * NS_PER_S / 2));
        assert_eq!(parse("1970-01-01T00:00:01.0000000019Z"), Some(NS_PER_S + 1));
        for text in [
            "",
            "Z",
            "1970-01-01",
            "1970-01-01T00:00:01",
            "1969-12-31T23:59:59Z",
            "1970-13-01T00:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00Z",
            "1970-1-1T00:00:00Z",
            "+970-01-01T00:00:00Z",
            "9999-12-31T00:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
