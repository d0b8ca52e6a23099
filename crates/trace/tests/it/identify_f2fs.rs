//! A recording on F2FS (Linux 6.1). Synchronizing a folder costs a checkpoint of the file system
//! there.
//!
//! `f2fs/delete.ftrace`: a new database, `CREATE TABLE`, then two inserts with DELETE and FULL.

use oneflush_trace::identify::{Amount, Identifier, JournalMode, Synchronous};
use oneflush_trace::import;

#[test]
fn a_checkpoint_that_a_folders_sync_waits_for_is_the_transactions() {
    let mut reader =
        import::open("tests/f2fs/delete.ftrace".as_ref()).expect("the trace is of a known format");
    let mut identifier = Identifier::new();
    while let Some(event) = reader.next().expect("the trace can be read") {
        identifier.push(&event, reader.names());
    }
    let (found, summary) = identifier.finish(reader.names());
    assert_eq!(found.len(), 2);
    for transaction in &found {
        assert_eq!(
            (transaction.journal_mode, transaction.synchronous),
            (JournalMode::Delete, Synchronous::Full)
        );
        let traffic = &transaction.traffic;
        assert_eq!(traffic.db, Amount { bytes: 8192, requests: 1 });
        assert_eq!(traffic.journal, Amount { bytes: 20_480, requests: 3 });
        // The nodes of the journal and of the folder.
        assert_eq!(traffic.fs_journal, Amount { bytes: 8192, requests: 2 });
        // The folder's page, two pages of the checkpoint, and its end.
        assert_eq!(traffic.metadata, Amount { bytes: 16_384, requests: 3 });
        // Journal, its count, database, and two at the checkpoint's end.
        assert_eq!(transaction.flushes, 5);
    }
    // The journal of CREATE TABLE is so small that it lies in its node: no data of it is written.
    assert_eq!(summary.partial_count, 1);
}
