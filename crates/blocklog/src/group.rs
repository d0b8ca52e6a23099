//! What a record of the strategy `eager` holds: pages, each as a delta against a version that recovery has.
//!
//! ```text
//! begin, in KIND_BEGIN only: u8 0, or u8 1, frames u32, salt 2 * u32, checksum 2 * u32
//! database_pages u32
//! a page each: varint page number, u8 base (0 zeros, 1 previous, 2 database: crc u32; + 4: in the row), varint length, delta
//! ```
//! A page that is *in the row* has a delta with copies from the bases of the record's other pages ([`delta::apply_in_row`]).
//! Little-endian; see `docs/log-format.md` for what recovery makes of it. The record's checksums say that these are the bytes that
//! were written; here every length is checked all the same.

use crate::varint;
use crate::{Error, delta};

/// The first record of an epoch. It may hold commits as well.
pub const KIND_BEGIN: u8 = 1;
/// Commits.
pub const KIND_COMMITS: u8 = 2;
/// Pages as they are about to be written to the database file by a checkpoint, so that a torn write there can be mended.
pub const KIND_IMAGES: u8 = 3;

/// What a page's delta is against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Zeros,
    /// The newest version of the page that this epoch's records before hold, or this record's entries before.
    Previous,
    /// The page in the database file as it was when the epoch began, with its CRC32C ([`page_crc`]).
    Database {
        crc: u32,
    },
}

/// How an epoch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Everything before is in the database file.
    Database,
    /// Everything before is in the database file and the first `frames` frames of the WAL image, which has these salts, and this
    /// running checksum behind those frames.
    Image { frames: u32, salt: [u32; 2], checksum: [u32; 2] },
}

const BEGIN_DATABASE: u8 = 0;
const BEGIN_IMAGE: u8 = 1;
const BASE_ZEROS: u8 = 0;
const BASE_PREVIOUS: u8 = 1;
const BASE_DATABASE: u8 = 2;
const IN_ROW: u8 = 4;

/// CRC32C, as in [`Base::Database`].
pub fn page_crc(page: &[u8]) -> u32 {
    crc32c::crc32c(page)
}

/// Builds one record's payload after the other, in the same memory.
#[derive(Debug)]
pub struct GroupWriter {
    begins: bool,
    at_database_pages: usize,
    payload: Vec<u8>,
    delta: Vec<u8>,
}

impl GroupWriter {
    pub fn new(begin: Option<Begin>, database_pages: u32) -> GroupWriter {
        let mut writer = GroupWriter { begins: false, at_database_pages: 0, payload: Vec::new(), delta: Vec::new() };
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

    /// The size of the database after this group: each further commit in it may change that.
    pub fn set_database_pages(&mut self, database_pages: u32) {
        crate::bytes::put(&mut self.payload, self.at_database_pages, &database_pages.to_le_bytes());
    }

    /// Adds a page, from 1; `delta` appends the page's delta to what it is given, which is empty.
    pub fn push(&mut self, page_no: u32, base: Base, delta: impl FnOnce(&mut Vec<u8>)) {
        self.delta.clear();
        delta(&mut self.delta);
        put_page(&mut self.payload, PageEntry { page_no, base, in_row: false, delta: &self.delta });
    }

    /// Adds a page as it is to be decoded.
    pub fn push_entry(&mut self, entry: PageEntry<'_>) {
        put_page(&mut self.payload, entry);
    }

    /// `KIND_BEGIN` or `KIND_COMMITS`.
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
    /// Its delta has copies from the bases of the record's other pages.
    pub in_row: bool,
    pub delta: &'a [u8],
}

/// A record's payload, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    pub begin: Option<Begin>,
    /// Size of the database after this group, in pages.
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
        // `decode` has been through all of them without an error.
        std::iter::from_fn(move || if rest.is_empty() { None } else { take_page(&mut rest).ok() })
    }
}

/// Makes a page of its base. `page` holds the version that `base` names, or anything for zeros; [`Base::Database`] is compared.
pub fn rebuild(base: Base, delta: &[u8], page: &mut [u8]) -> Result<(), Error> {
    match base {
        Base::Zeros => page.fill(0),
        Base::Previous => {}
        Base::Database { crc } if page_crc(page) == crc => {}
        Base::Database { .. } => return Err(bad("the database's page is not the one that its delta is against")),
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
            Ok(Begin::Image { frames: next()?, salt: [next()?, next()?], checksum: [next()?, next()?] })
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
