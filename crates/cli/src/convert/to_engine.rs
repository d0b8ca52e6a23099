//! A copy in the other engine, as the command line asks for it: what is refused, and what is said.

use std::path::{Path, PathBuf};

use oneflush_measure::interrupt;
use oneflush_vfs::shown_name;
use serde_json::json;

use super::copy::{Before, Copied, Copying, Source};
use super::error::ConvertError;
use super::options::Options;
use super::plan::{self, Pages};
use super::source::{file, look};
use crate::engine::Engine;

pub fn run(options: &Options, engine: Engine, copy: &Path) -> Result<String, ConvertError> {
    let source = file(&options.database)?;
    check_source(&source, engine)?;
    let target = check_target(copy)?;
    let file = |source| ConvertError::File { path: copy.to_owned(), source };
    interrupt::install().map_err(file)?;
    let opened = Source::open(Copying { source, target, engine })?;
    let before = opened.before()?;
    let copied = if options.dry_run { None } else { Some(opened.copy(before)?) };
    let told = Told { options, engine, copy, before, copied };
    Ok(if options.json { format!("{}\n", told.json()) } else { told.text() })
}

fn check_source(source: &Path, engine: Engine) -> Result<(), ConvertError> {
    let is_lsmvbt = Engine::is_lsmvbt(source);
    if is_lsmvbt == (engine == Engine::Lsmvbt) {
        return Err(ConvertError::SameEngine { database: source.to_owned(), engine });
    }
    if is_lsmvbt {
        return Ok(());
    }
    if Pages::of(&look(source)?).is_none() {
        return Err(ConvertError::Empty(source.to_owned()));
    }
    Ok(())
}

fn check_target(copy: &Path) -> Result<PathBuf, ConvertError> {
    let file = |source| ConvertError::File { path: copy.to_owned(), source };
    let target = std::path::absolute(copy).map_err(file)?;
    if target.symlink_metadata().is_ok() {
        return Err(ConvertError::Exists(copy.to_owned()));
    }
    plan::check_rights_of_folder(&target)?;
    Ok(target)
}

struct Told<'a> {
    options: &'a Options,
    engine: Engine,
    copy: &'a Path,
    before: Before,
    copied: Option<Copied>,
}

impl Told<'_> {
    fn engine_before(&self) -> Engine {
        match self.engine {
            Engine::Sqlite => Engine::Lsmvbt,
            Engine::Lsmvbt => Engine::Sqlite,
        }
    }

    fn loses_auto_vacuum(&self) -> bool {
        self.before.loses_auto_vacuum && self.engine == Engine::Lsmvbt
    }

    fn json(&self) -> serde_json::Value {
        let Before { page_bytes, bytes, needed_bytes, free_bytes, .. } = self.before;
        let compared = self.copied.as_ref().map(|copied| copied.compared);
        json!({
            "database": shown_name(&self.options.database),
            "copy": shown_name(self.copy),
            "engine_before": self.engine_before().word(),
            "engine": self.engine.word(),
            "converted": self.copied.is_some(),
            "page_bytes": page_bytes,
            "bytes_before": bytes,
            "bytes": self.copied.as_ref().map(|copied| copied.bytes),
            "tables": compared.map(|compared| compared.tables),
            "indexes": compared.map(|compared| compared.indexes),
            "rows": compared.map(|compared| compared.rows),
            "auto_vacuum_lost": self.loses_auto_vacuum(),
            "needed_bytes": needed_bytes,
            "free_bytes": free_bytes,
        })
    }

    fn text(&self) -> String {
        let (name, copy) = (shown_name(&self.options.database), shown_name(self.copy));
        let (engine, engine_before) = (self.engine, self.engine_before());
        let Before { page_bytes, bytes, needed_bytes, free_bytes, .. } = self.before;
        let kib = |bytes: u64| bytes.div_ceil(1024);
        let mut text = match &self.copied {
            None => format!(
                "{name}: a database of {engine_before}, {} KiB in pages of {page_bytes} bytes\n\
                {copy}: would be the same database in the format of {engine}\n\
                room: up to {} MiB needed, {} MiB free\nnothing was changed\n",
                kib(bytes),
                needed_bytes.div_ceil(1 << 20),
                free_bytes >> 20,
            ),
            Some(copied) => format!(
                "{copy}: a database of {engine}, {} KiB in pages of {page_bytes} bytes\n\
                {name}: stays as it is, a database of {engine_before}, {} KiB\n\
                checked: PRAGMA integrity_check, and the schema\n\
                compared: each value; rows: {}, tables: {}, indexes: {}\n",
                kib(copied.bytes),
                kib(bytes),
                copied.compared.rows,
                copied.compared.tables,
                copied.compared.indexes,
            ),
        };
        if self.loses_auto_vacuum() {
            text += "PRAGMA auto_vacuum is not kept: LS-MVBT uses free pages again\n";
        }
        text
    }
}
