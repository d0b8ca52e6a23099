//! Recovery: builds the image again from the database file and the log. SQLite then finds every
//! acknowledged commit in the image.
//!
//! 1. Reads the newest epoch of the log ([`build`]).
//! 2. Makes the newest version of each of its pages ([`RebuiltPages`]).
//! 3. Writes them to the image, a frame a page, as one transaction ([`write_image`]).
//! 4. The epoch goes on where it ended.
//!
//! Nothing durable is written, neither to the database file nor to the log. So a crash during
//! recovery leaves what was there before, and the next recovery does the same again. One exception:
//! a record whose append failed in this process is written again.

use oneflush_blocklog::group::{Base, Group, PageEntry};
use oneflush_blocklog::{Error as LogError, Log, Lsn, delta};
use rustc_hash::FxHashMap;

use super::building::{Building, build};
use super::log::{OpenLog, Page};
use super::rebuilt::RebuiltPages;
use crate::error::Code;
use crate::mutant::{self, Mutant};
use crate::port::Below;
use crate::strategy::log_files::{LogFile, code_of, settle};
use crate::wal_file::{Chain, WalFile};

/// The pages that are made may take this much memory.
const MEMORY_BYTES_MAX: usize = 4 << 20;

/// Why a database cannot be recovered from its log.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("reading or writing beside the log failed: code {} [OF-317]", .0.0)]
    Below(Code),
    #[error("record {0} of the log changes page {1}, which no record before it has [OF-313]")]
    NoBase(u64, u32),
    #[error(
        "page {1} of the database file is not the one that record {0} of the log was written \
            against; the file was changed without Oneflush [OF-314]"
    )]
    OtherBase(u64, u32),
    #[error("the first {0} frames of the WAL image are not those that the log stands on [OF-315]")]
    Image(u32),
    #[error(
        "the database file has a later commit than the log, whose last record is damaged [OF-342]"
    )]
    Behind,
    #[error("record {0} of the log has a number of frames or pages that cannot be [OF-316]")]
    Impossible(u64),
}

impl RecoverError {
    pub fn code(&self) -> Code {
        match self {
            RecoverError::Log(error) => code_of(error),
            RecoverError::Below(code) => *code,
            RecoverError::NoBase(..)
            | RecoverError::OtherBase(..)
            | RecoverError::Image(_)
            | RecoverError::Behind
            | RecoverError::Impossible(_) => Code::CORRUPT,
        }
    }
}

impl From<Code> for RecoverError {
    fn from(code: Code) -> RecoverError {
        RecoverError::Below(code)
    }
}

/// What a recovery has restored.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Recovered {
    pub records: u64,
    pub pages: u64,
    pub time_ns: u64,
}

/// Builds the image. `salt` is for a new image. `will_read` is told which pages of the database
/// will be read, in their order.
pub fn run(
    log: &mut OpenLog,
    main: &dyn Below,
    image: &dyn Below,
    salt: [u32; 2],
    will_read: &dyn Fn(&[u32]),
) -> Result<Recovered, RecoverError> {
    settle(&log.log, &mut log.unsure)?;
    let image = WalFile { file: image, page_bytes: log.page_bytes };
    let pages = RebuiltPages::new(image, MEMORY_BYTES_MAX);
    let Some((head, built)) = build(&log.log, main, pages, will_read)? else {
        log.head = log.log.empty_head()?;
        image.empty()?;
        return Ok(Recovered::default());
    };
    let (on_image, records, count) =
        (built.on_image.is_some(), built.records, built.pages.count() as u32);
    let (pages, frame) = write_image(built, main, image, salt)?;
    log.pages = pages;
    log.head = head;
    log.logged = frame;
    log.begun = !mutant::is(Mutant::EpochAfterRecovery);
    log.on_image = on_image;
    log.records_in_epoch = records;
    Ok(Recovered { records, pages: u64::from(count), time_ns: 0 })
}

/// Writes the frames of what was built behind the frames that the epoch stands on. Answers the
/// pages, and the last frame.
pub fn write_image(
    built: Building<'_>,
    main: &dyn Below,
    image: WalFile<'_>,
    salt: [u32; 2],
) -> Result<(FxHashMap<u32, Page>, u32), RecoverError> {
    let Building { pages, mut database_pages, on_image, .. } = built;
    let count = pages.count() as u32;
    let (standing, chain) = match on_image {
        Some((frames, chain)) => (frames, chain),
        None if count == 0 => (0, Chain { salt, checksum: [0; 2] }),
        None => (0, image.write_header(salt)?),
    };
    if database_pages == 0 {
        database_pages = match standing {
            0 => u32::try_from(main.size_bytes()? / image.page_bytes as u64)
                .map_err(|_| Code::CORRUPT)?,
            _ => image.header_of(standing)?.database_pages,
        };
    }
    let pages = pages.write(chain, database_pages)?;
    let frame = standing + count;
    // Old frames behind the last one might continue the chain, so they are cut off.
    if frame == 0 {
        image.empty()?;
    } else {
        image.file.truncate(image.offset_of(frame + 1))?;
    }
    Ok((pages, frame))
}

/// An error says what would keep a database from being recovered. Nothing is written.
pub fn check(log: &Log<LogFile>, main: &dyn Below, image: &dyn Below) -> Result<(), RecoverError> {
    let image = WalFile { file: image, page_bytes: log.page_bytes() as usize };
    build(log, main, RebuiltPages::new(image, usize::MAX), &|_| {}).map(|_| ())
}

/// Reads the group of pages of a record of this kind: [`Group::decode`], or that of another log.
pub type DecodeGroup = for<'a> fn(u8, &'a [u8]) -> Result<Group<'a>, LogError>;

/// The newest version of page 1 that the log holds. The log has page 1 whole, or not at all.
pub fn page_one(log: &Log<LogFile>, decode: DecodeGroup) -> Result<Option<Vec<u8>>, RecoverError> {
    let mut content = None;
    log.scan(|kind, lsn, payload| {
        let group = decode(kind, payload)?;
        content = page_one_behind(content.take(), group, lsn, log.page_bytes() as usize)?;
        Ok::<(), RecoverError>(())
    })?;
    Ok(content)
}

/// [`page_one`] of an epoch's first records, which the caller has read.
pub fn page_one_of<'a>(
    records: impl Iterator<Item = (u8, Lsn, &'a [u8])>,
    page_bytes: usize,
    decode: DecodeGroup,
) -> Result<Option<Vec<u8>>, RecoverError> {
    let mut content = None;
    for (kind, lsn, payload) in records {
        content = page_one_behind(content, decode(kind, payload)?, lsn, page_bytes)?;
    }
    Ok(content)
}

fn page_one_behind(
    mut content: Option<Vec<u8>>,
    group: Group<'_>,
    lsn: Lsn,
    page_bytes: usize,
) -> Result<Option<Vec<u8>>, RecoverError> {
    for PageEntry { page_no, base, in_row, delta: changes } in group.pages() {
        if page_no != 1 {
            continue;
        }
        if in_row {
            return Err(RecoverError::Impossible(lsn.0));
        }
        let mut page = match base {
            Base::Zeros => vec![0; page_bytes],
            Base::Previous | Base::Database { .. } => {
                content.take().ok_or(RecoverError::NoBase(lsn.0, 1))?
            }
        };
        delta::apply(changes, &mut page)?;
        content = Some(page);
    }
    Ok(content)
}
