//! Which versions stay readable after newer ones were committed, and when each was committed.
//!
//! The file says how far its history goes back ([`Retain`], in the catalog). A tree of *marks* says
//! when: at most one a second, so that a transaction of one page mostly stays one. What is kept
//! follows from the last committed version alone. So each opening, and each process, finds the same
//! answer, also after a crash, and whatever the clock says (H1 to H6 in docs/mvbt-format.md).

use std::time::{Duration, SystemTime};

use crate::bytes::{get_u48, get_u64};
use crate::cursor::Cursor;
use crate::search::{Probe, Source, TreeRef};
use crate::work::{self, MARKS};
use crate::{Error, PageNo, Result, Version};

/// How far the history of a file goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retain {
    /// Nothing is kept for readers that have not begun.
    #[default]
    Off,
    /// At least the newest so many versions, and at most those of a second more.
    Versions(u64),
    /// The states of this time before the newest transaction. It is counted in milliseconds.
    Duration(Duration),
}

/// When a version was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The first version of this time. Those behind it, up to the next mark, came within a second.
    pub version: Version,
    /// In milliseconds since 1970. It is never less than that of the mark before.
    pub time_ms: u64,
    /// So many versions were committed up to this one, since the history was begun. Some may be
    /// missing: the last ones of an opening, or those before a rollback.
    pub number: u64,
}

impl Mark {
    /// The same as the system's time.
    pub fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.time_ms)
    }
}

/// What can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// What the file keeps.
    pub retain: Retain,
    /// The oldest version that can be read.
    pub from: Version,
    /// The newest one.
    pub to: Version,
    /// Those that were made since `from`, in order. Before them comes the one that has its time.
    pub marks: Vec<Mark>,
}

/// What a transaction must leave to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// The oldest version that a reader has, or may ask for.
    pub version: Version,
    /// The oldest that a reader has.
    pub read: Version,
    /// The oldest that the history keeps. Then each directory has all that is kept (H2).
    pub kept: Option<Version>,
}

/// Marks are at least so far apart.
pub const MARK_MS: u64 = 1000;
pub const MARK_BYTES: usize = 12;
pub const ENTRY_BYTES: usize = 21;
pub const VERSIONS: u8 = 1;
pub const DURATION: u8 = 2;

/// What the catalog says of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub retain: Retain,
    /// Nothing before this version is kept, whatever `retain` says.
    pub from: Version,
    pub marks: TreeRef,
}

impl Settings {
    pub fn of(root: PageNo, retain: Retain, from: Version) -> Settings {
        Settings { retain, from, marks: TreeRef { id: MARKS, root, is_record: false } }
    }
}

fn damaged(what: &'static str) -> Error {
    Error::Damaged { page: work::CATALOG, what }
}

/// None: the file keeps no history.
pub fn settings(source: &dyn Source) -> Result<Option<Settings>> {
    let Some(entry) = work::entry(source, work::RETAIN_KEY)? else { return Ok(None) };
    if entry.len() != ENTRY_BYTES {
        return Err(damaged("what it says of history has another length"));
    }
    let value = get_u64(&entry, 1);
    let retain = match entry[0] {
        VERSIONS => Retain::Versions(value),
        DURATION => Retain::Duration(Duration::from_millis(value)),
        _ => return Err(damaged("it keeps a history of an unknown kind")),
    };
    let (from, root) = (Version(get_u48(&entry, 9)), PageNo(get_u48(&entry, 15)));
    Ok(Some(Settings::of(root, retain, from)))
}

/// The mark on which a cursor stands.
fn mark_at(cursor: &Cursor, source: &dyn Source) -> Result<Option<Mark>> {
    let (Some(key), Some(payload)) = (cursor.integer_key(source)?, cursor.payload(source)?) else {
        return Ok(None);
    };
    match u64::try_from(key) {
        Ok(key) if payload.len() == MARK_BYTES => Ok(Some(Mark {
            version: Version(key),
            time_ms: get_u48(&payload, 0),
            number: get_u48(&payload, 6),
        })),
        _ => Err(damaged("a time in its history makes no sense")),
    }
}

