// Oneflush mvbt: a crash-safe multi-version B-tree in one file. Made by cbindgen from
// crates/mvbt-c/src; do not edit.
//
//     cc app.c liboneflush_mvbt_c.a -lpthread -ldl -lm
//
// Shapes. A database has trees, and a tree has cells in the order of their keys. In an integer
// tree a cell is a key (int64_t) and a payload. In a record tree a cell is a record, and you
// compare records. A payload or record has at most 2^31 - 1 bytes. All lengths are in bytes.
//
// Transactions. One writes at a time. Any number reads, each the version at which it began, and
// nobody waits for a reader. A commit is durable when it returns: all of a transaction survives a
// crash, or nothing. oneflush_mvbt_prepare() and _finish() are its two steps, for who commits in
// two phases.
//
// Handles. You own what a function puts into its last argument: a database, a transaction, a
// cursor, a backup. Give each back once, in any order: oneflush_mvbt_close(), _txn_close(),
// _cursor_close(), _backup_close(). A transaction or backup goes on when its database is closed. A
// cursor of a transaction that has ended can only be closed. Text that a function returns belongs
// to the library.
//
// Threads. Any thread may use a handle. Two at once may use one database, but not one transaction,
// cursor or backup, or two cursors of one transaction: the second call answers ONEFLUSH_MVBT_BUSY.
// So does a comparison that calls into its own transaction.
//
// Errors. A function answers ONEFLUSH_MVBT_OK or another code. The handle then has a message that
// says more, until its next call that fails. What a function was to answer is not written then,
// unless it says otherwise. A null pointer where none may be is ONEFLUSH_MVBT_MISUSE. After
// ONEFLUSH_MVBT_INTERNAL, a fault of this library, each call with the handle answers it again.


#ifndef ONEFLUSH_MVBT_H
#define ONEFLUSH_MVBT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a function answers. New codes may come; none changes its number.
typedef enum {
    // Done.
    ONEFLUSH_MVBT_OK = 0,
    // The system could not read, write or open the file. The message has its words.
    ONEFLUSH_MVBT_IO = 1,
    // The file is no database of mvbt.
    ONEFLUSH_MVBT_OTHER_FORMAT = 2,
    // A newer program has written the file. Use that one.
    ONEFLUSH_MVBT_NEWER_FORMAT = 3,
    // What was read is damaged. oneflush_mvbt_check() says how much. Restore a backup.
    ONEFLUSH_MVBT_DAMAGED = 4,
    // The version that is asked for is not kept any more.
    ONEFLUSH_MVBT_SNAPSHOT_GONE = 5,
    // There is no such tree.
    ONEFLUSH_MVBT_NO_TREE = 6,
    // The tree has integer keys and not records, or the other way round.
    ONEFLUSH_MVBT_WRONG_KIND = 7,
    // The payload or record is too long.
    ONEFLUSH_MVBT_TOO_LONG = 8,
    // The database would have more pages than its options allow, or the disk is full. Roll back.
    ONEFLUSH_MVBT_FULL = 9,
    // An earlier write or flush has failed. Close the database, and open it anew.
    ONEFLUSH_MVBT_POISONED = 10,
    // An earlier call of this transaction failed halfway. Roll back, or to a savepoint before it.
    ONEFLUSH_MVBT_HALF_DONE = 11,
    // Someone else writes, or uses the handle just now. Try again.
    ONEFLUSH_MVBT_BUSY = 12,
    // The call makes no sense: a null pointer, a place that is none, a transaction that has ended.
    ONEFLUSH_MVBT_MISUSE = 13,
    // A fault of the library. Close the handle.
    ONEFLUSH_MVBT_INTERNAL = 14,
    // The database was opened for reading only.
    ONEFLUSH_MVBT_READ_ONLY = 15,
} oneflush_mvbt_code;

// Where a cursor stands after a change of its tree.
typedef enum {
    // On its cell.
    ONEFLUSH_MVBT_SAME = 0,
    // Its cell is gone; on the one behind it. The following oneflush_mvbt_cursor_next() stays
    // there.
    ONEFLUSH_MVBT_NEXT = 1,
    // Its cell is gone, and there is none behind it; on the one before it. The following
    // oneflush_mvbt_cursor_previous() stays there.
    ONEFLUSH_MVBT_PREVIOUS = 2,
    // On no cell: it stood on none, or the tree is empty.
    ONEFLUSH_MVBT_NOWHERE = 3,
} oneflush_mvbt_restored;

