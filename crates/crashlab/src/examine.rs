//! What real SQLite makes of a disk after a loss of power: opens each database through the strategy, reads all of it, lets
//! SQLite check it, closes it, and opens it once more.

use std::sync::{PoisonError, RwLock};

use crate::content::Image;
use crate::log::Op;
use crate::model::{Found, find};
use crate::setting::Setting;
use crate::vfs::Mounted;

/// SQLite's random numbers belong to the whole process: who records by seed has them for itself.
pub static RANDOMNESS: RwLock<()> = RwLock::new(());

pub struct Recovery {
    pub found: Vec<Found>,
    /// What the first recovery did to the disk, up to the close.
    pub log: Vec<Op>,
}

/// An error says what is wrong with the state, whatever the oracle allows.
pub fn examine(image: &Image, setting: &Setting, files: &[String]) -> Result<Recovery, String> {
    let _shared = RANDOMNESS.read().unwrap_or_else(PoisonError::into_inner);
    let machine = Mounted::new(image);
    let mut found = Vec::with_capacity(files.len());
    for file in files {
        found.push(look(&machine, setting, file, true).map_err(|error| format!("{file}: {error}"))?);
    }
    let log = machine.disk().take_log();
    for (file, first) in files.iter().zip(&found) {
        let second = look(&machine, setting, file, !log.is_empty())
            .map_err(|error| format!("{file}: second recovery: {error}"))?;
        if second != *first {
            return Err(format!(
                "{file}: the second recovery found commit {} where the first found {}",
                second.order, first.order
            ));
        }
    }
    Ok(Recovery { found, log })
}

fn look(machine: &Mounted, setting: &Setting, file: &str, thoroughly: bool) -> Result<Found, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let connection = setting.open(machine, file).map_err(text)?;
    let found = find(&connection, "main").map_err(text)?;
    if thoroughly {
        let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
        if verdict != "ok" {
            return Err(format!("integrity_check: {verdict}"));
        }
    }
    connection.close().map_err(|(_, error)| format!("close: {error}"))?;
    Ok(found)
}