/// The first mark of this version or a later one, and the one behind it.
pub fn marks_from(
    source: &dyn Source,
    marks: &TreeRef,
    version: Version,
) -> Result<(Option<Mark>, Option<Mark>)> {
    let mut cursor = Cursor::new(source, *marks);
    cursor.seek(source, Probe::Integer(version.0 as i64))?;
    let first = mark_at(&cursor, source)?;
    cursor.next(source)?;
    Ok((first, mark_at(&cursor, source)?))
}

pub fn last_mark(source: &dyn Source, marks: &TreeRef) -> Result<Option<Mark>> {
    let mut cursor = Cursor::new(source, *marks);
    cursor.last(source)?;
    mark_at(&cursor, source)
}

/// The newest mark for which something is true that is true for all before it.
fn newest_mark(
    source: &dyn Source,
    marks: &TreeRef,
    is_before: impl Fn(&Mark) -> bool,
) -> Result<Option<Mark>> {
    let (first, second) = marks_from(source, marks, Version(0))?;
    let Some(mut found) = first.filter(&is_before) else { return Ok(None) };
    // Marks that are not needed go soon, so this is the common case.
    if !second.is_some_and(|second| is_before(&second)) {
        return Ok(Some(found));
    }
    let mut end = last_mark(source, marks)?.map_or(found.version, |last| last.version.next()).0;
    while end - found.version.0 > 1 {
        let middle = found.version.0 + (end - found.version.0) / 2;
        match marks_from(source, marks, Version(middle))?.0.filter(&is_before) {
            Some(mark) if mark.version.0 >= middle => found = mark,
            _ => end = middle,
        }
        end = end.max(found.version.0);
    }
    Ok(Some(found))
}

/// The oldest version that is kept (H1). None: there is no history.
pub fn kept_from(source: &dyn Source) -> Result<Option<Version>> {
    let Some(settings) = settings(source)? else { return Ok(None) };
    let Some(last) = last_mark(source, &settings.marks)? else { return Ok(Some(settings.from)) };
    let kept = match settings.retain {
        Retain::Off => None,
        Retain::Versions(count) => {
            let number = last.number.saturating_sub(count.saturating_sub(1));
            let mark = newest_mark(source, &settings.marks, |mark| mark.number <= number)?;
            mark.map(|mark| Version(mark.version.0.saturating_add(number - mark.number)))
        }
        Retain::Duration(kept) => {
            let time = u128::from(last.time_ms).saturating_sub(kept.as_millis());
            newest_mark(source, &settings.marks, |mark| u128::from(mark.time_ms) <= time)?
                .map(|mark| mark.version)
        }
    };
    Ok(Some(kept.unwrap_or_default().max(settings.from)))
}

/// All that can be read, as the newest version says.
pub fn history(source: &dyn Source, newest: Version) -> Result<History> {
    let (Some(settings), Some(from)) = (settings(source)?, kept_from(source)?) else {
        return Ok(History { retain: Retain::Off, from: newest, to: newest, marks: Vec::new() });
    };
    let before = newest_mark(source, &settings.marks, |mark| mark.version <= from)?;
    let mut cursor = Cursor::new(source, settings.marks);
    let begin = before.map_or(from, |mark| mark.version);
    cursor.seek(source, Probe::Integer(begin.0 as i64))?;
    let mut marks = Vec::new();
    while let Some(mark) = mark_at(&cursor, source)? {
        if marks.last().is_some_and(|before: &Mark| before.version >= mark.version) {
            return Err(damaged("the times in its history are out of order"));
        }
        marks.push(mark);
        cursor.next(source)?;
    }
    Ok(History { retain: settings.retain, from, to: newest, marks })
}

/// The newest version that was committed by this time, as far as the marks say (H4). None: the
/// marks begin later.
pub fn version_at(source: &dyn Source, newest: Version, time_ms: u64) -> Result<Option<Version>> {
    let Some(settings) = settings(source)? else { return Ok(None) };
    let Some(mark) = newest_mark(source, &settings.marks, |mark| mark.time_ms <= time_ms)? else {
        return Ok(None);
    };
    if time_ms < mark.time_ms.saturating_add(MARK_MS) {
        return Ok(Some(mark.version));
    }
    let (next, _) = marks_from(source, &settings.marks, mark.version.next())?;
    Ok(Some(next.map_or(newest, |next| next.version.previous())))
}

/// Milliseconds since 1970, as a mark has them.
pub fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    u64::try_from(since).unwrap_or(u64::MAX).min(Version::MAX.0)
}