// How a file counts what it keeps.
typedef enum {
    // Nothing is kept for readers that have not begun.
    ONEFLUSH_MVBT_RETAIN_OFF = 0,
    // At least the newest so many versions, and at most those of a second more.
    ONEFLUSH_MVBT_RETAIN_VERSIONS = 1,
    // The states of so many milliseconds before the newest transaction.
    ONEFLUSH_MVBT_RETAIN_MS = 2,
} oneflush_mvbt_retain_kind;

// A copy that is being made.
typedef struct oneflush_mvbt_backup oneflush_mvbt_backup;

// A place in a tree.
typedef struct oneflush_mvbt_cursor oneflush_mvbt_cursor;

// An open database.
typedef struct oneflush_mvbt_db oneflush_mvbt_db;

// A transaction, until it is closed.
typedef struct oneflush_mvbt_txn oneflush_mvbt_txn;

// How a database is opened. oneflush_mvbt_options_default() fills it.
typedef struct {
    // Bytes of a page of a new database: a power of two from 512 to 65,536.
    uint32_t page_bytes;
    // Memory for pages that were read, in bytes.
    uint64_t cache_bytes;
    // A transaction that has changed so many bytes of pages writes some of them early.
    uint64_t spill_bytes;
    // The database never has more pages.
    uint64_t pages_max;
    // While readers alone hold so many freed pages, no transaction that writes begins:
    // ONEFLUSH_MVBT_BUSY, whose message names the reader's version.
    uint64_t reader_limit_pages;
    // Nothing is written: what a crash has left is recovered in memory alone.
    bool read_only;
    // Lazy split (FAST'14, section 4.2). Off for comparison: more pages are written.
    bool lazy_split;
    // Metadata embedding (section 5.2). Off for comparison: more blocks are written.
    bool metadata_embedding;
    // Sibling redistribution (section 5.3), which is off. On for comparison.
    bool redistribution;
} oneflush_mvbt_options;

// What a check has found.
typedef struct {
    // Of the database.
    uint64_t pages;
    // Of its trees.
    uint64_t tree_pages;
    // Of long payloads.
    uint64_t overflow_pages;
    uint64_t free_pages;
    // Pages that only older versions reach: the history, and readers that have begun.
    uint64_t history_pages;
    // Pages that belong to nobody. A crash leaves some; they are lost room, and no fault.
    uint64_t lost_pages;
    // Cells of leaves.
    uint64_t cells;
    // What is wrong. No more than 100 are told.
    uint64_t faults;
} oneflush_mvbt_report;

// Is called with a line of text for each fault.
typedef void (*oneflush_mvbt_fault)(void *context, const char *text);

// Compares a stored record with the one that is sought, which the context leads to. Less than 0:
// the stored one comes before it. 0: it is that. More than 0: it comes behind it. The record is
// there until the function returns. It may be called from no other thread than the one that
// calls. It must not leave by longjmp() or an exception.
typedef int (*oneflush_mvbt_compare)(void *context, const uint8_t *record, size_t length);

// The cell of a cursor.
typedef struct {
    // In an integer tree. In a record tree it is 0.
    int64_t key;
    // How many bytes the payload has, or the record.
    uint64_t length;
    // So many of its first bytes were copied.
    size_t copied;
} oneflush_mvbt_cell;

// A cell at or behind a cursor.
typedef struct {
    // In an integer tree. In a record tree it is 0.
    int64_t key;
    // How many bytes the payload has, or the record.
    uint64_t length;
    // Its first bytes, those that stand beside the key, and how many they are. 32 bytes behind
    // them may be read.
    const uint8_t *local;
    size_t local_length;
} oneflush_mvbt_cell_ahead;

// Compares two records. Less than 0: `a` comes before `b`. 0: they are equal. More than 0: `a`
// comes behind `b`. Otherwise as oneflush_mvbt_compare.
typedef int (*oneflush_mvbt_order)(void *context,
                                   const uint8_t *a,
                                   size_t a_length,
                                   const uint8_t *b,
                                   size_t b_length);

