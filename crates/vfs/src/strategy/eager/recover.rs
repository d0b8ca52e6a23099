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

use oneflush_blocklog::Log;
use rustc_hash::FxHashMap;

use super::building::{Building, build};
use super::log::{OpenLog, Page};
use super::rebuilt::RebuiltPages;
use crate::error::Code;
use crate::mutant::{self, Mutant};
use crate::port::Below;
use crate::strategy::log_files::{LogFile, settle};
use crate::strategy::recover_error::RecoverError;
use crate::wal_file::{Chain, WalFile};

/// The pages that are made may take this much memory.
const MEMORY_BYTES_MAX: usize = 4 << 20;

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
