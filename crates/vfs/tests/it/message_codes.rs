//! The messages and `docs/errors.md`: each message ends with its code, and each code has its entry
//! with the message's words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use oneflush_testing::house::{self, Text};

/// Where messages for people come from: folders of `crates`, or files below them.
const PLACES: [&str; 11] = [
    "blocklog/src",
    "cli/src/check.rs",
    "cli/src/convert",
    "cli/src/library.rs",
    "cli/src/mvbt",
    "cli/src/recover",
    "cli/src/run",
    "cli/src/shell.rs",
    "eagerfs/src/mount",
    "preload/src",
    "vfs/src",
];

/// The beginning of a message in SQLite's error log, and on standard error.
const PREFIXES: [&str; 2] = ["oneflush: ", "oneflush run: "];

/// Looks like a message, and nobody is told it.
const NOT_TOLD: [&str; 1] = [
    // SQLite reports the answer of the VFS below itself.
    "the VFS below answered {}",
];

struct Message {
    place: String,
    /// Without prefix and code.
    words: String,
    code: Option<String>,
    is_error: bool,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.place, self.words)
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The texts of the sources that are, or may be, messages.
fn messages() -> Vec<Message> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(crates()).unwrap() {
        let src = entry.unwrap().path().join("src");
        if src.is_dir() {
            all.extend(house::texts(&src).into_iter().map(|text| message(&src, text)));
        }
    }
    assert!(all.len() > 2000, "the sources were read");
    all
}

fn message(src: &Path, Text { file, line, text, attribute, .. }: Text) -> Message {
    let place = src.strip_prefix(crates()).unwrap().join(file);
    let mut words = text.trim_end_matches('\n');
    let is_logged = PREFIXES.iter().any(|prefix| match words.strip_prefix(prefix) {
        Some(rest) => {
            words = rest;
            true
        }
        None => false,
    });
    let (words, code) = match words.strip_suffix(']').and_then(|rest| rest.rsplit_once(" [OF-")) {
        Some((words, digits)) => (words, Some(format!("OF-{digits}"))),
        None => (words, None),
    };
    Message {
        place: format!("{}:{line}", place.display()),
        words: words.to_owned(),
        code,
        is_error: is_logged || attribute.is_some_and(|attribute| attribute == "error"),
    }
}

/// The entries of `docs/errors.md` in their order: code and message.
fn entries() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(crates().join("../docs/errors.md")).unwrap();
    let entries = text.split("\n### ").skip(1).map(|entry| {
        let (code, rest) = entry.split_once('\n').unwrap();
        let quoted = rest.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next());
        let quoted = quoted.unwrap_or_else(|| panic!("{code} quotes no message"));
        let words: Vec<&str> = quoted.split_whitespace().collect();
        (code.to_owned(), words.join(" "))
    });
    entries.collect()
}

fn is_code(text: &str) -> bool {
    text.strip_prefix("OF-")
        .is_some_and(|digits| digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The parts of a format string between its arguments.
fn parts(format: &str) -> Vec<&str> {
    let mut rest = format;
    let mut parts = Vec::new();
    while let Some((before, behind)) = rest.split_once('{') {
        parts.push(before);
        rest = behind.split_once('}').map_or("", |(_, behind)| behind);
    }
    parts.push(rest);
    parts
}

/// True if the format string can give the text, with any texts for its arguments.
fn gives(format: &str, text: &str) -> bool {
    let parts = parts(format);
    let [first, between @ .., last] = &parts[..] else { return format == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in between {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// A value such as the name of a file may stand before the message, from another place.
fn without_first_value(quoted: &str) -> &str {
    let behind = quoted.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    behind.map_or(quoted, |(_, behind)| behind.strip_prefix(": ").unwrap_or(behind))
}

#[test]
fn each_code_is_at_the_end_of_one_message_and_has_its_entry_with_the_same_words() {
    let mut of_code: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for message in messages() {
        let mut behind = message.words.split("[OF-").skip(1);
        if behind.any(|behind| behind.starts_with(|first: char| first.is_ascii_digit())) {
            wrong.push(format!("a code that is not at the end, or is no code: {message}"));
        }
        if let Some(code) = message.code.clone() {
            of_code.entry(code).or_default().push(message);
        }
    }
    let entries = entries();
    assert!(entries.len() > 100, "the document was read");
    for (code, quoted) in &entries {
        match of_code.get(code).map(Vec::as_slice) {
            None | Some([]) => wrong.push(format!("{code} has an entry, and no message")),
            Some([message]) => {
                let fits = |quoted: &str| gives(&message.words, quoted);
                if !fits(quoted) && !fits(without_first_value(quoted)) {
                    wrong.push(format!("{code} is quoted as {quoted:?}, and is {message}"));
                }
            }
            Some([first, second, ..]) => {
                wrong.push(format!("{code} is the code of {first} and of {second}"));
            }
        }
    }
    let known: BTreeSet<&String> = entries.iter().map(|(code, _)| code).collect();
    for code in of_code.keys().filter(|code| !known.contains(code)) {
        wrong.push(format!("{code} has no entry: {}", of_code[code][0]));
    }
    for pair in entries.windows(2) {
        if pair[0].0 >= pair[1].0 {
            wrong.push(format!("{} stands before {}", pair[0].0, pair[1].0));
        }
    }
    wrong.extend(entries.iter().filter(|(code, _)| !is_code(code)).map(|(code, _)| code.clone()));
    assert!(wrong.is_empty(), "docs/errors.md: {wrong:#?}");
}

/// A message that only passes another one on has that one's code.
#[test]
fn each_error_and_each_line_of_the_log_has_a_code() {
    let has_words = |message: &Message| {
        parts(&message.words).iter().any(|part| part.contains(char::is_alphabetic))
    };
    let without: Vec<String> = messages()
        .iter()
        .filter(|message| PLACES.iter().any(|place| message.place.starts_with(place)))
        .filter(|message| message.is_error && message.code.is_none() && has_words(message))
        .filter(|message| !NOT_TOLD.contains(&message.words.as_str()))
        .map(Message::to_string)
        .collect();
    assert!(without.is_empty(), "{without:#?}");
}