// When a version was committed.
typedef struct {
    // The first version of this time. Those behind it, up to the next mark, came within a second.
    uint64_t version;
    // In milliseconds since 1970. It is never less than that of the mark before.
    uint64_t time_ms;
    // So many versions were committed up to this one, since the history was begun. Some may be
    // missing: the last ones of an opening, or those before a rollback.
    uint64_t number;
} oneflush_mvbt_mark;

// What can be read.
typedef struct {
    // What the file keeps, and how much of it.
    oneflush_mvbt_retain_kind retain;
    uint64_t retain_count;
    // The oldest version that can be read.
    uint64_t from;
    // The newest one.
    uint64_t to;
    // How many marks there are: those since `from`, and the one that has its time.
    size_t marks;
} oneflush_mvbt_history;

// Counts since this handle was opened, and the state of the file.
typedef struct {
    // Transactions that have changed something.
    uint64_t commits;
    // Pages that were split, also by transactions that were rolled back.
    uint64_t splits;
    // Pages that the newest version does not reach any more.
    uint64_t freed;
    uint64_t pages_written;
    // Pages read from the file.
    uint64_t pages_read;
    // Anchors and commit blocks, of 4,096 bytes each.
    uint64_t blocks_written;
    // Flushes, and durable writes of one page.
    uint64_t flushes;
    // Pages that the database has, used and free.
    uint64_t pages;
    // Those of them that the file lists as free, or as kept for older versions.
    uint64_t free_pages;
    // The oldest version that can be read.
    uint64_t from;
    // The newest one.
    uint64_t to;
} oneflush_mvbt_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The name of a code: "ONEFLUSH_MVBT_OK". Null for a number that is none.
const char *oneflush_mvbt_code_name(uint32_t code);

// The version of this library: "0.1.0".
const char *oneflush_mvbt_version(void);

// The message of the last oneflush_mvbt_create(), _make(), _open() or _close() of this thread
// that failed; "" if none has. It stays until the next one.
const char *oneflush_mvbt_open_error(void);

// The options that a null pointer stands for.
oneflush_mvbt_code oneflush_mvbt_options_default(oneflush_mvbt_options *options);

// Makes a new database in a file that must not exist. `options` may be null. After a failure
// there is no file, and `*db` is null.
oneflush_mvbt_code oneflush_mvbt_create(const char *path,
                                        const oneflush_mvbt_options *options,
                                        oneflush_mvbt_db **db);

// Opens a database, and recovers it if a crash has left it. `options` may be null; the file's own
// size of pages counts. After a failure `*db` is null. Several processes may have a file open.
// Handles of one process on one file share its pages in memory, limits and counts, unless an
// earlier write or flush has failed.
oneflush_mvbt_code oneflush_mvbt_open(const char *path,
                                      const oneflush_mvbt_options *options,
                                      oneflush_mvbt_db **db);

// True if this process is a child of a fork, and its parent has opened the handle. Nothing else
// can be done with it than to close it, which leaves alone what the parent has, and
// oneflush_mvbt_open_anew().
oneflush_mvbt_code oneflush_mvbt_is_inherited(const oneflush_mvbt_db *db, bool *inherited);

// Opens the database of an inherited handle for this process, as oneflush_mvbt_open(). `path` is
// that of the handle. It fails if another file is there now. Both handles are to be closed.
oneflush_mvbt_code oneflush_mvbt_open_anew(const oneflush_mvbt_db *inherited,
                                           const char *path,
                                           const oneflush_mvbt_options *options,
                                           oneflush_mvbt_db **db);

// Gives the handle back, also if this fails. Null is right. ONEFLUSH_MVBT_BUSY: a transaction is
// open, and goes on; the file is closed when it ends. After any failure the next opening recovers
// as after a crash, and has all that was committed. The message is oneflush_mvbt_open_error()'s.
oneflush_mvbt_code oneflush_mvbt_close(oneflush_mvbt_db *db);

// The message of the last call with this handle that failed. It stays until the next one.
const char *oneflush_mvbt_db_error(const oneflush_mvbt_db *db);

// A number that changes with each commit that changed something, of this database handle.
oneflush_mvbt_code oneflush_mvbt_data_version(const oneflush_mvbt_db *db, uint64_t *version);

