//! The payload of a record of the strategy `eager`: pages, each as a delta against a version that
//! recovery has.
//!
//! ```text
//! begin, in KIND_BEGIN only: u8 0, or u8 1, frames u32, salt 2 * u32, checksum 2 * u32
//! database_pages u32
//! for each page: varint page number, u8 base, varint length, delta
//! base: 0 zeros, 1 previous, 2 database: crc u32 follows; + 4: in the row
//! ```
//! A page that is *in the row* has a delta with copies from the bases of the record's other pages
//! ([`delta::apply_in_row`]).
//!
//! Numbers are little-endian. `docs/log-format.md` says what recovery makes of them. The record's
//! checksums say that these bytes were written. Every length is checked here all the same.

use crate::varint;
use crate::{Error, delta};

/// The first record of an epoch. It may hold commits as well.
pub const KIND_BEGIN: u8 = 1;
/// Commits.
pub const KIND_COMMITS: u8 = 2;
/// Pages as a checkpoint is about to write them to the database file. They mend a torn write there.
pub const KIND_IMAGES: u8 = 3;

/// The base of a page's delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Zeros,
    /// The newest version of the page in this epoch's records before, or in this record's entries
    /// before.
    Previous,
    /// The page of the database file when the epoch began, with its CRC32C ([`page_crc`]).
    Database {
        crc: u32,
    },
}

/// How an epoch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The database file has everything before.
    Database,
    /// The database file and the first `frames` frames of the WAL image have everything before. The
    /// image has these salts, and this running checksum behind those frames.
    Image { frames: u32, salt: [u32; 2], checksum: [u32; 2] },
}

const BEGIN_DATABASE: u8 = 0;
const BEGIN_IMAGE: u8 = 1;
const BASE_ZEROS: u8 = 0;
const BASE_PREVIOUS: u8 = 1;
const BASE_DATABASE: u8 = 2;
const IN_ROW: u8 = 4;

/// The CRC32C of [`Base::Database`].
pub fn page_crc(page: &[u8]) -> u32 {
    crc32c::crc32c(page)
}

/// Builds the payload of one record after another, in the same memory.
#[derive(Debug)]
pub struct GroupWriter {
    begins: bool,
    at_database_pages: usize,
    payload: Vec<u8>,
    delta: Vec<u8>,
}

impl GroupWriter {
    pub fn new(begin: Option<Begin>, database_pages: u32) -> GroupWriter {
        let mut writer = GroupWriter {
            begins: false,
            at_database_pages: 0,
            payload: Vec::new(),
            delta: Vec::new(),
        };
        writer.reset(begin, database_pages);
        writer
    }

    /// Begins the next payload.
    pub fn reset(&mut self, begin: Option<Begin>, database_pages: u32) {
        self.payload.clear();
        match begin {
            None => {}
            Some(Begin::Database) => self.payload.push(BEGIN_DATABASE),
            Some(Begin::Image { frames, salt, checksum }) => {
                self.payload.push(BEGIN_IMAGE);
                for number in [frames, salt[0], salt[1], checksum[0], checksum[1]] {
                    self.payload.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
        self.begins = begin.is_some();
        self.at_database_pages = self.payload.len();
        self.payload.extend_from_slice(&database_pages.to_le_bytes());
    }

    /// Sets the size of the database after this group. Each further commit in the group may change
    /// it.
    pub fn set_database_pages(&mut self, database_pages: u32) {
        crate::bytes::put(&mut self.payload, self.at_database_pages, &database_pages.to_le_bytes());
    }

    /// Adds a page; numbers begin at 1. `delta` appends the page's delta to an empty vector.
    pub fn push(&mut self, page_no: u32, base: Base, delta: impl FnOnce(&mut Vec<u8>)) {
        self.delta.clear();
        delta(&mut self.delta);
        put_page(&mut self.payload, PageEntry { page_no, base, in_row: false, delta: &self.delta });
    }

    /// Adds a page as it is to be decoded.
    pub fn push_entry(&mut self, entry: PageEntry<'_>) {
        put_page(&mut self.payload, entry);
    }

    /// The kind with or without a begin: `KIND_BEGIN` or `KIND_COMMITS`.
    pub fn kind(&self) -> u8 {
        if self.begins { KIND_BEGIN } else { KIND_COMMITS }
    }

    pub fn len_bytes(&self) -> usize {
        self.payload.len()
    }

    /// The payload as it is now.
    pub fn finish(&mut self) -> &[u8] {
        &self.payload
    }
}

/// A page of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEntry<'a> {
    pub page_no: u32,
    pub base: Base,
    /// The delta has copies from the bases of the record's other pages.
    pub in_row: bool,
    pub delta: &'a [u8],
}

/// A record's payload, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    pub begin: Option<Begin>,
    /// Size of the database after this group, in pages. 0: as before.
    pub database_pages: u32,
    entries: &'a [u8],
}

impl<'a> Group<'a> {
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Group<'a>, Error> {
        let mut rest = payload;
        let begin = match kind {
            KIND_BEGIN => Some(take_begin(&mut rest)?),
            KIND_COMMITS | KIND_IMAGES => None,
            _ => return Err(bad("its kind is unknown")),
        };
        let database_pages = take_u32(&mut rest).ok_or(bad(CUT_OFF))?;
        let entries = rest;
        while !rest.is_empty() {
            take_page(&mut rest)?;
        }
        Ok(Group { begin, database_pages, entries })
    }

