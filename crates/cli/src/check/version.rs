//! Which SQLite the bytes of a program or a library have.
//!
//! | looked for | what it tells |
//! |---|---|
//! | a message of `vdbe.c` | SQLite is in it. A shell or a driver has names and dates alone |
//! | `SQLITE_SOURCE_ID`, not that of FTS5 | the date of the check-in |
//! | `3.x.y` and a zero, the one nearest to it | `sqlite3_version` |

use std::fmt;

use memchr::memmem;

const OF_SQLITE: &[u8] = b"cannot start a transaction within a transaction";
/// A message of the VFS.
const OF_ONEFLUSH: &[u8] = b"PRAGMA oneflush_stats takes no value";
/// FTS5 has a date of its own in each SQLite.
const OF_FTS5: &[u8] = b"fts5: ";

/// `2022-12-28 14:03:47`, a space and a hash. Who changes the source changes the hash's end.
const DATE_BYTES: usize = 19;
///
/// `d` is a digit, `h` one of a hash. So it does not fit itself in this program.
const SOURCE_ID: &[u8] = b"20dd-dd-dd dd:dd:dd hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh";

/// The date of 3.51.3, the first version on the trunk without the WAL-reset bug.
const WITHOUT_BUG_SINCE: &str = "2026-03-13";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// As `sqlite3_libversion_number` has it.
    number: Option<i32>,
    /// Of the check-in that it was made of.
    date: Option<String>,
}

/// What a file has that a process has mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub sqlite: Option<Version>,
    pub has_oneflush: bool,
}

impl Content {
    pub fn of(bytes: &[u8]) -> Content {
        Content {
            sqlite: memmem::find(bytes, OF_SQLITE).map(|_| Version::of(bytes)),
            has_oneflush: memmem::find(bytes, OF_ONEFLUSH).is_some(),
        }
    }
}

impl Version {
    fn of(bytes: &[u8]) -> Version {
        let source_id = memmem::find_iter(bytes, b"20")
            .find(|&at| is_source_id(&bytes[at..]) && !bytes[..at].ends_with(OF_FTS5));
        let Some(at) = source_id else { return Version { number: None, date: None } };
        let nearest = memmem::find_iter(bytes, b"3.")
            .filter_map(|found| Some((found.abs_diff(at), number_at(bytes, found)?)))
            .min();
        let date = String::from_utf8_lossy(&bytes[at..at + DATE_BYTES]).into_owned();
        Version { number: nearest.map(|(_, number)| number), date: Some(date) }
    }

    /// None: it cannot be told.
    pub fn has_wal_reset_bug(&self) -> Option<bool> {
        match (self.number, &self.date) {
            (Some(number), _) => Some(oneflush_vfs::has_wal_reset_bug(number)),
            (None, Some(date)) => Some(date.as_str() < WITHOUT_BUG_SINCE),
            (None, None) => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.number, &self.date) {
            (Some(number), _) => {
                write!(f, "SQLite 3.{}.{}", number / 1000 % 1000, number % 1000)
            }
            (None, Some(date)) => write!(f, "SQLite of {}", &date[..10]),
            (None, None) => f.write_str("SQLite of an unknown version"),
        }
    }
}

fn is_source_id(bytes: &[u8]) -> bool {
    bytes.len() >= SOURCE_ID.len()
        && SOURCE_ID.iter().zip(bytes).skip(2).all(|(kind, byte)| match kind {
            b'd' => byte.is_ascii_digit(),
            b'h' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            _ => kind == byte,
        })
}

/// `3.40.1` and a zero behind it, and no digit or dot before it.
fn number_at(bytes: &[u8], at: usize) -> Option<i32> {
    if at.checked_sub(1).is_some_and(|before| matches!(bytes[before], b'0'..=b'9' | b'.')) {
        return None;
    }
    let (minor, rest) = two_digits(&bytes[at + 2..])?;
    let (patch, rest) = two_digits(rest.strip_prefix(b".")?)?;
    (rest.first() == Some(&0)).then_some(3_000_000 + minor * 1000 + patch)
}

fn two_digits(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let digits = bytes.iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()?;
    Some((number, &bytes[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "2022-12-28 14:03:47 \
        df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45ae7b9c5e82ad8197f3alt1";
    const OF_FTS5: &str = "fts5: 2021-01-01 00:00:00 \
        df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45ae7b9c5e82ad8197f38a24";
    const MESSAGE: &str = "cannot start a transaction within a transaction";

    fn version(parts: &[&str]) -> Option<Version> {
        Content::of(parts.join("\0").as_bytes()).sqlite
    }

    #[test]
    fn a_library_is_known_by_its_source_id_and_the_version_beside_it() {
        let far = "x".repeat(5000);
        let found =
            version(&["3.11.7", &far, MESSAGE, OF_FTS5, "13.9.2", ID, "3.40.1", "", &far]).unwrap();
        assert_eq!(found.to_string(), "SQLite 3.40.1");
        assert_eq!(found.date.as_deref(), Some("2022-12-28 14:03:47"));
        assert_eq!(found.has_wal_reset_bug(), Some(true));
        let dated = version(&[MESSAGE, ID, "3.x"]).unwrap();
        assert_eq!(
            (dated.to_string().as_str(), dated.has_wal_reset_bug()),
            ("SQLite of 2022-12-28", Some(true))
        );
        let unknown = version(&[MESSAGE, OF_FTS5, "3.40.1", ""]).unwrap();
        assert_eq!(unknown.has_wal_reset_bug(), None);
    }

    /// The sqlite3 shell compares the source-id with that of its library.
    #[test]
    fn a_shell_that_has_only_the_source_id_is_no_sqlite() {
        assert_eq!(version(&[ID, "3.40.1", ""]), None);
        assert_eq!(Content::of(b""), Content::default());
        assert!(Content::of(b"-PRAGMA oneflush_stats takes no value-").has_oneflush);
    }

    #[test]
    fn versions_with_the_bug_are_told_from_those_without() {
        for (text, has) in
            [("3.51.2", true), ("3.51.3", false), ("3.50.7", false), ("3.54.1", false)]
        {
            let found = version(&[MESSAGE, ID, text, ""]).unwrap();
            assert_eq!(found.has_wal_reset_bug(), Some(has), "{text}");
        }
    }

    #[test]
    fn bytes_that_end_too_early_are_no_version() {
        for text in ["3.", "3.4", "3.40", "3.40.", "3.40.1", "3..1\0", "3.400.1\0"] {
            assert_eq!(number_at(text.as_bytes(), 0), None, "{text}");
        }
        for len in 0..SOURCE_ID.len() {
            assert!(!is_source_id(&ID.as_bytes()[..len]));
        }
        assert!(is_source_id(ID.as_bytes()) && !is_source_id(SOURCE_ID));
    }
}
