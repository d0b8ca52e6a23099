//! Logs written by hand: copies between the pages of a record, with and without the page images
//! before a checkpoint.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use oneflush_blocklog::delta::{self, Row};
use oneflush_blocklog::group::{
    Base, Begin, GroupWriter, KIND_BEGIN, KIND_COMMITS, KIND_IMAGES, PageEntry, page_crc,
};
use oneflush_blocklog::{DirectFile, Head, Log, Uuid};
use tempfile::TempDir;

use super::building::build;
use super::rebuilt::{Rebuilt, RebuiltPages};
use crate::file_below::FileBelow;
use crate::strategy::log_files::LogFile;
use crate::strategy::recover_error::RecoverError;
use crate::test_wal::Wal;
use crate::wal_file::WalFile;

const PAGE: usize = 512;

/// A database file of eight pages with different bytes, and an epoch that has begun on it.
struct Files {
    dir: TempDir,
    log: Log<LogFile>,
    head: Head,
}

fn database_page(page_no: u32) -> Vec<u8> {
    (0..PAGE).map(|at| ((at as u32 * 7 + page_no * 41) ^ (at as u32 >> 3)) as u8).collect()
}

impl Files {
    fn new() -> Files {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("a.db"),
            (1..=8).flat_map(database_page).collect::<Vec<u8>>(),
        )
        .unwrap();
        let file = DirectFile::open(&dir.path().join("log"), true).unwrap();
        let (log, head) =
            Log::create(LogFile(Box::new(file)), Uuid([7; 16]), PAGE as u32, 1).unwrap();
        let head = log
            .begin_epoch(&head, KIND_BEGIN, GroupWriter::new(Some(Begin::Database), 8).finish())
            .unwrap();
        Files { dir, log, head }
    }

    fn append(&mut self, kind: u8, pages: &[PageEntry<'_>]) {
        let mut writer = GroupWriter::new(None, 8);
        pages.iter().for_each(|page| writer.push_entry(*page));
        self.head = self.log.append(&self.head, kind, writer.finish()).unwrap();
    }

    /// Tears this page of the database file, as a checkpoint that was interrupted.
    fn tear(&self, page_no: u32) {
        let file = File::options().write(true).open(self.dir.path().join("a.db")).unwrap();
        file.write_all_at(&[0xee; 99], u64::from(page_no - 1) * PAGE as u64).unwrap();
    }

    /// The pages that are made, of pages 1 to 16. They are the same however little of them fits
    /// into memory.
    fn build(&self) -> Result<HashMap<u32, Rebuilt>, RecoverError> {
        let main = FileBelow(Some(File::open(self.dir.path().join("a.db")).unwrap()));
        let build = |memory_bytes_max| {
            let wal = Wal::default();
            wal.extend([0xaa; 3000]);
            let pages =
                RebuiltPages::new(WalFile { file: &wal, page_bytes: PAGE }, memory_bytes_max);
            let built = build(&self.log, &main, pages, &|_| {}).map(|built| {
                let mut pages = built.unwrap().1.pages;
                (1..=16)
                    .filter_map(|page_no| Some((page_no, pages.take(page_no).unwrap()?)))
                    .collect::<HashMap<_, _>>()
            });
            assert_eq!(wal.bytes(), [0xaa; 3000], "what the image had");
            built
        };
        let built = build(usize::MAX);
        for memory_bytes_max in [0, PAGE, 2 * PAGE] {
            match (&built, build(memory_bytes_max)) {
                (Ok(expected), Ok(built)) => assert!(*expected == built, "{memory_bytes_max}"),
                (expected, built) => {
                    assert!(expected.is_err() && built.is_err(), "{memory_bytes_max}")
                }
            }
        }
        built
    }
}

fn database(page_no: u32) -> Base {
    Base::Database { crc: page_crc(&database_page(page_no)) }
}

fn entry(page_no: u32, base: Base, in_row: bool, delta: &[u8]) -> PageEntry<'_> {
    PageEntry { page_no, base, in_row, delta }
}

