//! The contents of a database as one number, to see whether two runs left the same behind.

use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::database::PREGROWN_TABLE;

/// Every table with its definition and its rows, one a line, in the order of their values. The
/// pages are not compared, because their layout may differ.
pub fn text(connection: &Connection) -> Result<String, rusqlite::Error> {
    let mut text = String::new();
    for (name, sql) in tables(connection)? {
        text.push_str(&format!("\n-- {name}: {}", sql.unwrap_or_default()));
        visit_rows(connection, &name, |value| match value {
            None => text.push('\n'),
            Some(ValueRef::Null) => text.push_str("NULL|"),
            Some(ValueRef::Integer(number)) => text.push_str(&format!("{number}|")),
            Some(ValueRef::Real(number)) => text.push_str(&format!("{number:?}|")),
            Some(ValueRef::Text(bytes)) => text.push_str(&format!("'{}'|", bytes.escape_ascii())),
            Some(ValueRef::Blob(bytes)) => text.push_str(&format!("x'{}'|", bytes.escape_ascii())),
        })?;
    }
    Ok(text)
}

/// The text as one number, comparable within one build of this program only.
pub fn fingerprint(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let mut hasher = DefaultHasher::new();
    text(connection)?.hash(&mut hasher);
    Ok(hasher.finish())
}

fn tables(connection: &Connection) -> Result<Vec<(String, Option<String>)>, rusqlite::Error> {
    let mut list = connection.prepare(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name <> ?1 ORDER BY name",
    )?;
    list.query_map([PREGROWN_TABLE], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Calls `visit` with `None` before each row and then with each of its values.
fn visit_rows(
    connection: &Connection,
    table: &str,
    mut visit: impl FnMut(Option<ValueRef<'_>>),
) -> Result<(), rusqlite::Error> {
    let quoted = table.replace('"', "\"\"");
    let columns =
        connection.prepare(&format!("SELECT * FROM \"{quoted}\" LIMIT 0"))?.column_count();
    let order: Vec<String> = (1..=columns).map(|at| at.to_string()).collect();
    let mut select =
        connection.prepare(&format!("SELECT * FROM \"{quoted}\" ORDER BY {}", order.join(",")))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        visit(None);
        for at in 0..columns {
            visit(Some(row.get_ref(at)?));
        }
    }
    Ok(())
}
