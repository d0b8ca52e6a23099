//! Messages for people: `ONEFLUSH_LOG=off|stderr|syslog|FILE`. They come in addition to SQLite's
//! error log, which few drivers can read.
//!
//! Each message is one line and one write. It says what happened, to which file, why, and the way
//! out:
//!
//! ```text
//! oneflush[3397]: /srv/app.db: …                             stderr, syslog
//! 2026-11-25T22:28:48.123Z oneflush[3397]: /srv/app.db: …    FILE
//! ```
//!
//! Who says something is a guest in its process: the VFS, or the engine LS-MVBT in the place of
//! `libsqlite3`. A message is written only where it can do no harm.
//! Invariants:
//!
//! 1. No lock is taken and nothing waits. A full pipe, a stopped terminal or a slow syslog loses
//!    the message.
//! 2. No descriptor is kept. A program may close descriptors that it does not know, and the number
//!    may then be another file's. Without one, a file that was rotated away is made anew, and a
//!    forked child has nothing stale.
//! 3. Nothing is written to a descriptor 2 that has become another file (`stderr.rs`).
//! 4. The number of lines is bounded: the same message at most once a minute, and `LINES_MAX`
//!    lines a minute in all.

mod file;
mod limit;
mod stderr;
mod syslog;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::time::{ClockId, clock_gettime};

use limit::{LINES_MAX, Limit, Verdict};
use stderr::Stderr;

/// `ONEFLUSH_LOG`: where messages go.
pub const VARIABLE: &str = "ONEFLUSH_LOG";

/// Why messages cannot go where the variable says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "environment variable ONEFLUSH_LOG: \"{word}\" is no place for messages; allowed: off, \
            stderr, syslog, or a file with a slash or a dot in its name, such as \
            ./oneflush.log [OF-824]"
    )]
    Word { word: String },
    #[error(
        "environment variable ONEFLUSH_LOG: {path}: messages cannot be written there: {reason}; \
            name another place, or off [OF-404]"
    )]
    Place { path: String, reason: String },
}

/// A longer line is cut. A pipe that can be written at all takes this much at once (`PIPE_BUF`).
const LINE_BYTES_MAX: usize = 2000;

/// The beginning of the VFS's messages in SQLite's error log.
const PREFIX: &str = "oneflush: ";

static DESTINATION: OnceLock<Destination> = OnceLock::new();
static LIMIT: Limit = Limit::new();

#[derive(Debug)]
enum Destination {
    Off,
    Stderr(Stderr),
    Syslog,
    File(PathBuf),
}

/// Chooses the destination, before the first message. A value that cannot be honoured is an error.
/// A later call changes nothing, and looks at nothing: each open of a database may make one.
pub fn begin() -> Result<(), Refused> {
    if DESTINATION.get().is_some() {
        return Ok(());
    }
    let destination = Destination::named(std::env::var_os(VARIABLE))?;
    DESTINATION.get_or_init(|| destination);
    Ok(())
}

impl Destination {
    fn named(word: Option<OsString>) -> Result<Destination, Refused> {
        let Some(word) = word.filter(|word| !word.is_empty()) else { return Ok(Destination::Off) };
        let refused = |reason| Refused::Place { path: word.to_string_lossy().into_owned(), reason };
        match word.to_str() {
            Some(word) if word.eq_ignore_ascii_case("off") => Ok(Destination::Off),
            Some(word) if word.eq_ignore_ascii_case("stderr") => {
                Ok(Stderr::now().map_or(Destination::Off, Destination::Stderr))
            }
            Some(word) if word.eq_ignore_ascii_case("syslog") => {
                syslog::is_there().map_err(|error| refused(error.to_string()))?;
                Ok(Destination::Syslog)
            }
            // A misspelt word would become a file somewhere that nobody looks at.
            Some(word) if !word.contains(['/', '.']) => {
                Err(Refused::Word { word: word.to_owned() })
            }
            _ => {
                let path =
                    std::path::absolute(&word).map_err(|error| refused(error.to_string()))?;
                file::check(&path).map_err(|error| refused(error.to_string()))?;
                Ok(Destination::File(path))
            }
        }
    }

    fn write(&self, message: &str) {
        let line = || format!("oneflush[{}]: {message}\n", std::process::id());
        match self {
            Destination::Off => {}
            Destination::Stderr(stderr) => stderr.write(&line()),
            Destination::Syslog => syslog::write(syslog::PATH.as_ref(), line().trim_end()),
            Destination::File(path) => file::write(path, &line()),
        }
    }
}

/// A thread of this library is gone.
pub fn thread_has_panicked(name: &str) {
    say(&format!("oneflush: the thread {name} has ended by an internal error [OF-245]"));
}

/// Writes a message, unless the same message was written a short time ago.
pub fn say(message: &str) {
    let Some(destination) =
        DESTINATION.get().filter(|destination| !matches!(destination, Destination::Off))
    else {
        return;
    };
    let message = one_line(message.strip_prefix(PREFIX).unwrap_or(message));
    match LIMIT.ask(&message, clock_gettime(ClockId::Monotonic).tv_sec as u64) {
        Verdict::Say => destination.write(&message),
        Verdict::SayAgain { left_out } => destination.write(&format!(
            "{message} (said {left_out} \
            more times before)"
        )),
        Verdict::TooMany => destination.write(&format!(
            "more than {LINES_MAX} messages in a minute; the others are left out, and SQLite's \
                error log has them [OF-219]"
        )),
        Verdict::LeaveOut => {}
    }
}

/// The message without characters that would end or hide the line.
fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.chars() {
        if line.len() >= LINE_BYTES_MAX {
            line.push('…');
            break;
        }
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_bounded_length() {
        assert_eq!(one_line("/a\nb\x1b[2J.db: ü"), "/a\\nb\\u{1b}[2J.db: ü");
        let long = one_line(&"ü".repeat(5000));
        assert!(long.len() <= LINE_BYTES_MAX + '…'.len_utf8() && long.ends_with('…'));
    }

    #[test]
    fn a_misspelt_word_is_no_file() {
        for word in ["stdrr", "on", "1", "yes"] {
            let error = Destination::named(Some(word.into())).unwrap_err().to_string();
            assert!(
                error.contains("environment variable ONEFLUSH_LOG") && error.contains(word),
                "{error}"
            );
            assert!(error.contains("off, stderr, syslog"), "{error}");
            assert!(!std::path::Path::new(word).exists());
        }
        for word in [None, Some("".into()), Some("OFF".into())] {
            assert!(matches!(Destination::named(word), Ok(Destination::Off)));
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_with_the_variable_and_the_file() {
        let error = Destination::named(Some("/no such folder/log".into())).unwrap_err().to_string();
        assert!(
            error.contains("environment variable ONEFLUSH_LOG: /no such folder/log"),
            "{error}"
        );
        assert!(error.contains("No such file"), "{error}");
    }
}