// Bytes of a page.
oneflush_mvbt_code oneflush_mvbt_page_bytes(const oneflush_mvbt_db *db, uint32_t *bytes);

// Cuts the free pages at the end off the file. Those before are used lowest first from now on. So
// a database that is written anew after a first call has its free pages at the end. `version` is
// the one that is committed, and gets the one that this call has made of it, with the same rows.
// `looks_for_lost`: it looks for pages that belong to nobody since a crash, which reads the whole
// database, up to 1 GiB.
// `pages` gets how many are left, and `free` how many of those no reader needs; both may be null.
// BUSY: another process uses the database, a transaction writes, or the version is another one.
oneflush_mvbt_code oneflush_mvbt_shrink(const oneflush_mvbt_db *db,
                                        uint64_t *version,
                                        bool looks_for_lost,
                                        uint64_t *pages,
                                        uint64_t *free);

// The database gets no more pages than this. Beside oneflush_mvbt_page_count().
oneflush_mvbt_code oneflush_mvbt_pages_max(const oneflush_mvbt_db *db, uint64_t *pages);

// Sets it, for this handle of the database. It is never less than the pages that there are. `set`
// may be null; it gets what it is now. A transaction that writes meets it with its next page.
oneflush_mvbt_code oneflush_mvbt_set_pages_max(const oneflush_mvbt_db *db,
                                               uint64_t pages,
                                               uint64_t *set);

// Sets how much memory pages that were read may have, for this handle: 64 pages at least.
oneflush_mvbt_code oneflush_mvbt_set_cache_bytes(const oneflush_mvbt_db *db, uint64_t bytes);

// Looks at every page of the last committed version. `fault` may be null. ONEFLUSH_MVBT_OK says
// that the check is done: `report->faults` counts what it has found. Waits so many milliseconds
// for who writes, as oneflush_mvbt_begin_write(), and keeps writers out meanwhile.
oneflush_mvbt_code oneflush_mvbt_check(const oneflush_mvbt_db *db,
                                       int64_t wait_ms,
                                       oneflush_mvbt_report *report,
                                       oneflush_mvbt_fault fault,
                                       void *context);

// Begins a transaction that reads the last committed version. After a failure `*txn` is null, and
// the message is the database's.
oneflush_mvbt_code oneflush_mvbt_begin_read(const oneflush_mvbt_db *db, oneflush_mvbt_txn **txn);

// Begins the transaction that writes. Waits so many milliseconds for the one before: 0 not at
// all, less than 0 for ever. ONEFLUSH_MVBT_BUSY: it still writes; for ever, this thread has it.
// After a failure `*txn` is null, and the message is the database's.
oneflush_mvbt_code oneflush_mvbt_begin_write(const oneflush_mvbt_db *db,
                                             int64_t wait_ms,
                                             oneflush_mvbt_txn **txn);

// Ends a transaction. What it wrote is durable when this returns. After a failure it is rolled
// back; after ONEFLUSH_MVBT_IO the next opening may find it or not. `version` may be null; it
// gets the version that is the last one now. The handle is still to be closed.
oneflush_mvbt_code oneflush_mvbt_commit(oneflush_mvbt_txn *txn, uint64_t *version);

// The first of two steps of a commit: all that can fail. What the transaction wrote is durable
// when this returns, and survives a crash. Readers do not see it yet. Only
// oneflush_mvbt_finish() or oneflush_mvbt_rollback() may follow: another call with the handle, or
// with a cursor of it, is ONEFLUSH_MVBT_MISUSE. Nobody else writes meanwhile. After a failure it
// is as after one of oneflush_mvbt_commit(). A transaction that reads has no first step.
oneflush_mvbt_code oneflush_mvbt_prepare(oneflush_mvbt_txn *txn);

// The second step, which ends a prepared transaction: who begins to read now sees it. Otherwise
// as oneflush_mvbt_commit().
oneflush_mvbt_code oneflush_mvbt_finish(oneflush_mvbt_txn *txn, uint64_t *version);

// The same, and the transaction goes on as one that reads what it has made: no other transaction
// comes in between. Its cursors have to be opened anew. After a failure other than
// ONEFLUSH_MVBT_MISUSE it is committed, and has ended.
oneflush_mvbt_code oneflush_mvbt_finish_and_read(oneflush_mvbt_txn *txn, uint64_t *version);

