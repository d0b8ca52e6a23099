//! Transactions and savepoints.

use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mvbt::{Prepared, Read, ReadTransaction, Version, WriteTransaction};

use crate::call::{self, Failure, Handle, LastError, Out, locked, misuse};
use crate::code::Code;
use crate::database::DatabaseHandle;

/// A transaction, until it is closed.
pub struct TransactionHandle {
    pub shared: Arc<Mutex<Transaction>>,
    error: LastError,
}

impl Handle for TransactionHandle {
    const NULL: &CStr = c"the transaction is null";

    fn error(&self) -> &LastError {
        &self.error
    }
}

impl TransactionHandle {
    pub fn new(transaction: Transaction) -> TransactionHandle {
        let shared = Arc::new(Mutex::new(transaction));
        TransactionHandle { shared, error: LastError::default() }
    }
}

/// Cursors have it, too.
pub enum Transaction {
    Read(ReadTransaction),
    Write(Box<WriteTransaction>),
    Prepared(Box<Prepared>),
    Ended,
}

impl Transaction {
    pub fn reader(&self) -> Result<&dyn Read, Failure> {
        match self {
            Transaction::Read(reader) => Ok(reader),
            Transaction::Write(writer) => Ok(&**writer),
            other => Err(other.refusal()),
        }
    }

    pub fn writer(&mut self) -> Result<&mut WriteTransaction, Failure> {
        match self {
            Transaction::Write(writer) => Ok(writer),
            other => Err(other.refusal()),
        }
    }

    /// Why it does not do what is asked for.
    fn refusal(&self) -> Failure {
        misuse(match self {
            Transaction::Read(_) => "the transaction only reads",
            Transaction::Write(_) => "the transaction is not prepared",
            Transaction::Prepared(_) => "the transaction is prepared: finish it, or roll it back",
            Transaction::Ended => "the transaction has ended",
        })
    }

    fn version(&self) -> Result<Version, Failure> {
        match self {
            Transaction::Read(reader) => Ok(reader.version()),
            Transaction::Write(writer) => Ok(writer.version()),
            other => Err(other.refusal()),
        }
    }

    /// It has ended meanwhile, and also after an error. What refuses stays what it is.
    fn end<T>(
        &mut self,
        end: impl FnOnce(Transaction) -> Result<mvbt::Result<T>, Transaction>,
    ) -> Result<T, Failure> {
        match end(std::mem::replace(self, Transaction::Ended)) {
            Ok(ended) => Ok(ended?),
            Err(same) => {
                let refusal = same.refusal();
                *self = same;
                Err(refusal)
            }
        }
    }

    fn commit(&mut self) -> Result<Version, Failure> {
        self.end(|open| match open {
            Transaction::Read(reader) => Ok(Ok(reader.version())),
            Transaction::Write(writer) => Ok(writer.commit()),
            other => Err(other),
        })
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        let prepared = self.end(|open| match open {
            Transaction::Write(writer) => Ok(writer.prepare()),
            other => Err(other),
        })?;
        *self = Transaction::Prepared(Box::new(prepared));
        Ok(())
    }

    fn finish(&mut self) -> Result<Version, Failure> {
        self.end(|open| match open {
            Transaction::Prepared(prepared) => Ok(Ok(prepared.finish())),
            other => Err(other),
        })
    }

    /// It goes on as one that reads what it has made.
    fn finish_and_read(&mut self) -> Result<Version, Failure> {
        let (version, reader) = self.end(|open| match open {
            Transaction::Prepared(prepared) => Ok(Ok(prepared.finish_and_read())),
            other => Err(other),
        })?;
        *self = Transaction::Read(reader?);
        Ok(version)
    }

    fn roll_back(&mut self) -> Result<(), Failure> {
        self.end(|open| match open {
            Transaction::Read(_) => Ok(Ok(())),
            Transaction::Write(writer) => Ok(writer.rollback()),
            Transaction::Prepared(prepared) => Ok(prepared.rollback()),
            Transaction::Ended => Err(open),
        })
    }
}

/// Runs a call with a transaction.
///
/// # Safety
/// As `call::with`.
pub unsafe fn with_transaction<T: Copy>(
    txn: *const TransactionHandle,
    out: Out<T>,
    work: impl FnOnce(&mut Transaction) -> Result<T, Failure>,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { call::with(txn, out, |txn| work(&mut *locked(&txn.shared)?)) }
}

/// Begins a transaction that reads the last committed version. After a failure `*txn` is null, and
/// the message is the database's.
///
/// # Safety
/// `db` is null or a handle, and `txn` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_begin_read(
    db: *const DatabaseHandle,
    txn: *mut *mut TransactionHandle,
) -> Code {
    let begin = |db: &DatabaseHandle| {
        let reader = db.database().begin_read()?;
        Ok(TransactionHandle::new(Transaction::Read(reader)))
    };
    // SAFETY: by the contract of this function.
    unsafe { call::make(db, txn, begin) }
}

