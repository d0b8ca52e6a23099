//! Whether two databases have the same contents, value by value, and with the same rowids.
//!
//! Indexes are not read here. `PRAGMA integrity_check` has found each row of a table in each of its
//! indexes, and no other, on both sides. So indexes are equal if the tables are.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, Rows};

use super::facts::pragma;

const SETTINGS: [&str; 4] = ["user_version", "application_id", "page_size", "encoding"];
const SCHEMA: &str = "SELECT rowid, type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid";
/// What SQLite allows in a row of an answer.
const COLUMNS_MAX: usize = 2000;

/// What was compared, and is equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    pub tables: u64,
    pub indexes: u64,
    pub rows: u64,
}

/// The inner error is the first difference.
pub fn all(
    before: &Connection,
    after: &Connection,
) -> Result<std::result::Result<Compared, String>> {
    for name in SETTINGS {
        let (was, is) = (pragma(before, name)?, pragma(after, name)?);
        if was != is {
            return Ok(Err(format!("PRAGMA {name} was {was}, and is {is}")));
        }
    }
    if let Err(difference) = answers("the schema", before, after, SCHEMA)? {
        return Ok(Err(difference));
    }
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE type = 'index'";
    let indexes = before.query_row(indexes, [], |row| row.get::<_, u32>(0))?.into();
    let mut compared = Compared { indexes, ..Compared::default() };
    for table in tables(before)? {
        let sql = table.rows(before)?;
        match answers(&format!("table {}", table.name), before, after, &sql)? {
            Ok(rows) => compared.rows += rows,
            Err(difference) => return Ok(Err(difference)),
        }
        compared.tables += 1;
    }
    Ok(Ok(compared))
}

struct Table {
    name: String,
    has_rowids: bool,
}

/// A virtual table has no pages of its own. The tables that keep its content are there.
fn tables(db: &Connection) -> Result<Vec<Table>> {
    let mut all = db.prepare(
        "SELECT name, (SELECT wr FROM pragma_table_list AS list
            WHERE schema = 'main' AND list.name = entry.name)
        FROM sqlite_schema AS entry WHERE type = 'table' AND rootpage > 0 ORDER BY 1",
    )?;
    let all = all.query_map([], |row| {
        let is_without: Option<bool> = row.get(1)?;
        Ok(Table { name: row.get(0)?, has_rowids: is_without != Some(true) })
    })?;
    all.collect()
}

impl Table {
    /// All of its rows, in the order of the tree, with what stands in it and what is generated.
    fn rows(&self, db: &Connection) -> Result<String> {
        let mut columns = db.prepare("SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 1")?;
        let columns: Vec<String> =
            columns.query_map([&self.name], |row| row.get(0))?.collect::<Result<_>>()?;
        let is_column = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        let rowid = ["rowid", "_rowid_", "oid"].into_iter().find(|name| !is_column(name));
        let rowid = rowid.filter(|_| self.has_rowids && columns.len() < COLUMNS_MAX);
        let all =
            rowid.map(str::to_owned).into_iter().chain(columns.iter().map(|name| quoted(name)));
        let all: Vec<String> = all.collect();
        Ok(format!("SELECT {} FROM {} NOT INDEXED", all.join(", "), quoted(&self.name)))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The number of rows, or the first difference.
fn answers(
    what: &str,
    before: &Connection,
    after: &Connection,
    sql: &str,
) -> Result<std::result::Result<u64, String>> {
    let (mut before, mut after) = (before.prepare(sql)?, after.prepare(sql)?);
    let names: Vec<String> = before.column_names().map(str::to_owned).collect();
    let (mut before, mut after): (Rows, Rows) = (before.query([])?, after.query([])?);
    for row in 1.. {
        let (was, is) = match (before.next()?, after.next()?) {
            (None, None) => return Ok(Ok(row - 1)),
            (Some(was), Some(is)) => (was, is),
            (Some(_), None) => return Ok(Err(format!("{what} has no row {row} any more"))),
            (None, Some(_)) => return Ok(Err(format!("{what} has a row {row}, and had none"))),
        };
        for (at, name) in names.iter().enumerate() {
            if !are_same(was.get_ref(at)?, is.get_ref(at)?) {
                return Ok(Err(format!("{what}, row {row}: column {name} differs")));
            }
        }
    }
    Ok(Ok(0))
}

/// Also of the same type; a real is compared by its bits.
fn are_same(one: ValueRef<'_>, other: ValueRef<'_>) -> bool {
    match (one, other) {
        (ValueRef::Real(one), ValueRef::Real(other)) => one.to_bits() == other.to_bits(),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "CREATE TABLE t(v, rowid TEXT); CREATE TABLE w(k PRIMARY KEY, v)
        WITHOUT ROWID; CREATE TABLE g(a, b AS (a + 1), c AS (a + 2) STORED);
        CREATE INDEX i ON t(v); CREATE VIRTUAL TABLE f USING fts5(v);
        INSERT INTO f VALUES ('words'); INSERT INTO w VALUES (1, 2), ('a', x'00');
        INSERT INTO g(a) VALUES (7); INSERT INTO t(_rowid_, v) VALUES (1, 1.0), (5, NULL)";

    fn database(more: &str) -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        db.execute_batch(more).unwrap();
        db
    }

    #[test]
    fn each_kind_of_difference_is_said_and_an_equal_database_has_none() {
        let before = database("");
        let equal = all(&before, &database("")).unwrap().unwrap();
        assert_eq!((equal.tables, equal.indexes), (8, 1));
        for (more, said) in [
            ("PRAGMA user_version = 4", "PRAGMA user_version was 0, and is 4"),
            ("UPDATE t SET v = 1 WHERE _rowid_ = 1", "table t, row 1: column v differs"),
            ("UPDATE t SET v = '' WHERE _rowid_ = 5", "table t, row 2: column v differs"),
            ("UPDATE t SET _rowid_ = 6 WHERE _rowid_ = 5", "row 2: column rowid differs"),
            ("DELETE FROM t WHERE _rowid_ = 5", "table t has no row 2 any more"),
            ("INSERT INTO w VALUES ('b', 1)", "table w has a row 3, and had none"),
            ("UPDATE w SET v = x'01' WHERE k = 'a'", "table w, row 2: column v differs"),
            ("UPDATE g SET a = 8", "table g, row 1: column a differs"),
            ("UPDATE f SET v = 'other'", "table f_content, row 1: column c0 differs"),
            ("DROP INDEX i", "the schema"),
            ("ALTER TABLE w ADD COLUMN n", "the schema, row 2: column sql differs"),
        ] {
            let found = all(&before, &database(more)).unwrap().unwrap_err();
            assert!(found.contains(said), "{more}: {found}");
        }
    }
}