// Ends a transaction, also a prepared one, and undoes what it did. While this takes a prepared one
// back, a crash leaves all of it or nothing. The handle is still to be closed.
oneflush_mvbt_code oneflush_mvbt_rollback(oneflush_mvbt_txn *txn);

// Gives the handle back. A transaction that has not ended is rolled back, also a prepared one.
// Cursors of it may still be closed. Null is right.
void oneflush_mvbt_txn_close(oneflush_mvbt_txn *txn);

// The message of the last call with this handle that failed. It stays until the next one.
const char *oneflush_mvbt_txn_error(const oneflush_mvbt_txn *txn);

// The version that the transaction reads, or that its commit makes.
oneflush_mvbt_code oneflush_mvbt_txn_version(const oneflush_mvbt_txn *txn, uint64_t *version);

// Opens a savepoint, and answers its number, from 1.
oneflush_mvbt_code oneflush_mvbt_savepoint(oneflush_mvbt_txn *txn, uint64_t *number);

// Ends this savepoint and those in it. Their changes stay.
oneflush_mvbt_code oneflush_mvbt_release(oneflush_mvbt_txn *txn, uint64_t number);

// Undoes what was done since a savepoint. It stays, and those in it go.
oneflush_mvbt_code oneflush_mvbt_rollback_to(oneflush_mvbt_txn *txn, uint64_t number);

// Makes a tree: of records, or of integer keys. Answers its number, which it keeps.
oneflush_mvbt_code oneflush_mvbt_tree_create(oneflush_mvbt_txn *txn,
                                             bool is_record,
                                             uint32_t *tree);

// Removes a tree and all that is in it.
oneflush_mvbt_code oneflush_mvbt_tree_drop(oneflush_mvbt_txn *txn, uint32_t tree);

// Takes all cells out of a tree. `cells` may be null; it gets how many there were.
oneflush_mvbt_code oneflush_mvbt_tree_clear(oneflush_mvbt_txn *txn, uint32_t tree, uint64_t *cells);

// How many cells a tree has. Reads all pages of the tree, but long payloads.
oneflush_mvbt_code oneflush_mvbt_tree_count(const oneflush_mvbt_txn *txn,
                                            uint32_t tree,
                                            uint64_t *cells);

// The numbers of all trees, in order. `count` gets how many there are, also if that is more than
// `capacity`: then `trees` has the first ones. `trees` may be null if `capacity` is 0.
oneflush_mvbt_code oneflush_mvbt_tree_list(const oneflush_mvbt_txn *txn,
                                           uint32_t *trees,
                                           size_t capacity,
                                           size_t *count);

// One of 16 words that the database keeps for you: `index` from 0. New ones are 0.
oneflush_mvbt_code oneflush_mvbt_meta_get(const oneflush_mvbt_txn *txn,
                                          uint32_t index,
                                          uint32_t *value);

// Changes one of these words.
oneflush_mvbt_code oneflush_mvbt_meta_set(oneflush_mvbt_txn *txn, uint32_t index, uint32_t value);

// How many pages the database has, used and free.
oneflush_mvbt_code oneflush_mvbt_page_count(const oneflush_mvbt_txn *txn, uint64_t *pages);

// Puts a payload at a key. `replaced` may be null; it gets whether something was there. `payload`
// may be null if `length` is 0.
oneflush_mvbt_code oneflush_mvbt_insert_integer(oneflush_mvbt_txn *txn,
                                                uint32_t tree,
                                                int64_t key,
                                                const uint8_t *payload,
                                                size_t length,
                                                bool *replaced);

// Puts a record where the comparison says, in the place of one that is equal to it.
oneflush_mvbt_code oneflush_mvbt_insert_record(oneflush_mvbt_txn *txn,
                                               uint32_t tree,
                                               const uint8_t *record,
                                               size_t length,
                                               oneflush_mvbt_compare function,
                                               void *context,
                                               bool *replaced);

// Takes out the cell at a key. `found` may be null; it gets whether it was there.
oneflush_mvbt_code oneflush_mvbt_delete_integer(oneflush_mvbt_txn *txn,
                                                uint32_t tree,
                                                int64_t key,
                                                bool *found);

