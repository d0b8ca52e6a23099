//! One line of the answer, and what to do about it.

use serde::Serialize;

use crate::output::folded;

/// The worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// It could not be looked at.
    Unknown,
    Warn,
    Fault,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Unknown => "?",
            Status::Warn => "WARN",
            Status::Fault => "FAULT",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub about: &'static str,
    pub status: Status,
    pub says: String,
    /// What to do. None: nothing is to be done.
    pub way_out: Option<String>,
}

impl Finding {
    pub fn ok(about: &'static str, says: impl Into<String>) -> Finding {
        Finding { about, status: Status::Ok, says: says.into(), way_out: None }
    }

    pub fn new(
        status: Status,
        about: &'static str,
        says: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Finding {
        Finding { about, status, says: says.into(), way_out: Some(way_out.into()) }
    }

    /// A reason and its way out are often one text: "a sync may be lost; use a local disk".
    pub fn of_reason(status: Status, about: &'static str, text: &str, otherwise: &str) -> Finding {
        let (says, way_out) = text.rsplit_once("; ").unwrap_or((text, otherwise));
        Finding::new(status, about, says, way_out)
    }
}

const LINE_CHARS_MAX: usize = 80;
const STATUS_CHARS: usize = 6;
const ABOUT_CHARS: usize = 9;
/// The columns before the text.
const BEFORE_TEXT: usize = 2 + STATUS_CHARS + ABOUT_CHARS;

pub fn table(name: &str, findings: &[Finding]) -> String {
    let mut text = format!("{name}\n");
    for Finding { about, status, says, way_out } in findings {
        let mut begin = format!("  {:STATUS_CHARS$}{about:ABOUT_CHARS$}", status.word());
        let way_out = way_out.iter().map(|way_out| format!("do: {way_out}"));
        for part in std::iter::once(says.clone()).chain(way_out) {
            for line in folded(&part, LINE_CHARS_MAX - BEFORE_TEXT) {
                text += &format!("{begin}{line}\n");
                begin = " ".repeat(BEFORE_TEXT);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_80_columns_and_what_to_do_has_its_own() {
        let long = "a reason that is so long that it needs more than the one line that it begins";
        let findings = [
            Finding::ok("place", "ext4"),
            Finding::of_reason(Status::Fault, "locks", &format!("{long}; use a disk"), ""),
            Finding::of_reason(Status::Unknown, "users", "nothing is seen", "run as root"),
        ];
        let text = table("a.db", &findings);
        assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX), "{text}");
        for line in [
            "a.db",
            "  ok    place    ext4",
            "                 do: use a disk",
            "  ?     users    nothing is seen",
            "                 do: run as root",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.contains("\n  FAULT locks    a reason"), "{text}");
        assert!(Status::Fault > Status::Warn && Status::Warn > Status::Unknown);
    }
}
