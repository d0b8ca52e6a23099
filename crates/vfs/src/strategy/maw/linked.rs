//! Where the other side of a link is: the log that has a database's commits, and the databases
//! whose commits a log has.
//!
//! `cp` copies UUIDs and links, so identity alone tells no copy from its original. Names do. A link
//! names the coordinator by its path, and the coordinator's records name each database by its path,
//! its own one too.
//!
//! | the log of a link is looked for | it is taken if |
//! |---|---|
//! | where the user says (`oneflush recover --with`) | it is that log |
//! | beside this database, under the recorded name | it names a database of this name |
//! | at the recorded path | it names this very path, or this name and nothing lies beside |
//!
//! A log that is still needed when its own database needs it no more gets another name
//! ([`aside_path`]), and is looked for under both.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. What lies in another directory is read. It is written, recovered or removed only if both
//!    sides are at the very paths that the log names. A copy is at none of them.
//! 2. A link is followed only into a log that goes back to it, and reaches it. Else one of both
//!    sides is an older copy, and what is between is nowhere.
//! 3. A log is deleted only when each database that it names was found, and has its own commits.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use oneflush_blocklog::{Error as LogError, Log, Lsn, Uuid};

use super::open_log::OpenLog;
use super::record::{Link, Record};
use crate::config::Options;
use crate::error::Code;
use crate::mutant::{self, Mutant};
use crate::names::{aside_path, database_of, maw_path};
use crate::strategy::guard::{self, HEADER_BYTES};
use crate::strategy::log_files::{LogFile, LogFiles};
use crate::strategy::log_life::{AttachError, KeptLog, LogLife};

/// The other side, as the user has named it.
static NAMED: OnceLock<String> = OnceLock::new();

/// Says where the other side of a link is, for this process: the database, or its log. Later calls
/// change nothing.
pub fn name_other_side(file: &str) {
    let _ = NAMED.set(database_of(file).to_owned());
}

/// The files of a place, to look at only.
pub trait Look {
    fn is_there(&self, path: &str) -> Result<bool, Code>;
    /// `None`: there is no log.
    fn open(&self, log: &str) -> Result<Option<LogFile>, Code>;
    /// Of a database file. `None`: it is not there, or has none.
    fn header(&self, database: &str) -> Result<Option<[u8; HEADER_BYTES]>, Code>;
}

/// Through the VFS of the connections.
pub struct ByVfs<'a>(pub &'a dyn LogFiles);

impl Look for ByVfs<'_> {
    fn is_there(&self, path: &str) -> Result<bool, Code> {
        self.0.is_there(path)
    }

    fn open(&self, log: &str) -> Result<Option<LogFile>, Code> {
        self.0.open_log_to_read(log)
    }

    fn header(&self, database: &str) -> Result<Option<[u8; HEADER_BYTES]>, Code> {
        self.0.header(database)
    }
}

/// A database whose log ends with a link.
pub struct Follower<'a> {
    pub database: &'a str,
    /// Of its own log.
    pub uuid: Uuid,
}

/// The log that a link names.
pub struct Linked {
    /// The database that it is the log of.
    pub database: String,
    pub path: String,
    pub log: Log<LogFile>,
    /// Invariant 1.
    pub may_be_touched: bool,
}

/// The log that a link names.
pub fn find(link: &Link, of: &Follower<'_>, look: &dyn Look) -> Result<Linked, AttachError> {
    let beside = beside(of.database, &link.database);
    let named = NAMED.get().map(|named| (named.clone(), By::User));
    let places = [(beside.clone(), By::Beside), (link.database.clone(), By::Record)];
    let mut why = AttachError::LinkedLogMissing(link.database.clone());
    for (database, by) in named.into_iter().chain(places) {
        for path in [maw_path(&database), aside_path(&maw_path(&database), link.uuid)] {
            let Some(log) = open(look, &path, link.uuid)? else { continue };
            let told = Told::read(&log, of.uuid)?;
            let (Some(name), true) = (&told.name, told.reaches(link)) else {
                why = AttachError::LinkedLogOtherTime(database.clone());
                continue;
            };
            let is_same_path = name == of.database;
            let fits = match by {
                By::User => true,
                _ if mutant::is(Mutant::NamesUnread) => true,
                _ if is_same_path => true,
                By::Beside => is_same_name(name, of.database),
                By::Record => {
                    is_same_name(name, of.database)
                        && told.goes_back_to(link)
                        && !look.is_there(&beside)?
                }
            };
            if fits {
                let may_be_touched = is_same_path || by == By::Beside;
                return Ok(Linked { database, path, log, may_be_touched });
            }
            why = AttachError::LinkedLogOtherName { of: database.clone(), name: name.clone() };
        }
    }
    Err(why)
}

