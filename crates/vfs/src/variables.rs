//! Environment variables that begin as Oneflush's do and mean nothing.
//!
//! A misspelt option would silently not be in force, so it is reported.

use crate::config::Options;

/// The beginning of all variables of Oneflush.
const PREFIX: &str = "ONEFLUSH_";

/// The variables that are no options: of this crate, of the program and its preload library, of the
/// build's tests and clients.
const OTHERS: [&str; 16] = [
    "ONEFLUSH_DEFAULT",
    "ONEFLUSH_LOG",
    "ONEFLUSH_TRACE",
    "ONEFLUSH_TRACE_MARKER",
    "ONEFLUSH_EXTENSION",
    "ONEFLUSH_EXPECTED_VERSION",
    "ONEFLUSH_RUN_PID",
    "ONEFLUSH_RUN_REQUIRE",
    "ONEFLUSH_RUN_STDERR",
    "ONEFLUSH_RUN_TOLD",
    "ONEFLUSH_SHELL_SOURCE",
    "ONEFLUSH_BUILT",
    "ONEFLUSH_EXTENSION_PATH",
    "ONEFLUSH_LIBRARY",
    "ONEFLUSH_PROGRAM",
    "ONEFLUSH_PERFETTO_UI",
];

/// A name with more differences than this was not meant.
const DIFFERENCES_MAX: usize = 3;

/// A message for each variable that means nothing to Oneflush.
pub fn unknown(names: impl Iterator<Item = String>) -> Vec<String> {
    let known = known();
    let is_unknown = |name: &String| {
        let is_of_tests = name.starts_with("ONEFLUSH_TEST_") || name.ends_with("_AT");
        name.starts_with(PREFIX) && !is_of_tests && !known.contains(name)
    };
    names.filter(is_unknown).map(|name| message(&name, &known)).collect()
}

fn message(name: &str, known: &[String]) -> String {
    let way_out = did_you_mean(name, known)
        .unwrap_or_else(|| "docs/use.md lists those that have one".to_owned());
    format!(
        "oneflush: environment variable {name} is not known to Oneflush {} and has no effect; \
            {way_out} [OF-406]",
        crate::VERSION
    )
}

/// The name that was meant, if one of the known ones is near.
pub fn did_you_mean(name: &str, known: &[String]) -> Option<String> {
    let nearest = known.iter().map(|known| (differences(name, known), known)).min();
    nearest
        .filter(|(differences, _)| *differences <= DIFFERENCES_MAX)
        .map(|(_, nearest)| format!("did you mean {nearest}?"))
}

/// All known names. The options are asked for theirs, so that none can be forgotten.
fn known() -> Vec<String> {
    let names = std::cell::RefCell::new(OTHERS.map(str::to_owned).to_vec());
    // With every variable unset there is nothing to refuse.
    let _ = Options::from_environment(|name| {
        names.borrow_mut().push(name.to_owned());
        None
    });
    names.into_inner()
}

/// How many letters have to be inserted, removed or changed (Levenshtein).
fn differences(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other_letter) in other.bytes().enumerate() {
            let change = diagonal + usize::from(letter != other_letter);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_of(name: &str) -> Vec<String> {
        unknown(std::iter::once(name.to_owned()))
    }

    #[test]
    fn a_misspelt_variable_is_said_with_the_one_that_was_meant() {
        for (name, meant) in [
            ("ONEFLUSH_STRATEGIE", "ONEFLUSH_STRATEGY"),
            ("ONEFLUSH_GROUPCOMMIT", "ONEFLUSH_GROUP_COMMIT"),
            ("ONEFLUSH_LOGSIZE", "ONEFLUSH_LOG_SIZE"),
            ("ONEFLUSH_DURABLITY", "ONEFLUSH_DURABILITY"),
        ] {
            let messages = unknown_of(name);
            assert_eq!(messages.len(), 1);
            assert!(
                messages[0].contains(name)
                    && messages[0].contains(&format!("did you mean {meant}?")),
                "{messages:?}"
            );
        }
        assert!(unknown_of("ONEFLUSH_COLOUR_OF_THE_SKY")[0].contains("docs/use.md"));
    }

    #[test]
    fn known_variables_and_those_of_others_are_not_complained_of() {
        let options = [
            "STRATEGY",
            "DURABILITY",
            "GROUP_COMMIT",
            "LOG_SIZE",
            "PREALLOC",
            "KEEP_WAL",
            "CHECKPOINTS",
        ];
        let others = [
            "DEFAULT",
            "LOG",
            "TRACE",
            "BUILT",
            "PROGRAM",
            "EXTENSION_PATH",
            "KILL_AT",
            "TEST_CHILD",
        ];
        for name in options.into_iter().chain(others) {
            assert_eq!(unknown_of(&format!("ONEFLUSH_{name}")), Vec::<String>::new(), "{name}");
        }
        assert_eq!(unknown_of("PATH"), Vec::<String>::new());
    }

    #[test]
    fn differences_are_counted_by_letters() {
        for (one, other, count) in
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("flaw", "lawn", 2)]
        {
            assert_eq!(differences(one, other), count);
        }
    }
}
