//! What real SQLite makes of a disk after a loss of power. It opens each database through the
//! strategy, reads all of it, checks it, closes it, and opens it once more.
//!
//! Some states are also shown to SQLite alone. SQLite alone must find the same, or say that this is
//! no database. Anything else would be a database that loses commits, or breaks, when a program
//! without Oneflush opens it. With `maw` a commit must then work on what was recovered. After the
//! close SQLite alone must find the same, and refuse nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use rusqlite::ErrorCode;

use crate::act::Machine;
use crate::content::Image;
use crate::copied;
use crate::explore::Subject;
use crate::log::Op;
use crate::model::{Found, find};
use crate::mvbt;
use crate::setting::{SQLITE_ALONE, Setting};
use crate::state::Choice;
use crate::vfs::Mounted;

/// SQLite's random numbers belong to the whole process. A recording by seed has them for itself.
pub static RANDOMNESS: RwLock<()> = RwLock::new(());

pub struct Recovery {
    pub found: Vec<Found>,
    /// What the first recovery did to the disk, up to the close.
    pub log: Vec<Op>,
}

/// What a second process finds, by what the first has left on the disk. After many crashes that is
/// the same.
#[derive(Default)]
pub struct Settled(RefCell<HashMap<u64, Vec<Found>>>);

impl Subject for Setting {
    fn examine(
        &self,
        image: &Image,
        files: &[String],
        settled: &Settled,
    ) -> Result<Recovery, String> {
        examine(image, self, files, settled)
    }

    fn stands(&self, choice: &Choice) -> bool {
        !self.is_lsmvbt() || mvbt::examine::stands(choice)
    }

    fn has_slots(&self) -> bool {
        Setting::has_slots(self)
    }
}

/// Examines a state. An error says what is wrong with it, whatever the oracle allows.
pub fn examine(
    image: &Image,
    setting: &Setting,
    files: &[String],
    settled: &Settled,
) -> Result<Recovery, String> {
    let _shared = RANDOMNESS.read().unwrap_or_else(PoisonError::into_inner);
    let is_shown_alone = image.hash().is_multiple_of(ALONE_ONCE_IN);
    let alone = if is_shown_alone { look_alone(image, setting, files)? } else { Vec::new() };
    let machine = Mounted::new(image);
    let mut found = Vec::with_capacity(files.len());
    for file in files {
        found
            .push(look(&machine, setting, file, true).map_err(|error| format!("{file}: {error}"))?);
    }
    for ((file, alone), found) in files.iter().zip(alone).zip(&found) {
        if alone.as_ref().is_some_and(|alone| alone != found) {
            return Err(format!(
                "{file}: SQLite alone finds {alone:?}, and does not refuse the file; the strategy \
                    {found:?}"
            ));
        }
    }
    let (log, left) = {
        let mut disk = machine.disk();
        (disk.take_log(), disk.image().hash())
    };
    let known = settled.0.borrow().get(&left).cloned();
    let seconds = match known {
        Some(seconds) => seconds,
        None => {
            let second = |file: &String| {
                look(&machine, setting, file, !log.is_empty())
                    .map_err(|error| format!("{file}: second recovery: {error}"))
            };
            let seconds: Vec<Found> = files.iter().map(second).collect::<Result<_, _>>()?;
            settled.0.borrow_mut().insert(left, seconds.clone());
            seconds
        }
    };
    for ((file, first), second) in files.iter().zip(&found).zip(&seconds) {
        if second != first {
            return Err(format!(
                "{file}: the second recovery found commit {} where the first found {}",
                second.order, first.order
            ));
        }
    }
    if files.len() > 1 && setting.absorbs_journal() {
        copied::check(image, setting, files, &found)?;
    }
    if is_shown_alone && (setting.absorbs_journal() || setting.is_lsmvbt()) {
        goes_on(&machine, setting, files, &found)?;
    }
    Ok(Recovery { found, log })
}

/// A commit works, and the close after it leaves plain databases.
fn goes_on(
    machine: &Mounted,
    setting: &Setting,
    files: &[String],
    found: &[Found],
) -> Result<(), String> {
    for (file, found) in files.iter().zip(found) {
        let after = commit_one_more(machine, setting, file)
            .map_err(|error| format!("{file}: one commit more: {error}"))?;
        if after != *found {
            return Err(format!("{file}: {after:?} after one commit more than {found:?}"));
        }
    }
    let image = machine.disk().image();
    let alone = look_alone(&image, setting, files)?;
    for ((file, found), alone) in files.iter().zip(found).zip(alone) {
        if alone != Some(*found) {
            return Err(format!("{file}: SQLite alone finds {alone:?} after a close of {found:?}"));
        }
    }
    match image.files.keys().find(|name| name.ends_with("-maw") || name.ends_with("-xfs")) {
        Some(left) => Err(format!("{left} is still there after the last close")),
        None => Ok(()),
    }
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

/// One state in this many is shown to SQLite alone.
const ALONE_ONCE_IN: u64 = 8;

/// `None`: SQLite alone refuses the file.
fn look_alone(
    image: &Image,
    setting: &Setting,
    files: &[String],
) -> Result<Vec<Option<Found>>, String> {
    let alone = setting.with(SQLITE_ALONE);
    let alone = Setting { uri: String::new(), ..alone };
    let machine = Mounted::new(image);
    let look = |file: &String| match alone
        .open(&machine, 0, file)
        .and_then(|connection| find(&connection, "main"))
    {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(None),
        Err(error) => Err(format!("{file}: SQLite alone, which does not refuse the file: {error}")),
    };
    files.iter().map(look).collect()
}

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