/// Who says where a log is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    User,
    Beside,
    Record,
}

/// What a log says of a database that is linked to it.
struct Told {
    /// The first record and the last one.
    lsns: Option<(Lsn, Lsn)>,
    name: Option<String>,
    has_commits: bool,
}

impl Told {
    fn read(log: &Log<LogFile>, uuid: Uuid) -> Result<Told, LogError> {
        let mut told = Told { lsns: None, name: None, has_commits: false };
        log.scan(|kind, lsn, payload| {
            told.lsns = Some((told.lsns.map_or(lsn, |(first, _)| first), lsn));
            let record = Record::decode(kind, payload)?;
            if let Record::Together { others, .. } = &record
                && let Some(other) = others.iter().find(|other| other.uuid == uuid)
            {
                told.name = Some(other.database.to_owned());
                told.has_commits |= other.group()?.database_pages != 0;
            }
            Ok::<(), LogError>(())
        })?;
        Ok(told)
    }

    fn goes_back_to(&self, link: &Link) -> bool {
        self.lsns.is_some_and(|(first, _)| first <= link.behind)
    }

    /// Invariant 2. A crash between the announcement and a new link leaves an older link, and no
    /// commit that it does not lead to.
    fn reaches(&self, link: &Link) -> bool {
        self.lsns.is_some_and(|(_, last)| last >= link.behind)
            && (self.goes_back_to(link) || !self.has_commits)
    }
}

/// Whether a database that a log names still needs that log.
pub enum Need {
    /// Its commits are there. It can leave.
    Linked(String),
    /// It has its own commits. The place is that of its log, if it has one.
    Settled(Option<String>),
    /// Its log cannot be read. It is damaged, or somebody is writing it.
    Unread(String),
    /// It was not found, or it cannot be said.
    Unknown,
}

/// A log, and the database that it is the log of.
pub struct Coordinator<'a> {
    pub database: &'a str,
    pub log: &'a Log<LogFile>,
}

/// Another database that a log names.
pub struct Named {
    /// Of its own log.
    pub uuid: Uuid,
    pub path: String,
    /// The last record that was written before it was linked to this log.
    pub announced: Lsn,
}

/// What a log says of the databases with commits in it.
#[derive(Default)]
pub struct Names {
    /// Where the log's own database was when the others were written down.
    pub own: String,
    pub others: Vec<Named>,
}

