//! Options of a mode's strategy, as URI parameters: `+layout=pad4k+sync=pd`.

use std::fmt;

use oneflush_vfs::check_parameters;

use super::Strategy;

/// Names and values in the order of the mode's word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// From what follows the strategy's first `+`. The error says what is wrong, without the mode.
    pub fn parse(text: &str, strategy: Strategy) -> Result<Parameters, String> {
        let Strategy::Oneflush(kind) = strategy else {
            return Err("SQLite alone has no options; name one of our strategies".to_owned());
        };
        let mut given: Vec<(String, String)> = Vec::new();
        for word in text.split('+') {
            let pair = word.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            let Some((name, value)) =
                pair.filter(|(name, value)| !name.is_empty() && is_plain(value))
            else {
                return Err(format!("\"{word}\" is no option; an option is +NAME=VALUE"));
            };
            if given.iter().any(|(other, _)| other == name) {
                return Err(format!("option {name} was given twice; leave one out"));
            }
            given.push((name.to_owned(), value.to_owned()));
        }
        check_parameters(kind, &given).map_err(|error| error.to_string())?;
        Ok(Parameters(given))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `waldio` then acknowledges commits that a loss of power may take back.
    pub fn weaken_waldio(&self) -> bool {
        self.iter().any(|option| match option {
            ("sync", value) => value == "ns",
            ("group", value) => value != "0",
            _ => false,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Needs no escape in a URI.
fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|(name, value)| write!(f, "+{name}={value}"))
    }
}