/// Begins the transaction that writes. Waits so many milliseconds for the one before: 0 not at
/// all, less than 0 for ever. ONEFLUSH_MVBT_BUSY: it still writes; for ever, this thread has it.
/// After a failure `*txn` is null, and the message is the database's.
///
/// # Safety
/// `db` is null or a handle, and `txn` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_begin_write(
    db: *const DatabaseHandle,
    wait_ms: i64,
    txn: *mut *mut TransactionHandle,
) -> Code {
    let begin = |db: &DatabaseHandle| {
        let writer = match u64::try_from(wait_ms) {
            Ok(0) => db.database().try_begin_write(),
            Ok(time) => db.database().begin_write_within(Duration::from_millis(time)),
            Err(_) => db.database().begin_write(),
        };
        Ok(TransactionHandle::new(Transaction::Write(Box::new(writer?))))
    };
    // SAFETY: by the contract of this function.
    unsafe { call::make(db, txn, begin) }
}

/// Ends a transaction. What it wrote is durable when this returns. After a failure it is rolled
/// back; after ONEFLUSH_MVBT_IO the next opening may find it or not. `version` may be null; it
/// gets the version that is the last one now. The handle is still to be closed.
///
/// # Safety
/// `txn` is null or a handle, and `version` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_commit(
    txn: *mut TransactionHandle,
    version: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::IfAsked(version), |one| Ok(one.commit()?.0)) }
}

/// The first of two steps of a commit: all that can fail. What the transaction wrote is durable
/// when this returns, and survives a crash. Readers do not see it yet. Only
/// oneflush_mvbt_finish() or oneflush_mvbt_rollback() may follow: another call with the handle, or
/// with a cursor of it, is ONEFLUSH_MVBT_MISUSE. Nobody else writes meanwhile. After a failure it
/// is as after one of oneflush_mvbt_commit(). A transaction that reads has no first step.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_prepare(txn: *mut TransactionHandle) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::NOTHING, Transaction::prepare) }
}

/// The second step, which ends a prepared transaction: who begins to read now sees it. Otherwise
/// as oneflush_mvbt_commit().
///
/// # Safety
/// `txn` is null or a handle, and `version` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_finish(
    txn: *mut TransactionHandle,
    version: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::IfAsked(version), |one| Ok(one.finish()?.0)) }
}

/// The same, and the transaction goes on as one that reads what it has made: no other transaction
/// comes in between. Its cursors have to be opened anew. After a failure other than
/// ONEFLUSH_MVBT_MISUSE it is committed, and has ended.
///
/// # Safety
/// `txn` is null or a handle, and `version` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_finish_and_read(
    txn: *mut TransactionHandle,
    version: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::IfAsked(version), |one| Ok(one.finish_and_read()?.0)) }
}

/// Ends a transaction, also a prepared one, and undoes what it did. While this takes a prepared one
/// back, a crash leaves all of it or nothing. The handle is still to be closed.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_rollback(txn: *mut TransactionHandle) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::NOTHING, Transaction::roll_back) }
}

/// Gives the handle back. A transaction that has not ended is rolled back, also a prepared one.
/// Cursors of it may still be closed. Null is right.
///
/// # Safety
/// `txn` is null or a handle that no call uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_txn_close(txn: *mut TransactionHandle) {
    let end = |handle: TransactionHandle| {
        *handle.shared.lock().unwrap_or_else(PoisonError::into_inner) = Transaction::Ended;
        Ok(())
    };
    // SAFETY: `call::make` made it, and it is given back once.
    unsafe { call::take_back(txn, end) };
}

/// The message of the last call with this handle that failed. It stays until the next one.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_txn_error(txn: *const TransactionHandle) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { call::message(txn) }
}

/// The version that the transaction reads, or that its commit makes.
///
/// # Safety
/// `txn` is null or a handle, and `version` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_txn_version(
    txn: *const TransactionHandle,
    version: *mut u64,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::Needed(version), |one| Ok(one.version()?.0)) }
}

/// Opens a savepoint, and answers its number, from 1.
///
/// # Safety
/// `txn` is null or a handle, and `number` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_savepoint(
    txn: *mut TransactionHandle,
    number: *mut u64,
) -> Code {
    let open = |transaction: &mut Transaction| Ok(transaction.writer()?.savepoint() as u64);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::Needed(number), open) }
}

/// Ends this savepoint and those in it. Their changes stay.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_release(txn: *mut TransactionHandle, number: u64) -> Code {
    let release = |transaction: &mut Transaction| {
        transaction.writer()?.release(count(number)?);
        Ok(())
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::NOTHING, release) }
}

/// Undoes what was done since a savepoint. It stays, and those in it go.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_rollback_to(
    txn: *mut TransactionHandle,
    number: u64,
) -> Code {
    let roll_back =
        |transaction: &mut Transaction| Ok(transaction.writer()?.roll_back_to(count(number)?)?);
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::NOTHING, roll_back) }
}

fn count(number: u64) -> Result<usize, Failure> {
    let count = usize::try_from(number).ok().filter(|&count| count > 0);
    count.ok_or_else(|| misuse("there is no such savepoint"))
}
