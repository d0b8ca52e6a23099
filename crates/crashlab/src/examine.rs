//! What real SQLite makes of a disk after a loss of power. It opens each database through the
//! strategy, reads all of it, checks it, closes it, and opens it once more.
//!
//! Some states are also shown to SQLite alone. SQLite alone must find the same, or say that this is
//! no database. Anything else would be a database that loses commits, or breaks, when a program
//! without Oneflush opens it. With `maw` a commit must then work on what was recovered. After the
//! close SQLite alone must find the same, and refuse nothing.

use std::sync::{PoisonError, RwLock};

use rusqlite::ErrorCode;

use crate::content::Image;
use crate::copied;
use crate::look::{commit_one_more, look};
use crate::model::{Found, find};
use crate::mvbt::storage::stands;
use crate::setting::{SQLITE_ALONE, Setting};
use crate::state::Choice;
use crate::subject::{Recovery, Settled, Subject};
use crate::vfs::Mounted;

/// SQLite's random numbers belong to the whole process. A recording by seed has them for itself.
pub static RANDOMNESS: RwLock<()> = RwLock::new(());

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
        !self.is_lsmvbt() || stands(choice)
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
