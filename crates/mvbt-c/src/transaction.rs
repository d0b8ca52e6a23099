//! Transactions and savepoints.

use std::ffi::c_char;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mvbt::{Read, ReadTransaction, WriteTransaction};

use crate::call::{self, Failure, LastError, locked, misuse, put, put_if_asked};
use crate::code::Code;
use crate::database::{DatabaseHandle, with_database};

/// A transaction, until it is closed.
pub struct TransactionHandle {
    pub shared: Arc<Mutex<Transaction>>,
    error: LastError,
}

/// Cursors have it, too.
pub enum Transaction {
    Read(ReadTransaction),
    Write(Box<WriteTransaction>),
    Ended,
}

impl Transaction {
    pub fn reader(&self) -> Result<&dyn Read, Failure> {
        match self {
            Transaction::Read(reader) => Ok(reader),
            Transaction::Write(writer) => Ok(&**writer),
            Transaction::Ended => Err(misuse("the transaction has ended")),
        }
    }

    pub fn writer(&mut self) -> Result<&mut WriteTransaction, Failure> {
        match self {
            Transaction::Write(writer) => Ok(writer),
            Transaction::Read(_) => Err(misuse("the transaction only reads")),
            Transaction::Ended => Err(misuse("the transaction has ended")),
        }
    }
}

fn handle(transaction: Transaction) -> *mut TransactionHandle {
    let shared = Arc::new(Mutex::new(transaction));
    Box::into_raw(Box::new(TransactionHandle { shared, error: LastError::default() }))
}

/// Runs a call with a transaction.
///
/// # Safety
/// As `call::with`.
pub unsafe fn with_transaction(
    txn: *const TransactionHandle,
    work: impl FnOnce(&mut Transaction) -> Result<(), Failure>,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe { call::with(txn, |txn| &txn.error, |txn| work(&mut *locked(&txn.shared)?)) }
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
    // SAFETY: by the contract of this function.
    unsafe {
        with_database(db, |database| {
            put(txn, std::ptr::null_mut())?;
            put(txn, handle(Transaction::Read(database.begin_read()?)))
        })
    }
}

/// Begins the transaction that writes. Waits so many milliseconds for the one before: 0 not at
/// all, less than 0 for ever. ONEFLUSH_MVBT_BUSY: it still writes, or this thread has it. After a
/// failure `*txn` is null, and the message is the database's.
///
/// # Safety
/// `db` is null or a handle, and `txn` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_begin_write(
    db: *const DatabaseHandle,
    wait_ms: i64,
    txn: *mut *mut TransactionHandle,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_database(db, |database| {
            put(txn, std::ptr::null_mut())?;
            let writer = match u64::try_from(wait_ms) {
                Ok(0) => database.try_begin_write(),
                Ok(time) => database.begin_write_within(Duration::from_millis(time)),
                Err(_) => database.begin_write(),
            };
            put(txn, handle(Transaction::Write(Box::new(writer?))))
        })
    }
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
    let commit = |transaction: &mut Transaction| {
        let last = match std::mem::replace(transaction, Transaction::Ended) {
            Transaction::Read(reader) => reader.version(),
            Transaction::Write(writer) => writer.commit()?,
            Transaction::Ended => return Err(misuse("the transaction has ended")),
        };
        // SAFETY: by the contract of this function.
        unsafe { put_if_asked(version, last.0) };
        Ok(())
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, commit) }
}

/// Ends a transaction, and undoes what it did. The handle is still to be closed.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_rollback(txn: *mut TransactionHandle) -> Code {
    let roll_back =
        |transaction: &mut Transaction| match std::mem::replace(transaction, Transaction::Ended) {
            Transaction::Read(_) => Ok(()),
            Transaction::Write(writer) => Ok(writer.rollback()?),
            Transaction::Ended => Err(misuse("the transaction has ended")),
        };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, roll_back) }
}

/// Gives the handle back. A transaction that has not ended is rolled back; cursors of it may still
/// be closed. Null is right.
///
/// # Safety
/// `txn` is null or a handle that no call uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_txn_close(txn: *mut TransactionHandle) {
    call::without_handle(|| {
        if txn.is_null() {
            return Ok(());
        }
        // SAFETY: `handle` made it by `Box::into_raw`, and it is given back once.
        let handle = unsafe { Box::from_raw(txn) };
        let mut transaction =
            handle.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *transaction = Transaction::Ended;
        Ok(())
    });
}

/// The message of the last call with this handle that failed. It stays until the next one.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_txn_error(txn: *const TransactionHandle) -> *const c_char {
    // SAFETY: by the contract of this function.
    unsafe { txn.as_ref() }.map_or(c"the transaction is null".as_ptr(), |txn| txn.error.text())
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
    let ask = |transaction: &mut Transaction| {
        let own = match transaction {
            Transaction::Read(reader) => reader.version(),
            Transaction::Write(writer) => writer.version(),
            Transaction::Ended => return Err(misuse("the transaction has ended")),
        };
        // SAFETY: by the contract of this function.
        unsafe { put(version, own.0) }
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, ask) }
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
    // SAFETY: by the contract of this function.
    unsafe {
        with_transaction(txn, |transaction| {
            let writer = transaction.writer()?;
            put(number, 0)?;
            put(number, writer.savepoint() as u64)
        })
    }
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
    unsafe { with_transaction(txn, release) }
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
    unsafe { with_transaction(txn, roll_back) }
}

fn count(number: u64) -> Result<usize, Failure> {
    let count = usize::try_from(number).ok().filter(|&count| count > 0);
    count.ok_or_else(|| misuse("there is no such savepoint"))
}
