//! Databases whose names are not UTF-8. Two of them were once one to Oneflush, because everything
//! that is no UTF-8 was replaced by the same character.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use crate::common::{self, commits, take_said};

/// Opens by a URI, in which any byte can be written.
fn open(dir: &Path, name: &str, parameters: &str) -> rusqlite::Result<Connection> {
    common::setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(
        format!("file:{}/{name}?vfs=oneflush&{parameters}", dir.display()),
        flags,
    )
}

fn json(db: &Connection) -> String {
    db.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).unwrap()
}

#[test]
fn databases_whose_names_are_not_utf8_are_not_shared_and_work_as_with_sqlite_alone() {
    let dir = tempfile::tempdir().unwrap();
    let open_both =
        || ["a%FF.db", "a%FE.db"].map(|name| open(dir.path(), name, "strategy=auto").unwrap());
    let both = open_both();
    for (db, count) in both.iter().zip([2, 5]) {
        db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
        commits::create(db);
        commits::make(db, count);
    }
    for (db, count) in both.iter().zip([2, 5]) {
        assert_eq!(commits::check(db), Ok(count));
        let json = json(db);
        assert!(
            json.contains("\"connections\":1")
                && json.contains("stock")
                && json.contains("not UTF-8"),
            "{json}"
        );
    }
    assert!(take_said(dir.path()).contains("is not UTF-8, so SQLite alone opens it"));
    drop(both);
    let counts = open_both().map(|db| commits::check(&db).unwrap());
    assert_eq!(counts, [2, 5]);
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().any(|name| name == OsStr::from_bytes(b"a\xff.db")), "{names:?}");
}

#[test]
fn what_cannot_be_kept_for_such_a_name_is_refused_by_name_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    for (parameters, named) in [
        ("strategy=eager", "strategy eager is not possible"),
        ("durability=full", "durability=full is not possible"),
    ] {
        assert!(open(dir.path(), "a%FF.db", parameters).is_err());
        let said = take_said(dir.path());
        assert!(said.contains(named) && said.contains("a\\xff.db"), "{said}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

/// The database moved into a folder of such a name after a crash, with its log.
#[test]
fn the_log_of_a_database_in_a_folder_of_such_a_name_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let db = common::open_with(&path, "strategy=eager").unwrap();
    db.query_row("PRAGMA journal_mode=wal", [], |_| Ok(())).unwrap();
    commits::create(&db);
    commits::make(&db, 3);
    let crashed = common::crash(&path, &["-oneflush"]);
    let folder = dir.path().join(OsStr::from_bytes(b"folder\xff"));
    std::fs::create_dir(&folder).unwrap();
    for suffix in ["", "-oneflush"] {
        std::fs::rename(common::side(&crashed, suffix), folder.join(format!("b.db{suffix}")))
            .unwrap();
    }
    let contents = oneflush_vfs::inspect(&folder.join("b.db")).unwrap().unwrap();
    assert!(contents.records > Some(0));
    std::fs::remove_file(folder.join("b.db-oneflush")).unwrap();
    let missing = oneflush_vfs::inspect(&folder.join("b.db")).unwrap_err().to_string();
    assert!(missing.contains("its log is missing"), "{missing}");
}
