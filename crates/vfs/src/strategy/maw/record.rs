//! The records of `maw`'s log.
//!
//! ```text
//! 1, 2, 3   begin, commits, images: a group of pages, as in the log of `eager`
//! 4         together: u32 length, group, then for each other database:
//!           its log's UUID, u16 length, path, u32 length, group
//! 5         link: u64 LSN, UUID of the other log, u16 length, path of its database, group (page 1)
//! ```
//! A *together* record commits pages of several databases. It is in the log of one of them, the
//! *coordinator*. The log of each other one ends with a *link*: behind this LSN of that log,
//! commits of this database are to be found there. Numbers are little-endian.

use oneflush_blocklog::group::{Group, KIND_COMMITS, KIND_IMAGES};
use oneflush_blocklog::{Error as LogError, Lsn, Uuid};

/// Commits of several databases.
pub const KIND_TOGETHER: u8 = 4;
/// The commits that follow are in another log.
pub const KIND_LINK: u8 = 5;

/// The log that has the next commits of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub uuid: Uuid,
    /// Commits up to this record are not this database's, or are older than the link.
    pub behind: Lsn,
    /// The database that the log lies beside.
    pub database: String,
}

/// A part of a together record that is another database's.
pub struct Other<'a> {
    /// The UUID of that database's own log.
    pub uuid: Uuid,
    pub database: &'a str,
    group: &'a [u8],
}

impl<'a> Other<'a> {
    pub fn group(&self) -> Result<Group<'a>, LogError> {
        Group::decode(KIND_COMMITS, self.group)
    }
}

/// A record, read.
pub enum Record<'a> {
    Pages(Group<'a>),
    Together { own: Group<'a>, others: Vec<Other<'a>> },
    Link { link: Link, page_one: Group<'a> },
}

impl<'a> Record<'a> {
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Record<'a>, LogError> {
        let mut rest = payload;
        match kind {
            KIND_TOGETHER => {
                let own = Group::decode(KIND_COMMITS, take_long(&mut rest)?)?;
                let mut others = Vec::new();
                while !rest.is_empty() {
                    let uuid = take_uuid(&mut rest)?;
                    let database = take_text(&mut rest)?;
                    others.push(Other { uuid, database, group: take_long(&mut rest)? });
                }
                Ok(Record::Together { own, others })
            }
            KIND_LINK => {
                let behind = Lsn(u64::from_le_bytes(take_array(&mut rest)?));
                let uuid = take_uuid(&mut rest)?;
                let database = take_text(&mut rest)?.to_owned();
                let page_one = Group::decode(KIND_IMAGES, rest)?;
                Ok(Record::Link { link: Link { uuid, behind, database }, page_one })
            }
            _ => Ok(Record::Pages(Group::decode(kind, payload)?)),
        }
    }

    /// The pages of the log's own database.
    pub fn own(&self) -> Group<'a> {
        match self {
            Record::Pages(group)
            | Record::Together { own: group, .. }
            | Record::Link { page_one: group, .. } => *group,
        }
    }

    /// The pages of the database whose own log has this UUID.
    pub fn of(&self, uuid: Uuid) -> Result<Option<Group<'a>>, LogError> {
        let Record::Together { others, .. } = self else { return Ok(None) };
        others.iter().find(|other| other.uuid == uuid).map(Other::group).transpose()
    }
}

/// The pages that a record has of the log's own database.
pub fn own_group(kind: u8, payload: &[u8]) -> Result<Group<'_>, LogError> {
    Ok(Record::decode(kind, payload)?.own())
}

/// The payload of a link. `page_one` is a group of page 1.
pub fn encode_link(link: &Link, page_one: &[u8]) -> Vec<u8> {
    let mut payload = link.behind.0.to_le_bytes().to_vec();
    payload.extend_from_slice(&link.uuid.0);
    put_text(&mut payload, &link.database);
    payload.extend_from_slice(page_one);
    payload
}