/// The delta that makes page `own` of the row a copy of page `from`.
fn copy(row: &[Vec<u8>], own: usize, from: usize) -> Vec<u8> {
    let mut delta = Vec::new();
    let sources = Row::new(&row.concat(), PAGE).encode(own, &row[from], 1 << from, &mut delta);
    assert_eq!(sources, 1 << from);
    delta
}

fn whole(page: &[u8]) -> Vec<u8> {
    let mut delta = Vec::new();
    delta::encode_from_zeros(page, &mut delta);
    delta
}

/// Changes page 3, and makes a new page 9 of what page 3 had before. Answers page 3.
fn split(files: &mut Files) -> Vec<u8> {
    let old = database_page(3);
    let mut new = old.clone();
    new[10..20].fill(1);
    let mut delta = Vec::new();
    delta::encode(&old, &new, &mut delta);
    let copied = copy(&[old, vec![0; PAGE]], 1, 0);
    files.append(
        KIND_COMMITS,
        &[entry(3, database(3), false, &delta), entry(9, Base::Zeros, true, &copied)],
    );
    new
}

#[test]
fn a_page_is_copied_from_another_as_it_was_before_the_record_and_is_contained_no_more_than_that() {
    let mut files = Files::new();
    let three = split(&mut files);
    let built = files.build().unwrap();
    assert!(built[&3].content == three && built[&9].content == database_page(3));
    assert!(!built[&3].contained && !built[&9].contained);

    // Copied from a page that the log contains.
    let mut files = Files::new();
    let six = database_page(6);
    files.append(KIND_COMMITS, &[entry(6, Base::Zeros, false, &whole(&six))]);
    let copied = copy(&[six.clone(), vec![0; PAGE]], 1, 0);
    files.append(
        KIND_COMMITS,
        &[entry(6, Base::Previous, false, &[]), entry(9, Base::Zeros, true, &copied)],
    );
    let built = files.build().unwrap();
    assert!(built[&9].content == six && built[&9].contained);
}

#[test]
fn two_pages_change_places() {
    let mut files = Files::new();
    let row = [database_page(3), database_page(4)];
    let (third, fourth) = (copy(&row, 0, 1), copy(&row, 1, 0));
    files.append(
        KIND_COMMITS,
        &[entry(3, database(3), true, &third), entry(4, database(4), true, &fourth)],
    );
    let built = files.build().unwrap();
    assert!(built[&3].content == row[1] && built[&4].content == row[0]);
}

#[test]
fn after_the_images_of_both_nothing_is_read_of_a_torn_database_file() {
    let mut files = Files::new();
    let three = split(&mut files);
    let nine = database_page(3);
    let (three_whole, nine_whole) = (whole(&three), whole(&nine));
    files.append(
        KIND_IMAGES,
        &[entry(3, Base::Zeros, false, &three_whole), entry(9, Base::Zeros, false, &nine_whole)],
    );
    files.tear(3);
    let built = files.build().unwrap();
    assert!(built[&3].content == three && built[&9].content == nine);
    assert!(built[&3].contained && built[&9].contained);
}

/// A crash between two records of page images: the checkpoint has not begun.
#[test]
fn with_the_image_of_its_source_alone_a_copy_is_made_from_the_database_file() {
    let mut files = Files::new();
    let three = split(&mut files);
    // A copy of the copy, and a further version of its source.
    let row = [three.clone(), vec![0; PAGE]];
    let copied = copy(&row, 1, 0);
    files.append(
        KIND_COMMITS,
        &[entry(3, Base::Previous, false, &[]), entry(10, Base::Zeros, true, &copied)],
    );
    files.append(KIND_IMAGES, &[entry(3, Base::Zeros, false, &whole(&three))]);
    let built = files.build().unwrap();
    assert!(built[&9].content == database_page(3) && built[&10].content == three);
    assert!(built[&3].contained && !built[&9].contained && !built[&10].contained);
    // This never happens, since the log would have page 9 too. The torn page must not pass for
    // other content.
    files.tear(3);
    assert!(matches!(files.build(), Err(RecoverError::OtherBase(_, 3))));
}