// Takes out the record that the comparison finds equal.
oneflush_mvbt_code oneflush_mvbt_delete_record(oneflush_mvbt_txn *txn,
                                               uint32_t tree,
                                               oneflush_mvbt_compare function,
                                               void *context,
                                               bool *found);

// Makes a cursor that stands on no cell yet. A change of its tree takes the place from it: then it
// has to seek again, or to be restored. After a failure `*cursor` is null, and the message is the
// transaction's.
oneflush_mvbt_code oneflush_mvbt_cursor_open(const oneflush_mvbt_txn *txn,
                                             uint32_t tree,
                                             oneflush_mvbt_cursor **cursor);

// Gives the handle back. Null is right.
void oneflush_mvbt_cursor_close(oneflush_mvbt_cursor *cursor);

// The message of the last call with this handle that failed. It stays until the next one.
const char *oneflush_mvbt_cursor_error(const oneflush_mvbt_cursor *cursor);

// Goes to the first cell. `is_on_cell` may be null; it gets false if the tree is empty.
oneflush_mvbt_code oneflush_mvbt_cursor_first(oneflush_mvbt_cursor *cursor, bool *is_on_cell);

// Goes to the last cell. Otherwise as oneflush_mvbt_cursor_first().
oneflush_mvbt_code oneflush_mvbt_cursor_last(oneflush_mvbt_cursor *cursor, bool *is_on_cell);

// Goes to the next cell. `is_on_cell` gets false behind the last one.
oneflush_mvbt_code oneflush_mvbt_cursor_next(oneflush_mvbt_cursor *cursor, bool *is_on_cell);

// Goes to the cell before. `is_on_cell` gets false before the first one.
oneflush_mvbt_code oneflush_mvbt_cursor_previous(oneflush_mvbt_cursor *cursor, bool *is_on_cell);

// Goes to the first cell whose key is not less. `found` may be null; it gets whether the key is
// that one. Whether there is a cell at all says oneflush_mvbt_cursor_is_on_cell().
oneflush_mvbt_code oneflush_mvbt_cursor_seek_integer(oneflush_mvbt_cursor *cursor,
                                                     int64_t key,
                                                     bool *found);

// Goes to the first record that does not come before what the comparison seeks. Otherwise as
// oneflush_mvbt_cursor_seek_integer().
oneflush_mvbt_code oneflush_mvbt_cursor_seek_record(oneflush_mvbt_cursor *cursor,
                                                    oneflush_mvbt_compare function,
                                                    void *context,
                                                    bool *found);

// Whether it stands on a cell.
oneflush_mvbt_code oneflush_mvbt_cursor_is_on_cell(const oneflush_mvbt_cursor *cursor,
                                                   bool *is_on_cell);

// The key of its cell, in an integer tree.
oneflush_mvbt_code oneflush_mvbt_cursor_key(const oneflush_mvbt_cursor *cursor, int64_t *key);

// How many bytes the payload of its cell has, or the record.
oneflush_mvbt_code oneflush_mvbt_cursor_payload_length(const oneflush_mvbt_cursor *cursor,
                                                       uint64_t *length);

// All of a cell at once: its key, its length, and as many of its first bytes as the buffer takes
// and as stand beside the key. A long payload has more: oneflush_mvbt_cursor_payload().
oneflush_mvbt_code oneflush_mvbt_cursor_cell(const oneflush_mvbt_cursor *cursor,
                                             oneflush_mvbt_cell *cell,
                                             uint8_t *buffer,
                                             size_t capacity);

// The cell on which the cursor stands and some of those behind it, without a copy where that can
// be. The cursor stays: oneflush_mvbt_cursor_advance() moves it over them. `count` gets how many
// there are, at least 1 and at most `capacity`. They stay until the cursor moves or is closed, or
// this is called again. ONEFLUSH_MVBT_MISUSE: the cursor stands on no cell, or `capacity` is 0.
oneflush_mvbt_code oneflush_mvbt_cursor_cells(const oneflush_mvbt_cursor *cursor,
                                              oneflush_mvbt_cell_ahead *cells,
                                              size_t capacity,
                                              size_t *count);

// Goes forward over so many cells of those that oneflush_mvbt_cursor_cells() has listed, as by
// oneflush_mvbt_cursor_next(). 0: it stays. ONEFLUSH_MVBT_MISUSE: its page has not so many.
oneflush_mvbt_code oneflush_mvbt_cursor_advance(oneflush_mvbt_cursor *cursor,
                                                size_t cells,
                                                bool *is_on_cell);

