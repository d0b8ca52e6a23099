//! Times in UTC as text: RFC 3339 with nanoseconds, `2026-11-28T22:44:10.123456789Z`.
//!
//! Days are counted from March 1st of the year 0, so that a leap day ends its year (Howard Hinnant,
//! "chrono-Compatible Low-Level Date Algorithms").

const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: u64 = 86_400;
const DAYS_OF_400_YEARS: u64 = 146_097;
/// Days from March 1st of the year 0 to the begin of 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// `unix_ns`: nanoseconds since the begin of 1970.
pub(crate) fn text(unix_ns: u64) -> String {
    let (seconds, ns) = (unix_ns / NS_PER_S, unix_ns % NS_PER_S);
    let (day, second) = (seconds / S_PER_DAY, seconds % S_PER_DAY);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Days of so many nanoseconds are far from the bound.
    format!("{}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z", date(day as i64))
}

/// `2026-11-28`, of a day counted from 1970, also before. Each day has a text of its own.
pub fn date(day: i64) -> String {
    let days = day + DAYS_BEFORE_1970 as i64;
    let (era, day_of_era) =
        (days.div_euclid(DAYS_OF_400_YEARS as i64), days.rem_euclid(DAYS_OF_400_YEARS as i64));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Nanoseconds since the begin of 1970; `None` if it is no such text. A fraction has 1 to 9 digits,
/// or is missing.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    if fraction.is_empty() || fraction.len() > 9 || !is_digits(fraction) {
        return None;
    }
    let ns = fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32);
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1970;
    // Second 60: a leap second.
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * DAYS_OF_400_YEARS + day_of_era).checked_sub(DAYS_BEFORE_1970)?;
    let seconds = days * S_PER_DAY + hour * 3600 + minute * 60 + second;
    seconds.checked_mul(NS_PER_S)?.checked_add(ns)
}

fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits && is_digits(part))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let unix_ns = day * S_PER_DAY * NS_PER_S;
            assert_eq!(parse(&text(unix_ns)), Some(unix_ns));
        }
    }

    #[test]
    fn a_fraction_may_be_short_or_missing_and_other_text_is_none() {
        assert_eq!(parse("1970-01-01T00:00:01Z"), Some(NS_PER_S));
        assert_eq!(parse("1970-01-01T00:00:01.5Z"), Some(3 * NS_PER_S / 2));
        for text in [
            "",
            "Z",
            "1970-01-01",
            "1970-01-01T00:00:01",
            "1970-01-01T00:00:01.Z",
            "1970-01-01T00:00:01.1234567890Z",
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
