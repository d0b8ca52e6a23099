//! What a file is to SQLite, from the flags of `xOpen`.

use serde::Serialize;

/// The role of a file.
///
/// Statement journals, sorter runs and temporary databases are all [`Role::Temp`]. They need no
/// durability, and no strategy touches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Db,
    RollbackJournal,
    Wal,
    SuperJournal,
    Temp,
}

impl Role {
    pub const COUNT: usize = 5;
    pub const ALL: [Role; Role::COUNT] =
        [Role::Db, Role::RollbackJournal, Role::Wal, Role::SuperJournal, Role::Temp];

    /// The role's position in arrays with one entry a role.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The key under which `PRAGMA oneflush_stats` reports the role.
    pub fn key(self) -> &'static str {
        match self {
            Role::Db => "db",
            Role::RollbackJournal => "rollback_journal",
            Role::Wal => "wal",
            Role::SuperJournal => "super_journal",
            Role::Temp => "temp",
        }
    }

    /// True for the files whose bytes and syncs are part of what a commit costs.
    pub fn is_durable(self) -> bool {
        !matches!(self, Role::Temp)
    }

    /// The role of a file that SQLite deletes by name, and the name of its database.
    ///
    /// Super-journals (`db-mjXXXXXX9XX`) belong to several databases, so the answer is None.
    pub fn of_side_file(path: &str) -> Option<(Role, &str)> {
        if let Some(db) = path.strip_suffix("-journal") {
            Some((Role::RollbackJournal, db))
        } else {
            path.strip_suffix("-wal").map(|db| (Role::Wal, db))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_role_is_its_place_in_all() {
        for (at, role) in Role::ALL.iter().enumerate() {
            assert_eq!(role.index(), at);
        }
    }

    #[test]
    fn side_files_are_known_by_their_suffix() {
        assert_eq!(Role::of_side_file("/d/a.db-wal"), Some((Role::Wal, "/d/a.db")));
        assert_eq!(Role::of_side_file("/d/a.db-journal"), Some((Role::RollbackJournal, "/d/a.db")));
        assert_eq!(Role::of_side_file("/d/a.db"), None);
    }
}