// Goes back up to `most` cells, and no further than into one page. `moved` gets how many: 0 if the
// cursor stands before the first cell now. oneflush_mvbt_cursor_cells() then lists those that it
// has come by.
oneflush_mvbt_code oneflush_mvbt_cursor_retreat(oneflush_mvbt_cursor *cursor,
                                                size_t most,
                                                size_t *moved);

// Copies `length` bytes of the payload or record from `offset` on. ONEFLUSH_MVBT_MISUSE: it does
// not have so many. After another failure the buffer may have been changed.
oneflush_mvbt_code oneflush_mvbt_cursor_payload(const oneflush_mvbt_cursor *cursor,
                                                uint64_t offset,
                                                uint8_t *buffer,
                                                size_t length);

// About how many cells the tree has, from those of the pages between root and cursor. 0: the
// cursor stands on no cell.
oneflush_mvbt_code oneflush_mvbt_cursor_estimate(const oneflush_mvbt_cursor *cursor,
                                                 uint64_t *cells);

// Keeps the key on which the cursor stands, or a copy of the record. Call it before the tree is
// changed: else oneflush_mvbt_cursor_restore() does not know what to look for. Until the cursor
// moves, another call costs nothing.
oneflush_mvbt_code oneflush_mvbt_cursor_save(oneflush_mvbt_cursor *cursor);

// Goes back to the cell that was saved, or beside it. If the tree has not changed, this looks for
// nothing. `function` orders the records of a record tree; for an integer tree it may be null.
// `restored` may be null; it gets where the cursor stands. ONEFLUSH_MVBT_MISUSE: the tree has
// changed, and the cursor was not saved before.
oneflush_mvbt_code oneflush_mvbt_cursor_restore(oneflush_mvbt_cursor *cursor,
                                                oneflush_mvbt_order function,
                                                void *context,
                                                oneflush_mvbt_restored *restored);

// Takes out the cell on which the cursor stands. The cursor is saved before:
// oneflush_mvbt_cursor_restore() puts it beside the cell. `function` as there.
// ONEFLUSH_MVBT_MISUSE: it stands on no cell, or its own cell is gone.
oneflush_mvbt_code oneflush_mvbt_cursor_delete(oneflush_mvbt_cursor *cursor,
                                               oneflush_mvbt_order function,
                                               void *context);

// Puts another payload at the key on which the cursor stands, in an integer tree. The cursor is
// saved before. `payload` may be null if `length` is 0. ONEFLUSH_MVBT_MISUSE: as
// oneflush_mvbt_cursor_delete().
oneflush_mvbt_code oneflush_mvbt_cursor_replace(oneflush_mvbt_cursor *cursor,
                                                const uint8_t *payload,
                                                size_t length);

// Changes bytes of that payload from `offset` on. It keeps its length. All of it is read, and is
// written anew. ONEFLUSH_MVBT_MISUSE: also where the bytes end behind the payload.
oneflush_mvbt_code oneflush_mvbt_cursor_overwrite(oneflush_mvbt_cursor *cursor,
                                                  uint64_t offset,
                                                  const uint8_t *part,
                                                  size_t length);

// Makes a database with an empty integer tree, tree 2, where no file is or an empty one. The file
// is there whole or not at all: it is made beside, and then put into its place. It has owner and
// permissions of the empty file; `permissions` are those of one that was not there. `options` may
// be null. `*made` is false if a file is there that is not empty: another caller may have made it.
oneflush_mvbt_code oneflush_mvbt_make(const char *path,
                                      const oneflush_mvbt_options *options,
                                      uint32_t permissions,
                                      bool *made);

// Looks where `ONEFLUSH_LOG` says that messages go: off, stderr, syslog, or a file. The first call
// of a process counts. ONEFLUSH_MVBT_MISUSE: they cannot go there. The message is
// oneflush_mvbt_open_error()'s.
oneflush_mvbt_code oneflush_mvbt_say_where(void);

// Writes a message there, in a line, unless it has said the same a short time ago. Null is right.
// It never waits.
void oneflush_mvbt_say(const char *text);

