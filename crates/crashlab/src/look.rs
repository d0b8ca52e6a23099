//! What a program finds that opens a database of a machine.

use crate::machine::Machine;
use crate::model::{Found, find};
use crate::setting::Setting;

/// Opens a database of a machine by the setting's strategy, reads all of it, and closes it.
/// `thoroughly`: with `integrity_check`.
pub fn look<M: Machine>(
    machine: &M,
    setting: &Setting,
    file: &str,
    thoroughly: bool,
) -> Result<Found, String> {
    let text = |error: rusqlite::Error| error.to_string();
    let connection = setting.open(machine, 0, file).map_err(text)?;
    let found = find(&connection, "main").map_err(text)?;
    if thoroughly {
        let verdict: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(text)?;
        if verdict != "ok" {
            return Err(format!("integrity_check: {verdict}"));
        }
    }
    connection.close().map_err(|(_, error)| format!("close: {error}"))?;
    Ok(found)
}

/// What a database of a machine holds after one commit more, which the oracle does not count.
pub fn commit_one_more<M: Machine>(
    machine: &M,
    setting: &Setting,
    file: &str,
) -> rusqlite::Result<Found> {
    let connection = setting.open(machine, 0, file)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode={}; BEGIN IMMEDIATE; CREATE TABLE later(v);
         INSERT INTO later VALUES(zeroblob(3000)); COMMIT",
        setting.journal.name()
    ))?;
    find(&connection, "main")
}
