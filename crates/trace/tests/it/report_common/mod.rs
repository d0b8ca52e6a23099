//! Transactions as a test writes them out: a few words, the rest as most have it.

use oneflush_trace::identify::{
    Access, Amount, Class, Confidence, Database, JournalMode, Outcome, Phases, Process, Reason,
    Synchronous, Traffic, Transaction,
};
use oneflush_trace::model::{DeviceId, Names};
use oneflush_trace::report::{Collector, Trace};

pub const KB: u64 = 1024;
pub const MS: u64 = 1_000_000;

/// A committed PERSIST transaction of `database` that takes `ms`. It writes so many KB of each
/// class, in as many requests.
pub fn transaction(database: &str, begin_ms: u64, ms: u64, kb: [u64; 4]) -> Transaction {
    let [db, journal, fs_journal, metadata] =
        kb.map(|kb| Amount { bytes: kb * KB, requests: u64::from(kb > 0) });
    let (begin_ns, latency_ns) = (begin_ms * MS, ms * MS);
    Transaction {
        begin_ns,
        end_ns: begin_ns + latency_ns,
        process: Process { process: 7, thread: 8, name: None },
        database: Database::Named(database.into()),
        others: Vec::new(),
        journal_mode: JournalMode::Persist,
        synchronous: Synchronous::Full,
        outcome: Outcome::Committed,
        traffic: Traffic { db, journal, fs_journal, metadata },
        flushes: 4,
        syncs: 4,
        segments: 1,
        phases: Phases::Rollback {
            log_ns: latency_ns / 2,
            db_ns: latency_ns / 4,
            reset_ns: latency_ns / 4,
        },
        silent_ns: 0,
        confidence: Confidence { value: 1.0, reason: Reason::Whole },
        accesses: Vec::new(),
    }
}

/// A write of 4 KB, and a flush behind it, at the begin of the transaction.
pub fn with_accesses(mut transaction: Transaction) -> Transaction {
    let write = Access {
        begin_ns: transaction.begin_ns,
        done_ns: transaction.begin_ns + MS / 2,
        device: DeviceId { major: 8, minor: 0 },
        sector: 1000,
        bytes: 4 * KB,
        class: Class::Journal,
        flushes: 0,
        is_call: false,
    };
    let flush = Access {
        begin_ns: write.done_ns,
        done_ns: transaction.begin_ns + MS,
        bytes: 0,
        flushes: 1,
        ..write
    };
    transaction.accesses = vec![write, flush];
    transaction
}

pub fn trace(label: &str, transactions: impl IntoIterator<Item = Transaction>) -> Trace {
    let mut collector = Collector::default();
    let names = Names::default();
    transactions.into_iter().for_each(|transaction| collector.transaction(transaction, &names));
    Trace { label: label.to_owned(), name: format!("/traces/{label}"), ..collector.finish() }
}
