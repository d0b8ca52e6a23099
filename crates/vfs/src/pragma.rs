//! The PRAGMAs that the VFS answers.

use std::path::Path;

use crate::connection::Connection;
use crate::who::{Asker, to_json, who};

/// What SQLite gets for a PRAGMA: one row with one column, or an error with its message.
pub type Answer = Result<String, String>;

/// The answer to a PRAGMA. None: it is not one of Oneflush's, and SQLite goes on with it.
///
/// `inactive` says why the strategy changes nothing now, if so.
pub fn answer(
    connection: &Connection,
    name: &str,
    value: Option<&str>,
    inactive: impl FnOnce() -> Option<String>,
) -> Option<Answer> {
    let name = name.to_ascii_lowercase();
    if let ("journal_mode", Some(mode)) = (name.as_str(), value) {
        connection.asked_for_journal_mode(mode);
    }
    let word = name.strip_prefix("oneflush_")?;
    Some(match (word, value) {
        ("strategy", None) => {
            let name = connection.strategy().call(|strategy| strategy.kind()).name();
            Ok(inactive()
                .map_or_else(|| name.to_owned(), |why| format!("{name} (inactive: {why})")))
        }
        ("stats", None) => Ok(connection.stats_json(inactive())),
        ("who", None) => who(Path::new(connection.database().path()), Asker::User)
            .map(|rows| to_json(&rows))
            .map_err(|error| error.to_string()),
        ("checkpoint", None) => connection.checkpoint_now(),
        ("checkpoint", Some(_)) => {
            Err("PRAGMA oneflush_checkpoint takes no value [OF-220]".to_owned())
        }
        ("strategy", Some(_)) => Err(format!(
            "PRAGMA oneflush_strategy only tells; to choose, reopen {} with strategy=NAME in its \
                URI [OF-221]",
            connection.database().path()
        )),
        ("stats", Some(_)) => Err("PRAGMA oneflush_stats takes no value [OF-222]".to_owned()),
        ("who", Some(_)) => Err("PRAGMA oneflush_who takes no value [OF-228]".to_owned()),
        _ => Err(format!(
            "PRAGMA {name}: not known; there are oneflush_strategy, oneflush_stats, oneflush_who \
                and oneflush_checkpoint [OF-223]"
        )),
    })
}
