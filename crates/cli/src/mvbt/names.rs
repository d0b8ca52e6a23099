//! The names that SQL has given to the trees of a file.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// VFS of SQLite itself. Only on it there are two engines.
const VFS: &str = "unix";
/// Behind the root page that the schema says come the trees of the system.
const OFFSET: u32 = 1;

/// A table or index.
pub struct Tree {
    pub id: u32,
    pub kind: String,
    pub name: String,
}

/// In the order of their numbers. `None`: nobody made the file by SQL, or the schema cannot be
/// read.
pub fn of(path: &Path) -> Option<Vec<Tree>> {
    read(path).ok()
}

fn read(path: &Path) -> rusqlite::Result<Vec<Tree>> {
    let db = Connection::open_with_flags_and_vfs(path, OpenFlags::SQLITE_OPEN_READ_ONLY, VFS)?;
    let mut trees = db.prepare(
        "SELECT 1, 'table', 'sqlite_schema'
        UNION ALL SELECT rootpage, type, name FROM sqlite_schema WHERE rootpage > 0 ORDER BY 1",
    )?;
    let trees = trees.query_map([], |row| {
        let root: u32 = row.get(0)?;
        Ok(Tree { id: root + OFFSET, kind: row.get(1)?, name: row.get(2)? })
    })?;
    trees.collect()
}