// Looks at the file system of a database, which need not exist. ONEFLUSH_MVBT_IO: it may lose what
// a flush has promised, or others than this kernel may change the file. The message, which
// oneflush_mvbt_open_error() answers, has the reason. What is in memory alone is right.
oneflush_mvbt_code oneflush_mvbt_check_ground(const char *path);

// Begins a transaction that reads the database as it was at a version: with the newest transaction
// up to it. ONEFLUSH_MVBT_SNAPSHOT_GONE: the version is not kept any more, or not committed yet.
// After a failure `*txn` is null, and the message is the database's.
oneflush_mvbt_code oneflush_mvbt_begin_read_at(const oneflush_mvbt_db *db,
                                               uint64_t version,
                                               oneflush_mvbt_txn **txn);

// The same at a time, in milliseconds since 1970: with all transactions that were committed by
// then, and none that came later. Those of the last second before it may be missing, where the
// history has no mark. ONEFLUSH_MVBT_SNAPSHOT_GONE: the history begins later, or there is none.
oneflush_mvbt_code oneflush_mvbt_begin_read_at_time(const oneflush_mvbt_db *db,
                                                    uint64_t time_ms,
                                                    oneflush_mvbt_txn **txn);

// What can be read, and the times of it. `history->marks` is how many marks there are. If that is
// more than `capacity`, `marks` has the oldest ones. It may be null if `capacity` is 0.
oneflush_mvbt_code oneflush_mvbt_history_list(const oneflush_mvbt_db *db,
                                              oneflush_mvbt_mark *marks,
                                              size_t capacity,
                                              oneflush_mvbt_history *history);

// From this transaction on, the file keeps so much for readers of older versions. `kind` is one of
// oneflush_mvbt_retain_kind. `count` is of versions or milliseconds.
oneflush_mvbt_code oneflush_mvbt_set_retain(oneflush_mvbt_txn *txn, uint32_t kind, uint64_t count);

// Gives up what is older than a version, in a transaction of its own, which waits for who writes.
// `from` may be null; it gets the oldest version that is kept. ONEFLUSH_MVBT_SNAPSHOT_GONE: the
// file keeps no history.
oneflush_mvbt_code oneflush_mvbt_prune(const oneflush_mvbt_db *db, uint64_t up_to, uint64_t *from);

// What was done with this handle since it was opened, and how full the file is. Reads the list of
// free pages.
oneflush_mvbt_code oneflush_mvbt_stats(const oneflush_mvbt_db *db, oneflush_mvbt_statistics *stats);

// Begins a copy of the last committed version, in a file that must not exist. Writers go on
// meanwhile. The copy is compact, and keeps the numbers of trees and the meta words. It has no
// history, and keeps none. Until the handle is closed it reads its version. After a failure
// `*backup` is null, and the message is the database's.
oneflush_mvbt_code oneflush_mvbt_backup_begin(const oneflush_mvbt_db *db,
                                              const char *name,
                                              oneflush_mvbt_backup **backup);

// Copies about so many pages; a long payload is copied at once. UINT64_MAX: all that are left.
// `is_done` may be null; it gets whether the copy is there under its name, durable. After a
// failure there is no copy: close the handle, and begin anew.
oneflush_mvbt_code oneflush_mvbt_backup_step(oneflush_mvbt_backup *backup,
                                             uint64_t pages,
                                             bool *is_done);

// About how many pages are still to be copied. 0: the copy is done.
oneflush_mvbt_code oneflush_mvbt_backup_remaining(const oneflush_mvbt_backup *backup,
                                                  uint64_t *pages);

// How many pages the version has that is copied. The copy may have less.
oneflush_mvbt_code oneflush_mvbt_backup_page_count(const oneflush_mvbt_backup *backup,
                                                   uint64_t *pages);

// The message of the last call with this handle that failed. It stays until the next one.
const char *oneflush_mvbt_backup_error(const oneflush_mvbt_backup *backup);

// Gives the handle back. A copy that is not done leaves no file. Null is right.
void oneflush_mvbt_backup_close(oneflush_mvbt_backup *backup);

// Makes such a copy at once. It is durable when this returns.
oneflush_mvbt_code oneflush_mvbt_vacuum_into(const oneflush_mvbt_db *db, const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ONEFLUSH_MVBT_H */
