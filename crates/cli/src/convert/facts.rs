//! What a conversion must leave as it is, read by SQL.

use rusqlite::{Connection, Result};

/// Of the journal mode nothing is here: a copy has another one.
const SETTINGS: [&str; 5] =
    ["user_version", "application_id", "page_size", "auto_vacuum", "encoding"];
/// So many findings of a check are told.
const FOUND_MAX: usize = 3;

/// The content of a database, as far as it can be compared in a small place.
pub struct Facts {
    settings: Vec<(&'static str, String)>,
    /// Type, name, table and SQL of each entry, in order.
    schema: Vec<[String; 4]>,
    /// Each table with its number of rows, in order.
    pub rows: Vec<(String, i64)>,
}

impl Facts {
    pub fn read(db: &Connection) -> Result<Facts> {
        let settings = SETTINGS.iter().map(|&name| Ok((name, pragma(db, name)?)));
        let settings = settings.collect::<Result<_>>()?;
        let mut schema = db.prepare(
            "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY 1, 2, 3",
        )?;
        let schema =
            schema.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
        // A virtual table has no pages of its own. The tables that keep its content are there.
        let mut tables = db.prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY 1",
        )?;
        let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
        let rows = tables.into_iter().map(|table| {
            let count = format!("SELECT count(*) FROM \"{}\"", table.replace('"', "\"\""));
            Ok((table, db.query_row(&count, [], |row| row.get(0))?))
        });
        Ok(Facts {
            settings,
            schema: schema.collect::<Result<_>>()?,
            rows: rows.collect::<Result<_>>()?,
        })
    }

    /// The first difference. None: there is none.
    pub fn difference(&self, after: &Facts) -> Option<String> {
        for ((name, before), (_, after)) in self.settings.iter().zip(&after.settings) {
            if before != after {
                return Some(format!("PRAGMA {name} was {before}, and is {after}"));
            }
        }
        if self.schema != after.schema {
            let lost = self.schema.iter().find(|entry| !after.schema.contains(entry));
            let new = after.schema.iter().find(|entry| !self.schema.contains(entry));
            let [kind, name, ..] = lost.or(new)?;
            return Some(format!("the schema differs: {kind} {name}"));
        }
        let mut rows = self.rows.iter().zip(&after.rows);
        rows.find(|(before, after)| before != after).map(|((table, before), (_, after))| {
            format!("table {table} had {before} rows, and has {after}")
        })
    }

    pub fn rows_in_all(&self) -> i64 {
        self.rows.iter().map(|(_, count)| count).sum()
    }
}

/// All values that a PRAGMA answers, in one line.
pub fn pragma(db: &Connection, name: &str) -> Result<String> {
    let mut statement = db.prepare(&format!("PRAGMA {name}"))?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (0..columns).map(|at| Ok(shown(row.get_ref(at)?)));
        Ok(values.collect::<Result<Vec<String>>>()?.join(" "))
    })?;
    Ok(rows.collect::<Result<Vec<String>>>()?.join("; "))
}

fn shown(value: rusqlite::types::ValueRef<'_>) -> String {
    use rusqlite::types::ValueRef;
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

/// What `PRAGMA integrity_check` finds. None: all is well.
///
/// `quick_check` would not do before the conversion. The pages of an index are copied as they are,
/// and only `integrity_check` sees that an index lacks a row.
pub fn damage(db: &Connection) -> Result<Option<String>> {
    let found = pragma(db, &format!("integrity_check({FOUND_MAX})"))?;
    Ok((found != "ok").then(|| found.replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "PRAGMA user_version = 3; CREATE TABLE t(v); CREATE TABLE \"a \"\" b\"(v);
        CREATE VIEW w AS SELECT v FROM t; CREATE VIRTUAL TABLE f USING fts5(v);
        INSERT INTO t VALUES (1), (2); INSERT INTO \"a \"\" b\" VALUES (5)";

    fn facts(more: &str) -> Facts {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        db.execute_batch(more).unwrap();
        Facts::read(&db).unwrap()
    }

    #[test]
    fn each_kind_of_difference_is_said_and_an_equal_database_has_none() {
        let before = facts("");
        assert_eq!(before.difference(&facts("")), None);
        for (more, said) in [
            ("PRAGMA user_version = 4", "PRAGMA user_version was 3, and is 4"),
            ("PRAGMA application_id = 9", "PRAGMA application_id was 0, and is 9"),
            ("DELETE FROM t WHERE v = 1", "table t had 2 rows, and has 1"),
            ("DELETE FROM \"a \"\" b\"", "table a \" b had 1 rows, and has 0"),
            ("INSERT INTO f VALUES ('x')", "table f_content had 0 rows, and has 1"),
            ("DROP VIEW w", "the schema differs: view w"),
            ("CREATE INDEX i ON t(v)", "the schema differs: index i"),
            ("ALTER TABLE t ADD COLUMN n", "the schema differs: table t"),
        ] {
            assert_eq!(before.difference(&facts(more)).as_deref(), Some(said));
        }
    }
}
