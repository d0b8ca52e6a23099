//! What a database must hold: a model of the workloads' tables, and every state that it may have
//! after a crash.
//!
//! Each database has a table `c` with one number, the *order* of its last transaction. Each
//! transaction adds one to it. So a recovered database says itself how far it is, whatever the
//! interleaving of its writers was. Its content must be that of exactly this order. A transaction
//! that is there in part shows as a wrong digest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::log::{Mark, Op};
use crate::mix::{mix, mix_bytes, mix2};

/// What a database holds, as far as the oracle is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Found {
    pub order: u32,
    pub digest: u64,
}

/// A database without any of the workloads' tables.
pub const NOTHING: Found = Found { order: 0, digest: 0 };

pub const CREATE: &str = "CREATE TABLE {s}.c(o INTEGER); INSERT INTO {s}.c VALUES(0);\
    CREATE TABLE {s}.t(k INTEGER PRIMARY KEY, a INTEGER, v BLOB); CREATE INDEX {s}.ta ON t(a);";

/// One change within a transaction.
#[derive(Clone, Debug)]
pub enum Change {
    Put {
        k: i64,
        a: i64,
        v: Vec<u8>,
    },
    Delete {
        k: i64,
    },
    /// Creates the table, or drops it if it is there.
    ToggleTable {
        n: u8,
    },
    /// Creates the index, or drops it if it is there.
    ToggleIndex {
        n: u8,
    },
}

#[derive(Clone, Default)]
pub struct Model {
    rows: BTreeMap<i64, u64>,
    names: BTreeSet<String>,
}

impl Model {
    pub fn digest(&self) -> u64 {
        let rows = self.rows.values().copied().fold(0, u64::wrapping_add);
        self.names.iter().fold(rows, |sum, name| sum.wrapping_add(name_digest(name)))
    }

    /// The model of what a database holds.
    pub fn read(connection: &Connection, schema: &str) -> rusqlite::Result<Model> {
        let mut model = Model::default();
        let mut names = connection.prepare(&format!("SELECT name FROM {schema}.sqlite_schema"))?;
        for name in names.query_map([], |row| row.get::<_, String>(0))? {
            let name = name?;
            if name.starts_with('x') {
                model.names.insert(name);
            }
        }
        let mut rows = connection.prepare(&format!("SELECT k, a, v FROM {schema}.t"))?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            let k = row.get(0)?;
            let v = row.get_ref(2)?.as_blob().unwrap_or_default();
            model.rows.insert(k, row_digest(k, row.get(1)?, v));
        }
        Ok(model)
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Put { k, a, v } => {
                self.rows.insert(*k, row_digest(*k, *a, v));
            }
            Change::Delete { k } => {
                self.rows.remove(k);
            }
            Change::ToggleTable { n } => self.toggle(format!("x{n}")),
            Change::ToggleIndex { n } => self.toggle(format!("xi{n}")),
        }
    }

    fn toggle(&mut self, name: String) {
        if !self.names.remove(&name) {
            self.names.insert(name);
        }
    }
}

fn row_digest(k: i64, a: i64, v: &[u8]) -> u64 {
    mix2(mix2(mix(k as u64), a as u64), mix_bytes(v))
}

fn name_digest(name: &str) -> u64 {
    mix_bytes(name.as_bytes())
}

/// Carries out the change in `schema` of a connection.
pub fn change_sql(connection: &Connection, schema: &str, change: &Change) -> rusqlite::Result<()> {
    let toggle = |name: &str, create: &str, drop: &str| {
        let sql = format!("SELECT count(*) FROM {schema}.sqlite_schema WHERE name = ?1");
        let there: i64 = connection.query_row(&sql, [name], |row| row.get(0))?;
        connection.execute_batch(if there != 0 { drop } else { create })
    };
    match change {
        Change::Put { k, a, v } => {
            let sql = format!("INSERT OR REPLACE INTO {schema}.t VALUES(?1, ?2, ?3)");
            connection.prepare_cached(&sql)?.execute((k, a, v)).map(|_| ())
        }
        Change::Delete { k } => connection
            .prepare_cached(&format!("DELETE FROM {schema}.t WHERE k = ?1"))?
            .execute([k])
            .map(|_| ()),
        Change::ToggleTable { n } => toggle(
            &format!("x{n}"),
            &format!(
                "CREATE TABLE {schema}.x{n}(a, b); INSERT INTO {schema}.x{n} SELECT k, v FROM \
                    {schema}.t"
            ),
            &format!("DROP TABLE {schema}.x{n}"),
        ),
        Change::ToggleIndex { n } => toggle(
            &format!("xi{n}"),
            &format!("CREATE INDEX {schema}.xi{n} ON t(v, a)"),
            &format!("DROP INDEX {schema}.xi{n}"),
        ),
    }
}

/// Reads order and content.
pub fn find(connection: &Connection, schema: &str) -> rusqlite::Result<Found> {
    let mut names = connection.prepare(&format!("SELECT name FROM {schema}.sqlite_schema"))?;
    let mut names = names.query([])?;
    let (mut created, mut digest) = (false, 0u64);
    while let Some(row) = names.next()? {
        let name = row.get_ref(0)?.as_str().unwrap_or_default();
        created |= name == "c";
        if name.starts_with('x') {
            digest = digest.wrapping_add(name_digest(name));
        }
    }
    drop(names);
    if !created {
        return Ok(Found { order: 0, digest });
    }
    let order = connection.query_row(&format!("SELECT o FROM {schema}.c"), [], |row| row.get(0))?;
    let mut rows = connection.prepare(&format!("SELECT k, a, v FROM {schema}.t"))?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let v = row.get_ref(2)?.as_blob().unwrap_or_default();
        digest = digest.wrapping_add(row_digest(row.get(0)?, row.get(1)?, v));
    }
    Ok(Found { order, digest })
}

