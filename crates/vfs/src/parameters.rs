//! URI parameters that a person names as options of a strategy, checked before anything is opened.
//!
//! SQLite looks parameters up by name, so nobody would see a misspelt one. A program that takes
//! them from its user asks here first.

use std::cell::RefCell;

use crate::config::{OptionError, Options, StrategyKind};
use crate::variables::did_you_mean;

/// A parameter of its own in every URI.
const STRATEGY: &str = "strategy";

/// Whether a URI with this strategy and these parameters, names and values, means what it says.
pub fn check_parameters(
    strategy: StrategyKind,
    given: &[(String, String)],
) -> Result<(), OptionError> {
    // The options are asked for the names that they look up, so that none can be forgotten.
    let names = RefCell::new(Vec::new());
    let lookup = |name: &str| {
        if name == STRATEGY {
            return Some(strategy.name().to_owned());
        }
        names.borrow_mut().push(name.to_owned());
        None
    };
    Options::default().with_uri(lookup)?;
    let names = names.into_inner();
    if let Some((name, _)) = given.iter().find(|(name, _)| !names.contains(name)) {
        let way_out = did_you_mean(name, &names)
            .unwrap_or_else(|| format!("with {strategy} it knows: {}", names.join(", ")));
        return Err(OptionError::UnknownParameter {
            name: name.clone(),
            version: crate::VERSION,
            way_out,
        });
    }
    let lookup = |name: &str| {
        if name == STRATEGY {
            return Some(strategy.name().to_owned());
        }
        given.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone())
    };
    Options::default().with_uri(lookup).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(strategy: StrategyKind, name: &str, value: &str) -> Result<(), String> {
        check_parameters(strategy, &[(name.to_owned(), value.to_owned())])
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_vfs_knows_passes_and_its_message_names_a_wrong_value() {
        assert_eq!(check(StrategyKind::Plain, "prealloc", "65536"), Ok(()));
        let message = check(StrategyKind::Plain, "prealloc", "64K").unwrap_err();
        assert!(message.contains("URI parameter prealloc: \"64K\""), "{message}");
        let message = check(StrategyKind::Stock, "durability", "full").unwrap_err();
        assert!(message.contains("changes nothing"), "{message}");
    }

    #[test]
    fn a_parameter_that_means_nothing_is_named_with_what_was_meant_or_what_there_is() {
        let message = check(StrategyKind::Plain, "preallok", "0").unwrap_err();
        assert!(
            message.contains("preallok") && message.contains("did you mean prealloc?"),
            "{message}"
        );
        for name in ["immutable", "vfs", "strategy"] {
            let message = check(StrategyKind::Plain, name, "1").unwrap_err();
            assert!(message.contains(name) && message.contains("keep_wal"), "{message}");
        }
    }
}
