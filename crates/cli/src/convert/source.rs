//! The database before a conversion, as its files tell.

use std::path::{Path, PathBuf};

use oneflush_vfs::{InspectError, Survey, inspect, survey};

use super::error::ConvertError;

/// The file itself.
pub fn file(given: &Path) -> Result<PathBuf, ConvertError> {
    let database = given
        .canonicalize()
        .map_err(|source| ConvertError::File { path: given.to_owned(), source })?;
    match database.is_file() {
        true => Ok(database),
        false => Err(ConvertError::NotAFile(given.to_owned())),
    }
}

/// The database as its files tell, if SQLite alone may open it.
pub fn look(database: &Path) -> Result<Survey, ConvertError> {
    let survey = survey(database).map_err(|error| match error {
        InspectError::NotADatabase(path) => ConvertError::NotADatabase(path),
        error => error.into(),
    })?;
    if survey.guarded && !survey.users.is_empty() {
        return Err(ConvertError::InUse { database: database.to_owned(), users: survey.users });
    }
    match inspect(database) {
        Ok(None) => Ok(survey),
        Ok(Some(_)) => Err(ConvertError::Guarded(database.to_owned())),
        Err(InspectError::NotADatabase(path)) => Err(ConvertError::NotADatabase(path)),
        Err(error) => Err(error.into()),
    }
}
