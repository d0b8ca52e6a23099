//! `oneflush mvbt dump FILE`: what stands in the file.

use std::path::PathBuf;

use clap::Args;
use oneflush_mvbt::inspect::{Anchor, CellView, DirectoryView, Expected, Inspection, PageView};
use oneflush_mvbt::{Error, PageNo, Read, Result, TreeId};
use oneflush_vfs::shown_name;

use super::error::MvbtError;
use super::names;
use super::storage;
use super::text::{bytes, grouped, more, plural};
use crate::failure::Failure;
use crate::layout::printable;
use crate::output;

const EXAMPLES: &str = "Examples:
  oneflush mvbt dump app.mvbt               anchors, commit blocks, trees
  oneflush mvbt dump app.mvbt --tree 2      keys and payloads of tree 2
  oneflush mvbt dump app.mvbt --page 7      both directories of page 7, and the
                                            cells that live or are dead there
  oneflush mvbt dump app.mvbt --tree 2 --limit 5

Nothing is changed. Bytes that are text stand in quotes, others in hexadecimal;
… says that there are more. A cell is seen by the versions from its start to
before its end. What the words mean: docs/mvbt.md and docs/mvbt-format.md.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file
    file: PathBuf,
    /// Show the rows of this tree
    #[arg(long, value_name = "ID", conflicts_with = "page")]
    tree: Option<u32>,
    /// Show this page
    #[arg(long, value_name = "N")]
    page: Option<u64>,
    /// Show so many rows, cells or trees
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: usize,
}

pub fn main(options: &Options) -> std::result::Result<(), Failure> {
    let dump = Dump { name: shown_name(&options.file).to_string(), options };
    let text = match (options.page, options.tree) {
        (Some(no), _) => dump.page(PageNo(no)),
        (None, Some(id)) => dump.tree(TreeId(id)),
        (None, None) => dump.file(),
    };
    output::print(&text.map_err(Failure::failed)?)
}

struct Dump<'a> {
    name: String,
    options: &'a Options,
}

type Told = std::result::Result<String, MvbtError>;