impl Coordinator<'_> {
    pub fn names(&self) -> Result<Names, LogError> {
        let mut names = Names::default();
        self.log.scan(|kind, lsn, payload| {
            let Record::Together { others, .. } = Record::decode(kind, payload)? else {
                return Ok::<(), LogError>(());
            };
            let own = others.iter().find(|other| other.uuid == self.log.uuid());
            if let Some(own) = own {
                own.database.clone_into(&mut names.own);
            }
            for other in others.iter().filter(|other| other.uuid != self.log.uuid()) {
                let known = names.others.iter_mut().find(|known| known.uuid == other.uuid);
                match known {
                    Some(known) => {
                        other.database.clone_into(&mut known.path);
                        known.announced = if own.is_some() { lsn } else { known.announced };
                    }
                    None => names.others.push(Named {
                        uuid: other.uuid,
                        path: other.database.to_owned(),
                        announced: lsn,
                    }),
                }
            }
            Ok(())
        })?;
        Ok(names)
    }

    /// The same as [`need`](Self::need) where others may be writing. The caller has no board's
    /// lock.
    pub fn need_beside_writers(
        &self,
        own: &str,
        named: &Named,
        files: &Arc<dyn LogFiles>,
    ) -> Result<Need, Code> {
        let need = || self.need(own, named, &ByVfs(&**files));
        let database = match need()? {
            Need::Unread(database) => database,
            need => return Ok(need),
        };
        let life = LogLife::<OpenLog>::new(&database, Arc::clone(files));
        let board = match life.lock_board() {
            Err(Code::BUSY) => return Err(Code::BUSY),
            Err(_) => return Ok(Need::Unread(database)),
            Ok(board) => board,
        };
        let need = need();
        life.tidy(&board);
        board.common().unlock(0..0);
        need
    }

    /// Whether that database needs the log. Where this one has another name than it had (`own`),
    /// nobody knows which copy belongs to which. In another folder it is a copy or was moved, and
    /// only what lies beside it can belong to it.
    pub fn need(
        &self,
        own: &str,
        Named { uuid, path: recorded, .. }: &Named,
        look: &dyn Look,
    ) -> Result<Need, Code> {
        if !is_same_name(own, self.database) && !mutant::is(Mutant::NamesUnread) {
            return Ok(Need::Unknown);
        }
        let is_at_home = own == self.database;
        let beside = beside(self.database, recorded);
        let home = is_at_home.then(|| recorded.to_owned());
        let mut places: Vec<String> = home.into_iter().chain([beside]).collect();
        places.dedup();
        for (at, place) in places.iter().enumerate() {
            match self.need_of(place, *uuid, look)? {
                Some(Need::Settled(None)) if at > 0 => {}
                Some(need) => return Ok(need),
                None => {}
            }
        }
        let is_forgotten = mutant::is(Mutant::LogNotKept);
        Ok(if is_forgotten { Need::Settled(None) } else { Need::Unknown })
    }

    /// The same for what lies at one place. `None`: it is not there, or belongs to another copy of
    /// this log.
    fn need_of(&self, place: &str, uuid: Uuid, look: &dyn Look) -> Result<Option<Need>, Code> {
        loop {
            // Whoever is linked has the guard, durably, and a log that says so.
            let header = look.header(place)?;
            if header.is_some_and(|it| guard::is_database(&it) && guard::of(&it) != Some(uuid)) {
                return Ok(Some(Need::Settled(None)));
            }
            let need = match look.open(&maw_path(place))? {
                None if header.is_none() => return Ok(None),
                None => Need::Unknown,
                Some(file) => match self.need_by_log(place, file, uuid) {
                    Some(need) => need,
                    None => return Ok(None),
                },
            };
            // A last close takes the guard away, then the log. It may have come between.
            let is_doubtful = matches!(need, Need::Unknown | Need::Unread(_));
            if !is_doubtful || look.header(place)? == header {
                return Ok(Some(need));
            }
        }
    }

    fn need_by_log(&self, place: &str, file: LogFile, uuid: Uuid) -> Option<Need> {
        let own = match OpenLog::open(file, &Options::default()) {
            Err(_) => return Some(Need::Unread(place.to_owned())),
            Ok(own) if own.log.uuid() != uuid => return Some(Need::Unknown),
            Ok(own) => own,
        };
        match own.link() {
            Err(_) => Some(Need::Unread(place.to_owned())),
            Ok(Some(link)) if link.uuid != self.log.uuid() => {
                Some(Need::Settled(Some(place.to_owned())))
            }
            Ok(Some(link)) if is_same_name(&link.database, self.database) => {
                Some(Need::Linked(place.to_owned()))
            }
            // It belongs to another copy of this log.
            Ok(Some(_)) => None,
            Ok(None) => Some(Need::Settled(Some(place.to_owned()))),
        }
    }
}

fn open(look: &dyn Look, path: &str, uuid: Uuid) -> Result<Option<Log<LogFile>>, AttachError> {
    let Some(file) = look.open(path)? else { return Ok(None) };
    Ok(Log::open(file).ok().filter(|log| log.uuid() == uuid))
}

