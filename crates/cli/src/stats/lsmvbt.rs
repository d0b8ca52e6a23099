//! What the file of a database of LS-MVBT tells.

use std::path::{Path, PathBuf};

use oneflush_mvbt::Read;
use oneflush_mvbt::inspect::Inspection;
use oneflush_vfs::shown_name;
use serde_json::json;

use super::row::{Row, count, row, size};
use crate::mvbt::error::MvbtError;
use crate::mvbt::names::{self, Tree};
use crate::mvbt::storage;

pub struct Survey {
    path: PathBuf,
    page_bytes: usize,
    pages: u64,
    free_pages: u64,
    version: u64,
    bytes: u64,
    is_closed: bool,
    /// `None`: no schema of SQL can be read.
    trees: Option<Vec<Tree>>,
    trees_count: usize,
}

pub fn survey(path: &Path) -> Result<Survey, MvbtError> {
    let trees = names::of(path);
    let failed = |source| MvbtError::of(&shown_name(path), source);
    let inspection = Inspection::open(storage::file(path)?, path.to_owned()).map_err(failed)?;
    let database = storage::database(path)?;
    let reader = database.begin_read().map_err(failed)?;
    let stats = database.stats().map_err(failed)?;
    let anchor = &inspection.anchor;
    let unreadable = |source| MvbtError::Unreadable { name: shown_name(path).into_owned(), source };
    Ok(Survey {
        path: path.to_owned(),
        page_bytes: database.page_bytes(),
        pages: stats.pages,
        // The anchor has some for the next opening.
        free_pages: stats.free_pages + (anchor.pool.len() + anchor.kept.len()) as u64,
        version: stats.to.0,
        bytes: path.metadata().map_err(unreadable)?.len(),
        is_closed: anchor.is_closed,
        trees,
        trees_count: reader.trees().map_err(failed)?.len(),
    })
}

impl Survey {
    pub fn json(&self) -> serde_json::Value {
        let trees = self.trees.as_deref().map(|trees| {
            let tree =
                |tree: &Tree| json!({ "tree": tree.id, "type": tree.kind, "name": tree.name });
            trees.iter().map(tree).collect::<Vec<_>>()
        });
        json!({
            "database": shown_name(&self.path),
            "engine": "lsmvbt",
            "journal_mode": "lsmvbt",
            "page_bytes": self.page_bytes,
            "pages": self.pages,
            "free_pages": self.free_pages,
            "bytes": self.bytes,
            "version": self.version,
            "closed": self.is_closed,
            "trees_count": self.trees_count,
            "trees": trees,
        })
    }

    pub fn rows(&self) -> Vec<Row> {
        let page_bytes = size(self.page_bytes as u64);
        let closed = match self.is_closed {
            true => "cleanly, or only readers have it open",
            false => "no: a program has it open, or the next open recovers it",
        };
        let trees = match &self.trees {
            None => {
                format!("{}; no schema of SQL was found", count(self.trees_count as u64, "tree"))
            }
            Some(trees) => {
                let of = |kind| trees.iter().filter(|tree| tree.kind == kind).count() as u64;
                let (tables, indexes) = (of("table"), of("index"));
                let indexes = match indexes {
                    1 => "1 index".to_owned(),
                    indexes => format!("{indexes} indexes"),
                };
                format!("{}, {indexes}; their names: oneflush mvbt dump", count(tables, "table"))
            }
        };
        vec![
            row("journal mode", "lsmvbt: neither a journal nor a WAL"),
            row("pages", format!("{} of {page_bytes}, {} free", self.pages, self.free_pages)),
            row("file", size(self.bytes)),
            row("version", format!("{}: the last transaction that counts", self.version)),
            row("closed", closed),
            row("trees", trees),
            row("more", "oneflush mvbt check, dump and history"),
        ]
    }
}
