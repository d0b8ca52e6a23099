//! Commits of LS-MVBT: what ends one, what is none, and what must not be taken for one.
//!
//! The trace is `lsmvbt/two_opens.ftrace` (ext4, Linux 6.18, Python's `sqlite3`). A database is
//! opened, gets three inserts of 1, 2 and 60 rows and a rollback, and is closed. Then it is opened
//! again, gets two inserts, and is closed.

use oneflush_trace::identify::{Identifier, JournalMode, Summary, Synchronous, Transaction};
use oneflush_trace::import;
use oneflush_trace::model::{Action, Event, Names};

use crate::identify_common::{DEVICE, PAGE, PAGE_SECTORS, Pen, Show, identify};

/// Anchors, and the ring of commit blocks.
const HEAD_BYTES: u64 = 40 << 10;
const RING_AT: u64 = 2 * PAGE_SECTORS;
const PAGES_AT: u64 = 10 * PAGE_SECTORS;

fn found(show: Show, write: impl FnOnce(&mut Pen)) -> (Vec<Transaction>, Summary) {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, show, 0);
    write(&mut pen);
    let events = pen.events;
    identify(&events, &names)
}

/// The word of the recorder.
fn say(pen: &mut Pen, page_bytes: u32, head_bytes: u64) {
    let file = pen.database.clone().map(|name| pen.names.id(&name));
    let of_head = pen.db_sector;
    pen.update(0);
    let template = *pen.events.first().unwrap();
    pen.events.retain(|_| false);
    pen.events.push(Event {
        action: Action::Lsmvbt { page_bytes, offset: 0 },
        device: DEVICE,
        sector: of_head,
        bytes: head_bytes,
        file,
        content: None,
        ..template
    });
}

fn begin(pen: &mut Pen) {
    say(pen, PAGE as u32, HEAD_BYTES);
}

/// The first block of the file lies somewhere else than what follows.
fn begin_in_pieces(pen: &mut Pen, elsewhere: u64) {
    say(pen, PAGE as u32, PAGE);
    let first = pen.events[0];
    pen.events[0].sector = elsewhere;
    pen.events.push(Event {
        action: Action::Lsmvbt { page_bytes: PAGE as u32, offset: PAGE as u32 },
        sector: first.sector + PAGE_SECTORS,
        bytes: HEAD_BYTES - PAGE,
        ..first
    });
}

/// So many pages, and with `block` a commit block, in one flush.
fn commit(pen: &mut Pen, pages: u64, block: Option<u64>) {
    let at = pen.db_sector;
    let mut runs = Vec::new();
    runs.extend((pages > 0).then_some((at + PAGES_AT, pages)));
    runs.extend(block.map(|block| (at + RING_AT + block * PAGE_SECTORS, 1)));
    pen.durable("", &runs, 0).wait(1_000_000);
}

fn anchor(pen: &mut Pen, number: u64) {
    let at = pen.db_sector;
    pen.durable("", &[(at + number * PAGE_SECTORS, 1)], 0).wait(1_000_000);
}

fn bytes(found: &[Transaction]) -> Vec<u64> {
    for found in found {
        assert_eq!(
            (found.journal_mode, found.synchronous),
            (JournalMode::Lsmvbt, Synchronous::Full)
        );
        assert_eq!(found.traffic.journal.bytes, 0, "it has no journal");
    }
    found.iter().map(|found| found.traffic.db.bytes).collect()
}

#[test]
fn a_page_alone_and_pages_with_a_commit_block_are_transactions() {
    for show in [Show::Calls, Show::Flushes, Show::Waits] {
        let (found, summary) = found(show, |pen| {
            begin(pen);
            commit(pen, 1, None);
            commit(pen, 3, Some(0));
            commit(pen, 1, None);
            commit(pen, 2, Some(7));
        });
        assert_eq!(bytes(&found), [PAGE, 4 * PAGE, PAGE, 3 * PAGE], "{show:?}");
        if show != Show::Waits {
            assert!(found.iter().all(|found| found.flushes == 1), "{show:?}");
        }
        assert_eq!(summary.partial_count, 0);
    }
}

#[test]
fn what_is_flushed_before_the_commit_block_belongs_to_its_transaction() {
    let (found, _) = found(Show::Calls, |pen| {
        begin(pen);
        commit(pen, 1, None);
        // The file grows, then the transaction is written.
        commit(pen, 64, None);
        commit(pen, 2, Some(0));
        // More pages than a block lists.
        commit(pen, 400, None);
        commit(pen, 0, Some(1));
        commit(pen, 1, None);
    });
    assert_eq!(bytes(&found), [PAGE, 67 * PAGE, 401 * PAGE, PAGE]);
    let flushes: Vec<u64> = found.iter().map(|found| found.flushes).collect();
    assert_eq!(flushes, [1, 2, 2, 1]);
}

