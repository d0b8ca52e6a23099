//! The names of the files beside a database.

use oneflush_blocklog::Uuid;

/// SQLite's own WAL, which is also that of strategy `plain`.
pub fn wal_path(database: &str) -> String {
    format!("{database}-wal")
}

/// The WAL index of SQLite.
pub fn index_path(database: &str) -> String {
    format!("{database}-shm")
}

/// SQLite's rollback journal.
pub fn journal_path(database: &str) -> String {
    format!("{database}-journal")
}

/// The WAL of strategy `plain` between a clean close and the next open.
pub fn kept_path(database: &str) -> String {
    format!("{database}-oneflush-kept")
}

/// The log of a database.
pub fn log_path(database: &str) -> String {
    format!("{database}-oneflush")
}

/// The log of strategy `waldio`, which stands for the WAL.
pub fn waldio_path(database: &str) -> String {
    format!("{database}-waldio")
}

/// The log of strategy `maw`.
pub fn maw_path(database: &str) -> String {
    format!("{database}-maw")
}

/// The name of a log that was set aside and not removed.
pub fn aside_path(log: &str, uuid: Uuid) -> String {
    format!("{log}-{}", &uuid.to_string()[..8])
}

/// The volatile image that SQLite takes for its WAL.
pub fn image_path(database: &str) -> String {
    format!("{database}-oneflush-wal")
}

/// The board of the processes that use a database.
pub fn board_path(database: &str) -> String {
    format!("{database}-oneflush-shm")
}

/// The database that a log, an image or a board lies beside. The same for one that was set aside.
pub fn database_of(side_file: &str) -> &str {
    let ends = ["-oneflush", "-waldio", "-maw"];
    ends.iter()
        .filter_map(|end| side_file.rfind(end))
        .max()
        .map_or(side_file, |at| &side_file[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_known_by_the_name_of_each_side_file() {
        for database in ["/d/a.db", "/d-oneflush/a", "/d/a-oneflush"] {
            let log = log_path(database);
            for file in [
                image_path(database),
                board_path(database),
                kept_path(database),
                format!("{log}-1a2b3c4d-wal"),
                format!("{}-1a2b3c4d", waldio_path(database)),
                waldio_path(database),
                maw_path(database),
                format!("{}-1a2b3c4d", maw_path(database)),
                log,
            ] {
                assert_eq!(database_of(&file), database, "{file}");
            }
        }
    }
}