/// Begins the payload of a together record.
pub fn begin_together(payload: &mut Vec<u8>, own: &[u8]) {
    payload.clear();
    put_long(payload, own);
}

/// Adds the group of another database.
pub fn push_other(payload: &mut Vec<u8>, uuid: Uuid, database: &str, group: &[u8]) {
    payload.extend_from_slice(&uuid.0);
    put_text(payload, database);
    put_long(payload, group);
}

fn put_long(payload: &mut Vec<u8>, bytes: &[u8]) {
    payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    payload.extend_from_slice(bytes);
}

/// SQLite's names are shorter than 64 KiB.
fn put_text(payload: &mut Vec<u8>, text: &str) {
    payload.extend_from_slice(&(text.len() as u16).to_le_bytes());
    payload.extend_from_slice(text.as_bytes());
}

const CUT_OFF: LogError = LogError::BadGroup { what: "it ends in the middle of an entry" };

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], LogError> {
    let (taken, behind) = rest.split_at_checked(len).ok_or(CUT_OFF)?;
    *rest = behind;
    Ok(taken)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], LogError> {
    take(rest, N)?.try_into().map_err(|_| CUT_OFF)
}

fn take_uuid(rest: &mut &[u8]) -> Result<Uuid, LogError> {
    Ok(Uuid(take_array(rest)?))
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Result<&'a str, LogError> {
    let len = u16::from_le_bytes(take_array(rest)?);
    std::str::from_utf8(take(rest, len.into())?)
        .map_err(|_| LogError::BadGroup { what: "a database's name is not UTF-8" })
}

fn take_long<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], LogError> {
    let len = u32::from_le_bytes(take_array(rest)?);
    take(rest, len as usize)
}

#[cfg(test)]
mod tests {
    use oneflush_blocklog::delta;
    use oneflush_blocklog::group::{Base, GroupWriter};

    use super::*;

    const HERE: Uuid = Uuid([1; 16]);
    const THERE: Uuid = Uuid([2; 16]);

    fn group(page_no: u32, database_pages: u32) -> Vec<u8> {
        let mut writer = GroupWriter::new(None, database_pages);
        writer.push(page_no, Base::Zeros, |out| delta::encode_from_zeros(&[7; 512], out));
        writer.finish().to_vec()
    }

    fn pages(group: Group<'_>) -> Vec<u32> {
        group.pages().map(|entry| entry.page_no).collect()
    }

    #[test]
    fn each_database_finds_its_own_pages_in_a_together_record() {
        let mut payload = Vec::new();
        begin_together(&mut payload, &group(3, 5));
        push_other(&mut payload, HERE, "/a/b.db", &group(4, 6));
        push_other(&mut payload, THERE, "/c.db", &group(9, 9));
        let record = Record::decode(KIND_TOGETHER, &payload).unwrap();
        assert_eq!(pages(record.own()), [3]);
        assert_eq!(pages(record.of(HERE).unwrap().unwrap()), [4]);
        assert_eq!(pages(record.of(THERE).unwrap().unwrap()), [9]);
        assert!(record.of(Uuid([3; 16])).unwrap().is_none());
        for len in 0..payload.len() {
            // A shorter payload is an error, or ends behind one of the databases.
            if let Ok(Record::Together { others, .. }) =
                Record::decode(KIND_TOGETHER, &payload[..len])
            {
                assert!(others.len() < 2, "{len}");
            }
        }
    }

    #[test]
    fn a_link_says_where_and_from_where_on() {
        let link = Link { uuid: THERE, behind: Lsn(77), database: "/d/ü.db".to_owned() };
        let payload = encode_link(&link, &group(1, 0));
        match Record::decode(KIND_LINK, &payload).unwrap() {
            Record::Link { link: found, page_one } => {
                assert_eq!((found, pages(page_one)), (link, vec![1]));
            }
            _ => panic!("not a link"),
        }
        for len in 0..payload.len() - 1 {
            let _ = Record::decode(KIND_LINK, &payload[..len]);
        }
    }
}