/// The file had grown for it. The commit block was not the last write, and what came behind it was
/// taken for another transaction.
#[test]
fn pages_behind_the_commit_block_belong_to_its_transaction_until_it_is_flushed() {
    let (found, _) = found(Show::Calls, |pen| {
        begin(pen);
        commit(pen, 64, None);
        let at = pen.db_sector;
        pen.write(pen.database.clone().as_deref(), &[(at + RING_AT, 1)]);
        pen.wait(100_000);
        commit(pen, 3, None);
        commit(pen, 1, None);
    });
    assert_eq!(bytes(&found), [68 * PAGE, PAGE]);
}

#[test]
fn an_anchor_is_no_transaction_and_ends_the_one_before() {
    let (found, summary) = found(Show::Calls, |pen| {
        begin(pen);
        anchor(pen, 1);
        commit(pen, 1, None);
        commit(pen, 2, Some(0));
        anchor(pen, 0);
        anchor(pen, 1);
        commit(pen, 1, None);
        anchor(pen, 0);
    });
    assert_eq!(bytes(&found), [PAGE, 3 * PAGE, PAGE]);
    assert_eq!((summary.partial.db.bytes, summary.partial_count), (4 * PAGE, 0));
}

#[test]
fn a_head_in_pieces_is_known_as_well() {
    const ELSEWHERE: u64 = 700_000;
    let (found, _) = found(Show::Calls, |pen| {
        begin_in_pieces(pen, ELSEWHERE);
        commit(pen, 1, None);
        pen.durable("", &[(ELSEWHERE, 1)], 0).wait(1_000_000);
        anchor(pen, 1);
        commit(pen, 64, None);
        commit(pen, 2, Some(0));
    });
    assert_eq!(bytes(&found), [PAGE, 67 * PAGE]);
}

#[test]
fn without_the_place_of_the_head_each_flush_is_a_transaction() {
    let (found, _) = found(Show::Calls, |pen| {
        say(pen, PAGE as u32, 0);
        anchor(pen, 1);
        commit(pen, 3, Some(0));
        commit(pen, 1, None);
    });
    assert_eq!(bytes(&found), [PAGE, 4 * PAGE, PAGE]);
}

#[test]
fn without_the_recorders_word_nothing_is_taken_for_it() {
    for show in [Show::Calls, Show::Flushes] {
        let (found, _) = found(show, |pen| {
            commit(pen, 1, None);
            commit(pen, 3, Some(0));
            for _ in 0..3 {
                pen.log(3).count().update(2).zero().wait(1_000_000);
            }
            for _ in 0..3 {
                pen.append(2).wait(1_000_000);
            }
        });
        assert!(found.iter().all(|found| found.journal_mode != JournalMode::Lsmvbt), "{show:?}");
    }
}

/// The program replaced the file by a database of SQLite.
#[test]
fn a_file_that_is_none_any_more_is_read_as_sqlites() {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    begin(&mut pen);
    for _ in 0..3 {
        commit(&mut pen, 1, None);
    }
    let mut before = std::mem::take(&mut pen.events);
    say(&mut pen, 0, 0);
    before.append(&mut pen.events);
    for _ in 0..3 {
        pen.log(3).count().update(2).zero().wait(1_000_000);
    }
    before.append(&mut pen.events);
    let found = identify(&before, &names).0;
    let modes: Vec<JournalMode> = found.iter().map(|found| found.journal_mode).collect();
    assert_eq!(modes[..3], [JournalMode::Lsmvbt; 3]);
    assert_eq!(modes[3..], [JournalMode::Persist; 3]);
}

/// `with`: the recorder's word is in the trace.
fn recorded(with: bool) -> (Vec<Transaction>, Summary) {
    let trace = std::fs::read_to_string("tests/lsmvbt/two_opens.ftrace").unwrap();
    let lines = trace.lines().filter(|line| with || !line.contains(" oneflush_engine: "));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ftrace");
    std::fs::write(&path, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let mut reader = import::open(&path).expect("the trace is of a known format");
    let mut identifier = Identifier::new();
    while let Some(event) = reader.next().expect("the trace can be read") {
        identifier.push(&event, reader.names());
    }
    identifier.finish(reader.names())
}

#[test]
fn a_recording_has_one_transaction_for_each_commit() {
    let (found, summary) = recorded(true);
    // The second splits a page. The fourth makes the file grow, and its flush before is its own.
    assert_eq!(bytes(&found), [PAGE, 4 * PAGE, 32 * PAGE, 21 * PAGE, PAGE]);
    let syncs: Vec<u64> = found.iter().map(|found| found.syncs).collect();
    assert_eq!(syncs, [1, 1, 1, 2, 1]);
    // Both openings, and both closes.
    assert_eq!((summary.partial.db.bytes, summary.partial_count), (4 * PAGE, 0));
}

#[test]
fn a_recording_without_the_word_has_commits_of_no_known_mode() {
    let (found, _) = recorded(false);
    assert!(found.iter().all(|found| found.journal_mode == JournalMode::Unknown));
}