impl Dump<'_> {
    fn failed(&self, source: Error) -> MvbtError {
        MvbtError::of(&self.name, source)
    }

    fn inspection(&self) -> std::result::Result<Inspection, MvbtError> {
        let path = &self.options.file;
        let opened = Inspection::open(storage::file(path)?, path.clone());
        opened.map_err(|source| self.failed(source))
    }

    // ---- the file ----

    fn file(&self) -> Told {
        let file = self.inspection()?;
        let mut text = format!(
            "{}: pages of {} bytes, room for {}\n  UUID {}\n\nAnchors\n",
            self.name,
            grouped(file.page_bytes() as u64),
            plural(file.pages().map_err(|source| self.failed(source))?, "page"),
            file.uuid().0.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        );
        for (place, anchor) in file.anchors.iter().enumerate() {
            text += &match anchor {
                None => format!("  {place}  not whole\n"),
                Some(anchor) => anchor_text(place, anchor, *anchor == file.anchor),
            };
        }
        text += "\nRing of commit blocks\n";
        for (place, block) in file.blocks.iter().enumerate() {
            text += &match block {
                None => format!("  {place}  empty\n"),
                Some(block) if block.pages.is_empty() => {
                    format!("  {place}  version {}: its pages were flushed before\n", block.version)
                }
                Some(block) => {
                    let shown = block.pages.iter().take(8).map(|(no, expected)| match expected {
                        Expected::Checksum(_) => no.to_string(),
                        Expected::Without => format!("not {no}"),
                    });
                    let shown: Vec<String> = shown.collect();
                    let more = if block.pages.len() > 8 { ", …" } else { "" };
                    let count = plural(block.pages.len() as u64, "page");
                    let version = block.version;
                    format!("  {place}  version {version}: {count}: {}{more}\n", shown.join(", "))
                }
            };
        }
        text += "\nTrees\n";
        text += &self.trees(&file)?;
        Ok(text)
    }

    fn trees(&self, file: &Inspection) -> Told {
        let names = names::of(&self.options.file).unwrap_or_default();
        let reader = storage::database(&self.options.file)?
            .begin_read()
            .map_err(|source| self.failed(source))?;
        let trees = match reader.trees() {
            Ok(trees) => trees,
            Err(error) => return Ok(format!("  the catalog cannot be read: {error}\n")),
        };
        let of_sql = if names.is_empty() { "" } else { "  name in SQL" };
        let mut text =
            format!("  {:>10}  {:8}{:>14}{:>8}{of_sql}\n", "tree", "kind", "root", "height");
        let all = [TreeId(0), TreeId(1)].into_iter().chain(trees);
        let mut all = all.peekable();
        for id in all.by_ref().take(self.options.limit) {
            text += &match reader.tree(id) {
                Err(error) => format!("  {:>10}  {error}\n", id.0),
                Ok(tree) => {
                    let kind = match (id.0, tree.is_record) {
                        (0, _) => "catalog",
                        (1, _) => "free",
                        (_, true) => "records",
                        (_, false) => "integers",
                    };
                    let height = match file.page(tree.root) {
                        Ok(PageView::Tree { directories, .. }) => directories
                            .iter()
                            .flatten()
                            .find(|one| one.is_active)
                            .map_or("?".to_owned(), |one| one.height.to_string()),
                        _ => "?".to_owned(),
                    };
                    let name = names.iter().find(|named| named.id == id.0);
                    let name = name.map_or(String::new(), |named| {
                        let kind = if named.kind == "index" { "index " } else { "" };
                        format!("  {kind}{}", printable(&named.name))
                    });
                    format!("  {:>10}  {kind:8}{:>14}{height:>8}{name}\n", id.0, tree.root.0)
                }
            };
        }
        if all.peek().is_some() {
            text += &more(self.options.limit);
        }
        Ok(text)
    }

    // ---- a tree ----

    fn tree(&self, id: TreeId) -> Told {
        let reader = storage::database(&self.options.file)?
            .begin_read()
            .map_err(|source| self.failed(source))?;
        let cursor = match reader.cursor(id) {
            Ok(cursor) => cursor,
            Err(Error::NoTree { .. }) => {
                return Err(MvbtError::NoTree { name: self.name.clone(), id });
            }
            Err(error) => return Err(self.failed(error)),
        };
        let is_record = cursor.tree().is_record;
        let key = if is_record { "" } else { "                 key" };
        let what = if is_record { "record" } else { "payload" };
        let mut text = format!("{key}{:>11}  {what}\n", "bytes");
        let told = self.rows(&reader, cursor, &mut text);
        // Where a page is damaged, the rows before it are told.
        match told {
            Ok(()) => Ok(text),
            Err(source) => {
                // What cannot be printed is told less than what is damaged.
                let _ = output::print(&text);
                Err(self.failed(source))
            }
        }
    }

    fn rows(
        &self,
        reader: &dyn Read,
        mut cursor: oneflush_mvbt::Cursor,
        text: &mut String,
    ) -> Result<()> {
        const FIRST_BYTES: u64 = 64;
        let source = reader.source();
        let is_record = cursor.tree().is_record;
        cursor.first(source)?;
        let mut count = 0;
        while cursor.is_on_cell() {
            if count == self.options.limit {
                *text += &more(self.options.limit);
                break;
            }
            count += 1;
            let length = cursor.payload_length(source)?.unwrap_or(0);
            let mut first = vec![0; length.min(FIRST_BYTES) as usize];
            cursor.payload_part(source, 0, &mut first)?;
            let key = match is_record {
                true => String::new(),
                false => {
                    let key = cursor.integer_key(source)?.unwrap_or(0);
                    format!("{key:>20}")
                }
            };
            let columns = if is_record { 66 } else { 46 };
            *text += &format!("{key}{length:>11}  {}\n", bytes(&first, length, columns));
            cursor.next(source)?;
        }
        Ok(())
    }

    // ---- a page ----

    fn page(&self, no: PageNo) -> Told {
        let file = self.inspection()?;
        let pages = file.pages().map_err(|source| self.failed(source))?;
        let offset = file.offset_of(no).filter(|_| no.0 <= pages);
        let Some(offset) = offset else {
            return Err(MvbtError::NoPage { name: self.name.clone(), no, pages });
        };
        let mut text = format!("{}: page {no}, at byte {}\n", self.name, grouped(offset));
        match file.page(no).map_err(|source| self.failed(source))? {
            PageView::Neither(error) => text += &format!("  no page in use: {error}\n"),
            PageView::Overflow { tree, version, next, payload } => {
                let next = next.map_or("none".to_owned(), |next| next.to_string());
                text += &format!(
                    "  of a long payload of tree {tree}, version {version}\n  next page: {next}\n  \
                        {}: {}\n",
                    plural(payload.len() as u64, "byte"),
                    bytes(&payload, payload.len() as u64, 60)
                );
            }
            PageView::Tree { tree, directories } => {
                text += &format!("  of tree {tree}\n");
                for (slot, directory) in directories.iter().enumerate() {
                    text += &match directory {
                        None => format!("\nDirectory {slot}: not valid\n"),
                        Some(directory) => self.directory(slot, directory),
                    };
                }
            }
        }
        Ok(text)
    }

    fn directory(&self, slot: usize, directory: &DirectoryView) -> String {
        let state = match (directory.is_active, directory.is_void) {
            (true, _) => "active",
            (_, true) => "void",
            _ => "fallback",
        };
        let multi = if directory.is_multi { ", of several pages" } else { "" };
        let height = match directory.height {
            0 => "a leaf".to_owned(),
            height => format!("height {height}"),
        };
        let mut text = format!(
            "\nDirectory {slot}: {state}, version {}{multi}, floor {}, {height}\n  {} live, {} \
                dead\n  {:>6}{:>16}{:>16}  contents\n",
            directory.version,
            directory.floor,
            directory.live.len(),
            directory.dead.len(),
            "place",
            "start",
            "end",
        );
        let mut cells = directory.live.iter().chain(&directory.dead);
        for cell in cells.by_ref().take(self.options.limit) {
            text += &cell_text(cell, directory.is_record);
        }
        if cells.next().is_some() {
            text += &more(self.options.limit);
        }
        text
    }
}