#[test]
fn a_source_that_is_itself_a_copy_is_made_from_its_own_source() {
    let mut files = Files::new();
    split(&mut files);
    let nine = database_page(3);
    let copied = copy(&[nine.clone(), vec![0; PAGE]], 1, 0);
    files.append(
        KIND_COMMITS,
        &[entry(9, Base::Previous, false, &[]), entry(10, Base::Zeros, true, &copied)],
    );
    // Pages 3 and 9 have page images. Page 10 has none: it is copied from 9, which is copied from
    // 3.
    files.append(
        KIND_IMAGES,
        &[
            entry(3, Base::Zeros, false, &whole(&database_page(5))),
            entry(9, Base::Zeros, false, &whole(&nine)),
        ],
    );
    let built = files.build().unwrap();
    assert!(built[&10].content == nine && built[&3].content == database_page(5));
}

/// After the death of a process, the next one logs again what the log contains already. A crash
/// comes between those page images.
#[test]
fn of_two_images_the_first_is_what_a_later_copy_is_made_from() {
    let mut files = Files::new();
    let old = database_page(3);
    let mut new = old.clone();
    new[10..20].fill(1);
    let mut delta = Vec::new();
    delta::encode(&old, &new, &mut delta);
    files.append(KIND_COMMITS, &[entry(3, database(3), false, &delta)]);
    files.append(KIND_IMAGES, &[entry(3, Base::Zeros, false, &whole(&new))]);
    files.tear(3);
    let copied = copy(&[new.clone(), vec![0; PAGE]], 1, 0);
    files.append(
        KIND_COMMITS,
        &[entry(3, Base::Previous, false, &[]), entry(9, Base::Zeros, true, &copied)],
    );
    let built = files.build().unwrap();
    assert!(built[&3].content == new && built[&9].content == new && built[&9].contained);

    files.append(KIND_IMAGES, &[entry(3, Base::Zeros, false, &whole(&new))]);
    let built = files.build().unwrap();
    assert!(built[&3].content == new && built[&9].content == new);

    // Of two copies the earlier one counts. A copy made between the two page images is made from
    // the first one, too.
    let row = [new.clone(), vec![0; PAGE]];
    files.append(
        KIND_COMMITS,
        &[entry(3, Base::Previous, false, &[]), entry(10, Base::Zeros, true, &copy(&row, 1, 0))],
    );
    files.append(KIND_IMAGES, &[entry(3, Base::Zeros, false, &whole(&database_page(5)))]);
    let built = files.build().unwrap();
    assert!(
        built[&3].content == database_page(5)
            && built[&9].content == new
            && built[&10].content == new
    );
}

#[test]
fn rows_that_cannot_be_are_refused() {
    let copied = copy(&[database_page(3), vec![0; PAGE]], 1, 0);
    let source = || entry(3, database(3), false, &[]);
    let refused = |kind, pages: &[PageEntry<'_>]| {
        let mut files = Files::new();
        files.append(kind, pages);
        files.build().err().unwrap()
    };
    let found = refused(KIND_IMAGES, &[source(), entry(9, Base::Zeros, true, &copied)]);
    assert!(matches!(found, RecoverError::Impossible(2)), "{found}");
    let found = refused(KIND_COMMITS, &[source(), entry(9, Base::Zeros, true, &copied), source()]);
    assert!(matches!(found, RecoverError::Impossible(2)), "{found}");
    let found = refused(KIND_COMMITS, &[entry(9, Base::Zeros, true, &copied), source()]);
    assert!(matches!(found, RecoverError::Log(_)), "a copy from before the row: {found}");
    let many: Vec<PageEntry<'_>> =
        (10..80).map(|page_no| entry(page_no, Base::Zeros, true, &[])).collect();
    assert!(matches!(refused(KIND_COMMITS, &many), RecoverError::Log(_)));
}
