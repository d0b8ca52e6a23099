//! How large a table is: pages of its B-tree, those of long rows included.
//!
//! `dbstat` visits them in the order of the tree. Where the time is over before the end, the place
//! that was reached says which part of the tree was seen, and so how much there is.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Pages {
    pub count: u64,
    /// A part of the tree was looked at.
    pub is_estimate: bool,
}

/// Of a table in `main`. None: SQLite cannot walk its tree.
pub fn of(connection: &Connection, table: &str, time: Duration) -> Option<Pages> {
    let begun = Instant::now();
    let mut pages =
        connection.prepare_cached("SELECT path, ncell FROM dbstat WHERE name = ?1").ok()?;
    let mut rows = pages.query([table]).ok()?;
    let (mut count, mut tree) = (0, Tree::default());
    while let Some(row) = rows.next().ok()? {
        tree.visit(row.get_ref(0).ok()?.as_str().ok()?, row.get(1).ok()?);
        count += 1;
        if begun.elapsed() > time && tree.seen > 0.0 {
            let all = (count as f64 / tree.seen).round() as u64;
            return Some(Pages { count: all.max(count), is_estimate: true });
        }
    }
    Some(Pages { count, is_estimate: false })
}

/// Where in a tree the walk is.
#[derive(Default)]
struct Tree {
    /// Of the pages from the root to the last one: which part of the tree each of its children is.
    shares: Vec<f64>,
    /// The part of the tree before the last page.
    seen: f64,
}

impl Tree {
    /// `path`: "/", "/01a/", "/01a/003/", and "/01a/003/00b+000002" of a long row.
    fn visit(&mut self, path: &str, cells: i64) {
        if path.contains('+') {
            return;
        }
        let (mut seen, mut depth) = (0.0, 0);
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let at = u64::from_str_radix(part, 16).unwrap_or_default();
            seen += at as f64 * self.shares.get(depth).copied().unwrap_or_default();
            depth += 1;
        }
        self.seen = seen;
        self.shares.truncate(depth);
        let own = depth.checked_sub(1).map_or(1.0, |above| self.shares[above]);
        self.shares.push(own / (cells + 1) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 300 bytes, and long ones of three pages among them.
    fn database() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE t(a, b); CREATE INDEX i ON t(a); CREATE TABLE few(v);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
            INSERT INTO t SELECT i, zeroblob(300 + (i % 10 = 0) * 9000) FROM n",
        )
        .unwrap();
        db
    }

    #[test]
    fn all_pages_of_a_table_are_counted_where_there_is_time() {
        let db = database();
        let pages = |table| of(&db, table, Duration::from_secs(60)).unwrap();
        let whole: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let all = pages("t").count + pages("i").count + pages("few").count;
        // The schema's page.
        assert_eq!((all as i64 + 1, pages("t").is_estimate), (whole, false));
        assert_eq!(pages("few").count, 1);
        assert_eq!(pages("nobody").count, 0);
    }

    #[test]
    fn a_part_of_the_tree_tells_about_how_many_there_are() {
        let db = database();
        let all = of(&db, "t", Duration::from_secs(60)).unwrap().count as f64;
        let some = of(&db, "t", Duration::ZERO).unwrap();
        assert!(some.is_estimate, "{some:?}");
        assert!((0.2..5.0).contains(&(some.count as f64 / all)), "{some:?} of {all}");
    }

    #[test]
    fn the_part_that_was_seen_grows_from_none_to_all() {
        let mut tree = Tree::default();
        let mut seen = |path: &str, cells| {
            tree.visit(path, cells);
            tree.seen
        };
        assert_eq!(seen("/", 1), 0.0);
        assert_eq!(seen("/000/", 3), 0.0);
        assert_eq!(seen("/000/000/", 9), 0.0);
        assert_eq!(seen("/000/000/001+000000", 0), 0.0);
        assert_eq!(seen("/000/001/", 9), 0.125);
        assert_eq!(seen("/000/003/", 9), 0.375);
        assert_eq!(seen("/001/", 9), 0.5);
        assert_eq!(seen("/001/009/", 9), 0.95);
    }
}