    /// The pages, in the order in which they were pushed.
    pub fn pages(&self) -> impl Iterator<Item = PageEntry<'a>> + use<'a> {
        let mut rest = self.entries;
        // `decode` has read all of them without an error.
        std::iter::from_fn(move || if rest.is_empty() { None } else { take_page(&mut rest).ok() })
    }
}

/// Makes a page of its base. `page` holds the version that `base` names; for zeros it may hold
/// anything. The checksum of [`Base::Database`] is compared.
pub fn rebuild(base: Base, delta: &[u8], page: &mut [u8]) -> Result<(), Error> {
    match base {
        Base::Zeros => page.fill(0),
        Base::Previous => {}
        Base::Database { crc } if page_crc(page) == crc => {}
        Base::Database { .. } => {
            return Err(bad("the database's page is not the one that its delta is against"));
        }
    }
    delta::apply(delta, page)
}

const CUT_OFF: &str = "it ends in the middle of an entry";

fn bad(what: &'static str) -> Error {
    Error::BadGroup { what }
}

fn take_begin(rest: &mut &[u8]) -> Result<Begin, Error> {
    match take_u8(rest).ok_or(bad(CUT_OFF))? {
        BEGIN_DATABASE => Ok(Begin::Database),
        BEGIN_IMAGE => {
            let mut next = || take_u32(rest).ok_or(bad(CUT_OFF));
            Ok(Begin::Image {
                frames: next()?,
                salt: [next()?, next()?],
                checksum: [next()?, next()?],
            })
        }
        _ => Err(bad("an epoch begins in an unknown way")),
    }
}

fn put_page(payload: &mut Vec<u8>, PageEntry { page_no, base, in_row, delta }: PageEntry<'_>) {
    varint::put(payload, page_no);
    let in_row = if in_row { IN_ROW } else { 0 };
    match base {
        Base::Zeros => payload.push(BASE_ZEROS | in_row),
        Base::Previous => payload.push(BASE_PREVIOUS | in_row),
        Base::Database { crc } => {
            payload.push(BASE_DATABASE | in_row);
            payload.extend_from_slice(&crc.to_le_bytes());
        }
    }
    varint::put(payload, delta.len() as u32);
    payload.extend_from_slice(delta);
}

fn take_page<'a>(rest: &mut &'a [u8]) -> Result<PageEntry<'a>, Error> {
    let page_no = varint::take(rest).ok_or(bad(CUT_OFF))?;
    if page_no == 0 {
        return Err(bad("there is no page 0"));
    }
    let how = take_u8(rest).ok_or(bad(CUT_OFF))?;
    let base = match how & !IN_ROW {
        BASE_ZEROS => Base::Zeros,
        BASE_PREVIOUS => Base::Previous,
        BASE_DATABASE => Base::Database { crc: take_u32(rest).ok_or(bad(CUT_OFF))? },
        _ => return Err(bad("a page has an unknown base")),
    };
    let length = varint::take(rest).ok_or(bad(CUT_OFF))?;
    let delta = varint::take_bytes(rest, length).ok_or(bad(CUT_OFF))?;
    Ok(PageEntry { page_no, base, in_row: how & IN_ROW != 0, delta })
}

fn take_u8(rest: &mut &[u8]) -> Option<u8> {
    varint::take_bytes(rest, 1).map(|bytes| bytes[0])
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    varint::take_bytes(rest, 4).map(|bytes| crate::bytes::get_u32(bytes, 0))
}