/// A file of the same name, beside this one.
pub fn beside(database: &str, other: &str) -> String {
    let name = Path::new(other).file_name().unwrap_or_default();
    Path::new(database).with_file_name(name).display().to_string()
}

fn is_same_name(one: &str, other: &str) -> bool {
    Path::new(one).file_name() == Path::new(other).file_name()
}

/// Runs `act` under the lock of that log's board. A record that is unsure is written again before,
/// if it can be read. What one database takes from it must not be lost for the others.
pub fn settled<R>(
    life: &LogLife<OpenLog>,
    uuid: Uuid,
    act: impl FnOnce() -> Result<R, AttachError>,
) -> Result<R, AttachError> {
    let board = life.lock_board()?;
    let unsure = board.unsure().filter(|_| board.uuid() == uuid);
    let settled = unsure.map_or(Ok(()), |lsn| {
        let file = life.files.open_log(&life.log_path())?.ok_or(AttachError::LogMissing)?;
        Ok(Log::open(file)?.write_again(lsn)?)
    });
    let done = settled.and_then(|()| act());
    life.tidy(&board);
    board.common().unlock(0..0);
    done
}

/// Deletes a log that was set aside, if no database that it names needs it (invariant 3). The
/// caller has no board's lock.
pub fn remove_aside(
    database: &str,
    path: &str,
    files: &Arc<dyn LogFiles>,
) -> Result<(), AttachError> {
    let Some(file) = files.open_log_to_read(path)? else { return Ok(()) };
    let log = Log::open(file)?;
    let coordinator = Coordinator { database, log: &log };
    let names = coordinator.names()?;
    for named in &names.others {
        match coordinator.need_beside_writers(&names.own, named, files)? {
            Need::Settled(None) => {}
            // As at the end of an epoch.
            Need::Settled(Some(other)) => {
                settled(&LogLife::new(&other, Arc::clone(files)), named.uuid, || Ok(()))?;
            }
            Need::Linked(_) | Need::Unread(_) | Need::Unknown => return Ok(()),
        }
    }
    Ok(files.delete(path, true)?)
}

#[cfg(test)]
mod tests {
    use oneflush_blocklog::DirectFile;

    use super::*;
    use crate::sync::{Mutex, lock};

    /// Its log is gone. The headers are what is read of it, one after the other.
    struct Closing(Mutex<Vec<[u8; HEADER_BYTES]>>);

    impl Look for Closing {
        fn is_there(&self, _: &str) -> Result<bool, Code> {
            Ok(true)
        }

        fn open(&self, _: &str) -> Result<Option<LogFile>, Code> {
            Ok(None)
        }

        fn header(&self, _: &str) -> Result<Option<[u8; HEADER_BYTES]>, Code> {
            let mut headers = lock(&self.0);
            let header = headers[0];
            if headers.len() > 1 {
                headers.remove(0);
            }
            Ok(Some(header))
        }
    }

    #[test]
    fn a_database_that_is_just_closed_by_another_process_needs_no_log() {
        let (own, other) = (Uuid([1; 16]), Uuid([2; 16]));
        let mut plain = [0; HEADER_BYTES];
        plain[..16].copy_from_slice(b"SQLite format 3\0");
        plain[21..24].copy_from_slice(&[64, 32, 32]);
        plain[18..20].fill(1);
        let mut guarded = plain;
        guard::set(&mut guarded, other);
        let dir = tempfile::tempdir().unwrap();
        let file = LogFile(Box::new(DirectFile::open(&dir.path().join("a.db-maw"), true).unwrap()));
        let (log, _) = Log::create(file, own, 4096, 1 << 16).unwrap();
        let coordinator = Coordinator { database: "/d/a.db", log: &log };
        let named = Named { uuid: other, path: "/d/b.db".to_owned(), announced: Lsn(1) };
        let need =
            |headers| coordinator.need("/d/a.db", &named, &Closing(Mutex::new(headers))).unwrap();
        assert!(matches!(need(vec![guarded, plain]), Need::Settled(None)));
        assert!(matches!(need(vec![guarded]), Need::Unknown));
    }
}
