//! The PRAGMAs that the VFS answers.

use crate::connection::Connection;

/// What SQLite gets for a PRAGMA: one row with one column, or an error with its message.
pub type Answer = Result<String, String>;

/// None if the PRAGMA is not ours and SQLite goes on with it.
pub fn answer(connection: &Connection, name: &str, value: Option<&str>) -> Option<Answer> {
    let name = name.to_ascii_lowercase();
    let word = name.strip_prefix("oneflush_")?;
    Some(match (word, value) {
        ("strategy", None) => Ok(connection.strategy().call(|strategy| strategy.kind()).name().to_owned()),
        ("stats", None) => Ok(connection.stats_json()),
        ("checkpoint", None) => connection.checkpoint_now(),
        ("checkpoint", Some(_)) => Err("PRAGMA oneflush_checkpoint takes no value".to_owned()),
        ("strategy", Some(_)) => Err(format!(
            "PRAGMA oneflush_strategy only tells; to choose, reopen {} with strategy=NAME in its URI",
            connection.database().path()
        )),
        ("stats", Some(_)) => Err("PRAGMA oneflush_stats takes no value".to_owned()),
        _ => Err(format!(
            "PRAGMA {name}: not known; there are oneflush_strategy, oneflush_stats and oneflush_checkpoint"
        )),
    })
}