/// What each database of a case may hold at one moment of its log.
#[derive(Clone)]
pub struct Allowed {
    files: Vec<Vec<Found>>,
    /// The last commit of each database that was acknowledged as durable.
    acknowledged: Vec<u32>,
    /// A transaction began on a state that lacks a commit acknowledged before: file and order.
    lost_while_running: Option<(usize, u32)>,
    /// Transactions over two databases: the order that each makes in both.
    together: Vec<[u32; 2]>,
}

impl Allowed {
    /// What is allowed before the log, from the states of the databases at the beginning.
    pub fn from(beginning: &[Found]) -> Allowed {
        Allowed {
            files: beginning.iter().map(|found| vec![*found]).collect(),
            acknowledged: beginning.iter().map(|found| found.order).collect(),
            lost_while_running: None,
            together: Vec::new(),
        }
    }

    /// What is allowed after a log.
    pub fn after(beginning: &[Found], log: &[Op]) -> Allowed {
        let mut allowed = Allowed::from(beginning);
        for op in log {
            if let Op::Mark(mark) = op {
                allowed.follow(mark);
            }
        }
        allowed
    }

    pub fn follow(&mut self, mark: &Mark) {
        if let Mark::Acknowledged { file, order, promised: true, .. } = *mark {
            self.acknowledged[file] = self.acknowledged[file].max(order);
        }
        match *mark {
            Mark::Begun { file, order, digest } => {
                if order <= self.acknowledged[file] {
                    self.lost_while_running.get_or_insert((file, self.acknowledged[file]));
                }
                // Who began this one has seen that those were rolled back.
                self.together.retain(|orders| orders.get(file).is_none_or(|of| *of < order));
                self.files[file].push(Found { order, digest });
            }
            // Everything before is in the same log, so it is saved too.
            Mark::Acknowledged { file, order, digest, promised: true } => {
                self.files[file].retain(|may| {
                    may.order > order || (may.order == order && may.digest == digest)
                });
            }
            Mark::Acknowledged { promised: false, .. } => {}
            Mark::RolledBack { file, order, digest } => {
                self.files[file].retain(|may| *may != Found { order, digest });
            }
            Mark::Together { orders } => self.together.push(orders),
        }
    }

    /// Says what is wrong with this, if anything.
    pub fn objection(&self, found: &[Found]) -> Option<String> {
        if let Some((file, order)) = self.lost_while_running {
            return Some(format!(
                "database {file}: acknowledged commits are lost: without a crash, commit {order} \
                    is gone"
            ));
        }
        if let [first, second] = found {
            let in_part =
                |orders: &&[u32; 2]| (first.order >= orders[0]) != (second.order >= orders[1]);
            if let Some([in_first, in_second]) = self.together.iter().find(in_part) {
                return Some(format!(
                    "a transaction over two databases is in one of them: it made commits \
                        {in_first} and {in_second}, and {} and {} are there",
                    first.order, second.order
                ));
            }
        }
        self.files.iter().zip(found).enumerate().find_map(|(file, (may, found))| {
            if may.contains(found) {
                return None;
            }
            let (first, last) =
                (may.iter().map(|f| f.order).min()?, may.iter().map(|f| f.order).max()?);
            Some(if found.order < first {
                format!(
                    "database {file}: acknowledged commits are lost: commit {first} was \
                        acknowledged, {} is the last there",
                    found.order
                )
            } else if found.order > last {
                format!(
                    "database {file}: commit {} is there, but none beyond {last} was \
                    begun",
                    found.order
                )
            } else {
                format!(
                    "database {file}: a part of a transaction is there or missing at commit \
                    {}",
                    found.order
                )
            })
        })
    }
}

/// The models of all states that were begun. The next transaction begins on one of them.
#[derive(Default)]
pub struct Book {
    models: HashMap<(usize, Found), Model>,
    latest: HashMap<(usize, u32), Found>,
}

impl Found {
    fn of(order: u32, model: &Model) -> Found {
        Found { order, digest: model.digest() }
    }
}

impl Book {
    /// Enters what the next transaction on `before` will make. The empty model is always known.
    pub fn begin(&mut self, file: usize, before: Found, changes: &[Change]) -> Option<Found> {
        let mut model = match self.models.get(&(file, before)) {
            Some(model) => model.clone(),
            None if before.digest == 0 && before.order <= 1 => Model::default(),
            None => return None,
        };
        changes.iter().for_each(|change| model.apply(change));
        let found = Found::of(before.order + 1, &model);
        self.models.insert((file, found), model);
        self.latest.insert((file, found.order), found);
        Some(found)
    }

    /// Enters a state that another process has made.
    pub fn learn(&mut self, file: usize, found: Found, model: Model) {
        self.models.insert((file, found), model);
    }

    /// The state that was begun last with this order.
    pub fn latest(&self, file: usize, order: u32) -> Found {
        self.latest.get(&(file, order)).copied().unwrap_or(Found { order, digest: 0 })
    }
}