fn anchor_text(place: usize, anchor: &Anchor, counts: bool) -> String {
    let counts = if counts { ", counts" } else { "" };
    let closed = if anchor.is_closed { "closed cleanly" } else { "not closed" };
    let mut text = format!(
        "  {place}  sequence {}{counts}; opening {}; {closed}\n     versions given: at most {}; \
            settled: {}; free pages: {}, later: {}\n",
        anchor.sequence,
        anchor.opening,
        grouped(anchor.reserved.0),
        grouped(anchor.settled.0),
        anchor.pool.len(),
        anchor.kept.len()
    );
    for (first, last) in &anchor.voids {
        text += &format!("     void: {} to {}\n", grouped(first.0), grouped(last.0));
    }
    text
}

fn cell_text(cell: &CellView, is_record: bool) -> String {
    let end = cell.end.map_or("lives".to_owned(), |end| end.to_string());
    let mut what = Vec::new();
    what.extend(cell.child.map(|child| format!("page {child}")));
    what.extend(cell.key.map(|key| format!("key {key}")));
    if is_record || cell.child.is_none() {
        let room = 36_usize.saturating_sub(what.join(" ").len());
        what.push(bytes(&cell.local, cell.length, room));
    }
    let mut text =
        format!("  {:>6}{:>16}{end:>16}  {}\n", cell.place, cell.start.0, what.join(" "));
    if let Some(overflow) = cell.overflow {
        text += &format!("{:42}{}, from page {overflow}\n", "", plural(cell.length, "byte"));
    }
    text
}
