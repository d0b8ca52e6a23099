// Calls every function of oneflush_mvbt.h: all.c FOLDER.

#include "oneflush_mvbt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call) CHECK((call) == ONEFLUSH_MVBT_OK)

typedef struct {
    const uint8_t *bytes;
    size_t length;
} sought;

static int by_bytes(void *context, const uint8_t *record, size_t length)
{
    const sought *other = context;
    size_t common = length < other->length ? length : other->length;
    int order = common == 0 ? 0 : memcmp(record, other->bytes, common);
    if (order != 0)
        return order;
    return length < other->length ? -1 : length > other->length;
}

static int alphabetical(void *context, const uint8_t *a, size_t a_length, const uint8_t *b,
                        size_t b_length)
{
    sought other = {b, b_length};
    (*(int *)context)++;
    return by_bytes(&other, a, a_length);
}

static sought word(const char *text)
{
    sought made = {(const uint8_t *)text, strlen(text)};
    return made;
}

static void count_faults(void *context, const char *text)
{
    (void)text;
    (*(int *)context)++;
}

// A comparison that uses its own transaction.
static int nosy(void *context, const uint8_t *record, size_t length)
{
    uint64_t pages;
    (void)record;
    (void)length;
    CHECK(oneflush_mvbt_page_count(context, &pages) == ONEFLUSH_MVBT_BUSY);
    return 0;
}

static void without_a_database(const char *path)
{
    oneflush_mvbt_db *db = (oneflush_mvbt_db *)&checks;
    CHECK(strchr(oneflush_mvbt_version(), '.') != NULL);
    CHECK(strcmp(oneflush_mvbt_code_name(ONEFLUSH_MVBT_BUSY), "ONEFLUSH_MVBT_BUSY") == 0);
    CHECK(oneflush_mvbt_code_name(99) == NULL);
    CHECK(oneflush_mvbt_open(path, NULL, &db) == ONEFLUSH_MVBT_IO);
    CHECK(db == NULL && strstr(oneflush_mvbt_open_error(), path) != NULL);
    CHECK(oneflush_mvbt_open(NULL, NULL, &db) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_open(path, NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_options_default(NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_begin_read(NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    oneflush_mvbt_txn *txn = (oneflush_mvbt_txn *)&checks;
    CHECK(oneflush_mvbt_begin_read(NULL, &txn) == ONEFLUSH_MVBT_MISUSE && txn == NULL);
    CHECK(oneflush_mvbt_commit(NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_next(NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(*oneflush_mvbt_db_error(NULL) != 0 && *oneflush_mvbt_txn_error(NULL) != 0);
    CHECK(oneflush_mvbt_prepare(NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_save(NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_vacuum_into(NULL, path) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_shrink(NULL, NULL, false, NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_backup_step(NULL, 1, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(*oneflush_mvbt_cursor_error(NULL) != 0 && *oneflush_mvbt_backup_error(NULL) != 0);
    OK(oneflush_mvbt_close(NULL));
    oneflush_mvbt_txn_close(NULL);
    oneflush_mvbt_cursor_close(NULL);
    oneflush_mvbt_backup_close(NULL);
}

static void integers(oneflush_mvbt_db *db, uint32_t *tree)
{
    oneflush_mvbt_txn *txn, *second;
    oneflush_mvbt_cursor *cursor;
    uint64_t before, after, version, number, length;
    uint8_t long_payload[20000], part[100], page[4096];
    oneflush_mvbt_cell cell;
    bool is_there, is_on_cell;
    int64_t key, keys[3] = {-5, 7, 1000000};

    OK(oneflush_mvbt_data_version(db, &before));
    OK(oneflush_mvbt_begin_write(db, -1, &txn));
    CHECK(oneflush_mvbt_begin_write(db, 0, &second) == ONEFLUSH_MVBT_BUSY && second == NULL);
    CHECK(*oneflush_mvbt_db_error(db) != 0);
    CHECK(oneflush_mvbt_begin_write(db, 5, &second) == ONEFLUSH_MVBT_BUSY);
    OK(oneflush_mvbt_tree_create(txn, false, tree));
    for (int n = 2; n >= 0; n--) {
        OK(oneflush_mvbt_insert_integer(txn, *tree, keys[n], (const uint8_t *)"abc", 3, &is_there));
        CHECK(!is_there);
    }
    OK(oneflush_mvbt_insert_integer(txn, *tree, 7, NULL, 0, &is_there));
    CHECK(is_there);
    memset(long_payload, 'x', sizeof long_payload);
    long_payload[15000] = 'y';
    OK(oneflush_mvbt_insert_integer(txn, *tree, 8, long_payload, sizeof long_payload, NULL));
    OK(oneflush_mvbt_savepoint(txn, &number));
    CHECK(number == 1);
    OK(oneflush_mvbt_delete_integer(txn, *tree, 8, &is_there));
    CHECK(is_there);
    OK(oneflush_mvbt_delete_integer(txn, *tree, 8, NULL));
    OK(oneflush_mvbt_rollback_to(txn, number));
    OK(oneflush_mvbt_release(txn, number));
    CHECK(oneflush_mvbt_rollback_to(txn, number) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_insert_integer(txn, *tree, 1, NULL, 3, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_insert_integer(txn, 99, 1, NULL, 0, NULL) == ONEFLUSH_MVBT_NO_TREE);
    CHECK(strstr(oneflush_mvbt_txn_error(txn), "99") != NULL);
    OK(oneflush_mvbt_meta_set(txn, 3, 12345));
    CHECK(oneflush_mvbt_meta_set(txn, 16, 1) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_txn_version(txn, &version));
    OK(oneflush_mvbt_commit(txn, &after));
    CHECK(after == version && after > before);
    CHECK(oneflush_mvbt_commit(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_tree_drop(txn, *tree) == ONEFLUSH_MVBT_MISUSE);
    oneflush_mvbt_txn_close(txn);

    OK(oneflush_mvbt_begin_read(db, &txn));
    CHECK(oneflush_mvbt_tree_drop(txn, *tree) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_cursor_open(txn, *tree, &cursor));
    CHECK(oneflush_mvbt_cursor_key(cursor, &key) == ONEFLUSH_MVBT_MISUSE);
    CHECK(*oneflush_mvbt_cursor_error(cursor) != 0);
    OK(oneflush_mvbt_cursor_first(cursor, &is_on_cell));
    for (int n = 0; is_on_cell; n++) {
        OK(oneflush_mvbt_cursor_key(cursor, &key));
        CHECK(key == (n < 2 ? keys[n] : n == 2 ? 8 : keys[2]));
        OK(oneflush_mvbt_cursor_next(cursor, &is_on_cell));
        CHECK(is_on_cell == (n < 3));
    }
    OK(oneflush_mvbt_cursor_last(cursor, NULL));
    OK(oneflush_mvbt_cursor_previous(cursor, &is_on_cell));
    OK(oneflush_mvbt_cursor_key(cursor, &key));
    CHECK(is_on_cell && key == 8);
    OK(oneflush_mvbt_cursor_payload_length(cursor, &length));
    CHECK(length == sizeof long_payload);
    OK(oneflush_mvbt_cursor_payload(cursor, 14950, part, sizeof part));
    CHECK(part[49] == 'x' && part[50] == 'y');
    OK(oneflush_mvbt_cursor_payload(cursor, length, NULL, 0));
    // A long payload has only its beginning beside the key.
    OK(oneflush_mvbt_cursor_cell(cursor, &cell, part, sizeof part));
    CHECK(cell.key == 8 && cell.length == length && cell.copied == sizeof part);
    CHECK(memcmp(part, long_payload, sizeof part) == 0);
    OK(oneflush_mvbt_cursor_cell(cursor, &cell, page, sizeof page));
    CHECK(cell.copied > sizeof part && cell.copied < length);
    CHECK(oneflush_mvbt_cursor_cell(cursor, &cell, NULL, 1) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_cursor_cell(cursor, &cell, NULL, 0));
    CHECK(oneflush_mvbt_cursor_payload(cursor, length, part, 1) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_payload(cursor, UINT64_MAX, part, 2) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_cursor_seek_integer(cursor, 9, &is_there));
    OK(oneflush_mvbt_cursor_is_on_cell(cursor, &is_on_cell));
    CHECK(!is_there && is_on_cell);
    CHECK(oneflush_mvbt_cursor_seek_record(cursor, by_bytes, NULL, NULL) ==
          ONEFLUSH_MVBT_WRONG_KIND);
    // A cursor may be closed behind its transaction, and is of no use meanwhile.
    oneflush_mvbt_txn_close(txn);
    CHECK(oneflush_mvbt_cursor_next(cursor, NULL) == ONEFLUSH_MVBT_MISUSE);
    oneflush_mvbt_cursor_close(cursor);
}

static void records(oneflush_mvbt_db *db)
{
    static const char *const words[] = {"pear", "apple", "fig"};
    oneflush_mvbt_txn *txn;
    oneflush_mvbt_cursor *cursor;
    uint32_t tree, value, trees[8];
    size_t count;
    uint64_t cells, pages;
    bool is_there;
    sought fig = word("fig");

    OK(oneflush_mvbt_begin_write(db, 1000, &txn));
    OK(oneflush_mvbt_tree_create(txn, true, &tree));
    for (int n = 0; n < 3; n++) {
        sought one = word(words[n]);
        OK(oneflush_mvbt_insert_record(txn, tree, one.bytes, one.length, by_bytes, &one,
                                       &is_there));
        CHECK(!is_there);
    }
    CHECK(oneflush_mvbt_insert_record(txn, tree, fig.bytes, fig.length, NULL, NULL, NULL) ==
          ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_delete_integer(txn, tree, 1, NULL) == ONEFLUSH_MVBT_WRONG_KIND);
    OK(oneflush_mvbt_cursor_open(txn, tree, &cursor));
    OK(oneflush_mvbt_cursor_seek_record(cursor, nosy, txn, &is_there));
    CHECK(is_there);
    OK(oneflush_mvbt_cursor_seek_record(cursor, by_bytes, &fig, &is_there));
    CHECK(is_there);
    uint8_t stored[3];
    OK(oneflush_mvbt_cursor_payload(cursor, 0, stored, 3));
    CHECK(memcmp(stored, "fig", 3) == 0);
    OK(oneflush_mvbt_delete_record(txn, tree, by_bytes, &fig, &is_there));
    CHECK(is_there);
    CHECK(oneflush_mvbt_cursor_seek_integer(cursor, 1, NULL) == ONEFLUSH_MVBT_WRONG_KIND);
    oneflush_mvbt_cursor_close(cursor);
    OK(oneflush_mvbt_meta_get(txn, 3, &value));
    CHECK(value == 12345);
    OK(oneflush_mvbt_page_count(txn, &pages));
    CHECK(pages > 2);
    OK(oneflush_mvbt_tree_list(txn, trees, 8, &count));
    CHECK(count == 2 && trees[1] == tree);
    OK(oneflush_mvbt_tree_list(txn, NULL, 0, &count));
    CHECK(count == 2);
    OK(oneflush_mvbt_tree_clear(txn, tree, &cells));
    CHECK(cells == 2);
    OK(oneflush_mvbt_tree_drop(txn, tree));
    OK(oneflush_mvbt_tree_list(txn, trees, 8, &count));
    CHECK(count == 1);
    OK(oneflush_mvbt_rollback(txn));
    oneflush_mvbt_txn_close(txn);
}

typedef struct {
    oneflush_mvbt_db *db;
    uint32_t tree;
    int64_t first;
} writer;

static void *write_many(void *argument)
{
    const writer *own = argument;
    for (int64_t key = own->first; key < own->first + 50; key++) {
        oneflush_mvbt_txn *txn;
        OK(oneflush_mvbt_begin_write(own->db, -1, &txn));
        OK(oneflush_mvbt_insert_integer(txn, own->tree, key, NULL, 0, NULL));
        OK(oneflush_mvbt_commit(txn, NULL));
        oneflush_mvbt_txn_close(txn);
    }
    return NULL;
}

static void threads(oneflush_mvbt_db *db, uint32_t tree)
{
    pthread_t threads[3];
    writer writers[3];
    for (int n = 0; n < 3; n++) {
        writers[n] = (writer){db, tree, 2000 + 100 * n};
        CHECK(pthread_create(&threads[n], NULL, write_many, &writers[n]) == 0);
    }
    for (int n = 0; n < 3; n++)
        CHECK(pthread_join(threads[n], NULL) == 0);
}

static oneflush_mvbt_txn *begin(oneflush_mvbt_db *db)
{
    oneflush_mvbt_txn *txn;
    OK(oneflush_mvbt_begin_write(db, -1, &txn));
    return txn;
}

// How many cells a tree has in the last committed version.
static uint64_t cells_of(oneflush_mvbt_db *db, uint32_t tree)
{
    oneflush_mvbt_txn *txn;
    uint64_t cells;
    OK(oneflush_mvbt_begin_read(db, &txn));
    OK(oneflush_mvbt_tree_count(txn, tree, &cells));
    oneflush_mvbt_txn_close(txn);
    return cells;
}

static bool holds(oneflush_mvbt_cursor *cursor, const char *text)
{
    uint64_t length;
    uint8_t stored[16];
    OK(oneflush_mvbt_cursor_payload_length(cursor, &length));
    CHECK(length <= sizeof stored);
    OK(oneflush_mvbt_cursor_payload(cursor, 0, stored, length));
    return length == strlen(text) && memcmp(stored, text, length) == 0;
}

// Cells that a cursor changes in an integer tree, and where it stands then.
static void at_a_cursor(oneflush_mvbt_db *db)
{
    oneflush_mvbt_txn *txn = begin(db), *reader;
    oneflush_mvbt_cursor *cursor;
    oneflush_mvbt_restored restored;
    uint32_t tree;
    uint64_t cells;
    bool is_on_cell;
    int64_t key;

    OK(oneflush_mvbt_tree_create(txn, false, &tree));
    OK(oneflush_mvbt_cursor_open(txn, tree, &cursor));
    OK(oneflush_mvbt_cursor_estimate(cursor, &cells));
    CHECK(cells == 0);
    OK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored));
    CHECK(restored == ONEFLUSH_MVBT_NOWHERE);
    CHECK(oneflush_mvbt_cursor_delete(cursor, NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_replace(cursor, NULL, 0) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_overwrite(cursor, 0, NULL, 0) == ONEFLUSH_MVBT_MISUSE);
    for (key = 0; key < 500; key++)
        OK(oneflush_mvbt_insert_integer(txn, tree, key, (const uint8_t *)"abcd", 4, NULL));
    CHECK(oneflush_mvbt_tree_count(txn, 99, &cells) == ONEFLUSH_MVBT_NO_TREE);
    CHECK(oneflush_mvbt_tree_count(txn, tree, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_tree_count(txn, tree, &cells));
    CHECK(cells == 500);

    OK(oneflush_mvbt_cursor_seek_integer(cursor, 250, NULL));
    OK(oneflush_mvbt_cursor_estimate(cursor, &cells));
    CHECK(cells > 100 && cells < 2500);
    // What was not saved before a change cannot be restored.
    OK(oneflush_mvbt_delete_integer(txn, tree, 0, NULL));
    CHECK(oneflush_mvbt_cursor_save(cursor) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_cursor_seek_integer(cursor, 250, NULL));
    OK(oneflush_mvbt_cursor_save(cursor));
    OK(oneflush_mvbt_delete_integer(txn, tree, 1, NULL));
    OK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored));
    CHECK(restored == ONEFLUSH_MVBT_SAME);

    OK(oneflush_mvbt_cursor_replace(cursor, (const uint8_t *)"efghij", 6));
    OK(oneflush_mvbt_cursor_overwrite(cursor, 2, (const uint8_t *)"XY", 2));
    CHECK(oneflush_mvbt_cursor_overwrite(cursor, 5, (const uint8_t *)"XY", 2) ==
          ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_overwrite(cursor, 0, NULL, 2) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_replace(cursor, NULL, 2) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, NULL));
    CHECK(holds(cursor, "efXYij"));

    // After a delete the step to the next cell is none.
    OK(oneflush_mvbt_cursor_delete(cursor, NULL, NULL));
    CHECK(oneflush_mvbt_cursor_delete(cursor, NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored));
    CHECK(restored == ONEFLUSH_MVBT_NEXT);
    OK(oneflush_mvbt_cursor_next(cursor, &is_on_cell));
    OK(oneflush_mvbt_cursor_key(cursor, &key));
    CHECK(is_on_cell && key == 251 && holds(cursor, "abcd"));
    OK(oneflush_mvbt_cursor_last(cursor, NULL));
    OK(oneflush_mvbt_cursor_delete(cursor, NULL, NULL));
    OK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored));
    CHECK(restored == ONEFLUSH_MVBT_PREVIOUS);
    OK(oneflush_mvbt_cursor_previous(cursor, NULL));
    OK(oneflush_mvbt_cursor_key(cursor, &key));
    CHECK(key == 498);
    OK(oneflush_mvbt_cursor_save(cursor));
    OK(oneflush_mvbt_tree_clear(txn, tree, &cells));
    CHECK(cells == 496);
    OK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored));
    CHECK(restored == ONEFLUSH_MVBT_NOWHERE);
    oneflush_mvbt_cursor_close(cursor);
    OK(oneflush_mvbt_insert_integer(txn, tree, 1, NULL, 0, NULL));
    OK(oneflush_mvbt_commit(txn, NULL));
    oneflush_mvbt_txn_close(txn);

    OK(oneflush_mvbt_begin_read(db, &reader));
    OK(oneflush_mvbt_tree_count(reader, tree, &cells));
    CHECK(cells == 1);
    OK(oneflush_mvbt_cursor_open(reader, tree, &cursor));
    OK(oneflush_mvbt_cursor_first(cursor, NULL));
    OK(oneflush_mvbt_cursor_save(cursor));
    OK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored));
    CHECK(restored == ONEFLUSH_MVBT_SAME);
    CHECK(oneflush_mvbt_cursor_delete(cursor, NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(strstr(oneflush_mvbt_cursor_error(cursor), "reads") != NULL);
    oneflush_mvbt_cursor_close(cursor);
    oneflush_mvbt_txn_close(reader);
}

// The same in a record tree, whose order the program has.
// Cells are listed where they stand, and a cursor goes over them both ways.
static void cells_ahead(oneflush_mvbt_db *db)
{
    oneflush_mvbt_cell_ahead cells[16];
    oneflush_mvbt_cursor *cursor;
    oneflush_mvbt_txn *txn = begin(db);
    static uint8_t payload[3000];
    uint32_t tree;
    size_t count;
    int64_t key;
    bool is_on_cell;

    OK(oneflush_mvbt_tree_create(txn, false, &tree));
    for (int n = 0; n < 100; n++) {
        memset(payload, n, sizeof payload);
        OK(oneflush_mvbt_insert_integer(txn, tree, n, payload, n == 50 ? 3000 : n, NULL));
    }
    // First as the transaction has made them, and then as they are in the file.
    for (int turn = 0; turn < 2; turn++) {
        int last = -1;
        OK(oneflush_mvbt_cursor_open(txn, tree, &cursor));
        CHECK(oneflush_mvbt_cursor_cells(cursor, cells, 16, &count) == ONEFLUSH_MVBT_MISUSE);
        CHECK(oneflush_mvbt_cursor_advance(cursor, 1, NULL) == ONEFLUSH_MVBT_MISUSE);
        OK(oneflush_mvbt_cursor_first(cursor, &is_on_cell));
        CHECK(oneflush_mvbt_cursor_cells(cursor, cells, 0, &count) == ONEFLUSH_MVBT_MISUSE);
        CHECK(oneflush_mvbt_cursor_cells(cursor, NULL, 16, &count) == ONEFLUSH_MVBT_MISUSE);
        CHECK(oneflush_mvbt_cursor_advance(cursor, 100000, NULL) == ONEFLUSH_MVBT_MISUSE);
        while (is_on_cell) {
            OK(oneflush_mvbt_cursor_cells(cursor, cells, 16, &count));
            CHECK(count >= 1 && count <= 16);
            for (size_t n = 0; n < count; n++) {
                uint64_t length = ++last == 50 ? 3000 : (uint64_t)last;
                CHECK(cells[n].key == last && cells[n].length == length);
                CHECK(cells[n].local_length == length || last == 50);
                for (size_t at = 0; at < cells[n].local_length; at++)
                    CHECK(cells[n].local[at] == last);
                CHECK(cells[n].local[cells[n].local_length + 31] < 256);
            }
            OK(oneflush_mvbt_cursor_advance(cursor, 0, NULL));
            OK(oneflush_mvbt_cursor_key(cursor, &key));
            CHECK(key == cells[0].key);
            OK(oneflush_mvbt_cursor_advance(cursor, count, &is_on_cell));
        }
        CHECK(last == 99);
        OK(oneflush_mvbt_cursor_last(cursor, NULL));
        CHECK(oneflush_mvbt_cursor_retreat(cursor, 0, &count) == ONEFLUSH_MVBT_MISUSE);
        for (;;) {
            OK(oneflush_mvbt_cursor_retreat(cursor, 7, &count));
            if (count == 0)
                break;
            CHECK(count <= 7);
            last -= (int)count;
            OK(oneflush_mvbt_cursor_key(cursor, &key));
            CHECK(key == last);
        }
        CHECK(last == 0);
        oneflush_mvbt_cursor_close(cursor);
        if (turn == 0) {
            OK(oneflush_mvbt_commit(txn, NULL));
            oneflush_mvbt_txn_close(txn);
            OK(oneflush_mvbt_begin_read(db, &txn));
        }
    }
    oneflush_mvbt_txn_close(txn);
}

static void in_your_order(oneflush_mvbt_db *db)
{
    static const char *const words[] = {"pear", "apple", "fig"};
    oneflush_mvbt_txn *txn = begin(db);
    oneflush_mvbt_cursor *cursor;
    oneflush_mvbt_restored restored;
    uint32_t tree;
    bool is_there;
    int asked = 0;
    sought fig = word("fig"), banana = word("banana");

    OK(oneflush_mvbt_tree_create(txn, true, &tree));
    for (int n = 0; n < 3; n++) {
        sought one = word(words[n]);
        OK(oneflush_mvbt_insert_record(txn, tree, one.bytes, one.length, by_bytes, &one, NULL));
    }
    OK(oneflush_mvbt_cursor_open(txn, tree, &cursor));
    OK(oneflush_mvbt_cursor_seek_record(cursor, by_bytes, &fig, &is_there));
    CHECK(is_there);
    OK(oneflush_mvbt_cursor_save(cursor));
    OK(oneflush_mvbt_insert_record(txn, tree, banana.bytes, banana.length, by_bytes, &banana,
                                   NULL));
    // What was saved survives a call without the order.
    CHECK(oneflush_mvbt_cursor_restore(cursor, NULL, NULL, &restored) == ONEFLUSH_MVBT_MISUSE);
    CHECK(asked == 0);
    OK(oneflush_mvbt_cursor_restore(cursor, alphabetical, &asked, &restored));
    CHECK(restored == ONEFLUSH_MVBT_SAME && asked > 0 && holds(cursor, "fig"));
    CHECK(oneflush_mvbt_cursor_delete(cursor, NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_cursor_replace(cursor, NULL, 0) == ONEFLUSH_MVBT_WRONG_KIND);
    OK(oneflush_mvbt_cursor_delete(cursor, alphabetical, &asked));
    OK(oneflush_mvbt_cursor_restore(cursor, alphabetical, &asked, &restored));
    CHECK(restored == ONEFLUSH_MVBT_NEXT && holds(cursor, "pear"));
    // The one beside it is its own only after a step.
    CHECK(oneflush_mvbt_cursor_delete(cursor, alphabetical, &asked) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_cursor_next(cursor, NULL));
    OK(oneflush_mvbt_cursor_delete(cursor, alphabetical, &asked));
    OK(oneflush_mvbt_cursor_restore(cursor, alphabetical, &asked, &restored));
    CHECK(restored == ONEFLUSH_MVBT_PREVIOUS && holds(cursor, "banana"));
    oneflush_mvbt_cursor_close(cursor);
    OK(oneflush_mvbt_rollback(txn));
    oneflush_mvbt_txn_close(txn);
}

static void in_two_steps(oneflush_mvbt_db *db, uint32_t tree)
{
    oneflush_mvbt_txn *txn = begin(db), *second;
    oneflush_mvbt_cursor *cursor;
    uint64_t cells = cells_of(db, tree), version, finished, before, number;

    CHECK(oneflush_mvbt_finish(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(strstr(oneflush_mvbt_txn_error(txn), "not prepared") != NULL);
    OK(oneflush_mvbt_insert_integer(txn, tree, 5001, NULL, 0, NULL));
    OK(oneflush_mvbt_cursor_open(txn, tree, &cursor));
    OK(oneflush_mvbt_txn_version(txn, &version));
    OK(oneflush_mvbt_data_version(db, &before));
    OK(oneflush_mvbt_prepare(txn));
    // Durable, and not shown. Only finish and rollback may follow.
    CHECK(cells_of(db, tree) == cells);
    OK(oneflush_mvbt_data_version(db, &finished));
    CHECK(finished == before);
    CHECK(oneflush_mvbt_cursor_first(cursor, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(strstr(oneflush_mvbt_cursor_error(cursor), "prepared") != NULL);
    CHECK(oneflush_mvbt_cursor_delete(cursor, NULL, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_insert_integer(txn, tree, 1, NULL, 0, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_savepoint(txn, &number) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_tree_count(txn, tree, &number) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_prepare(txn) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_commit(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(strstr(oneflush_mvbt_txn_error(txn), "prepared") != NULL);
    CHECK(oneflush_mvbt_begin_write(db, 0, &second) == ONEFLUSH_MVBT_BUSY);
    OK(oneflush_mvbt_finish(txn, &finished));
    CHECK(finished == version && cells_of(db, tree) == cells + 1);
    CHECK(oneflush_mvbt_finish(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_rollback(txn) == ONEFLUSH_MVBT_MISUSE);
    oneflush_mvbt_cursor_close(cursor);
    oneflush_mvbt_txn_close(txn);

    txn = begin(db);
    OK(oneflush_mvbt_insert_integer(txn, tree, 5002, NULL, 0, NULL));
    OK(oneflush_mvbt_prepare(txn));
    OK(oneflush_mvbt_rollback(txn));
    CHECK(oneflush_mvbt_finish(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
    oneflush_mvbt_txn_close(txn);
    // To close the handle takes it back too.
    txn = begin(db);
    OK(oneflush_mvbt_insert_integer(txn, tree, 5003, NULL, 0, NULL));
    OK(oneflush_mvbt_prepare(txn));
    oneflush_mvbt_txn_close(txn);
    CHECK(cells_of(db, tree) == cells + 1);
    // One that has changed nothing.
    txn = begin(db);
    OK(oneflush_mvbt_prepare(txn));
    OK(oneflush_mvbt_finish(txn, NULL));
    oneflush_mvbt_txn_close(txn);

    // One that goes on as a reader of what it has made.
    txn = begin(db);
    CHECK(oneflush_mvbt_finish_and_read(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_insert_integer(txn, tree, 5004, NULL, 0, NULL));
    OK(oneflush_mvbt_prepare(txn));
    OK(oneflush_mvbt_finish_and_read(txn, &finished));
    OK(oneflush_mvbt_txn_version(txn, &version));
    CHECK(finished == version);
    second = begin(db);
    OK(oneflush_mvbt_delete_integer(second, tree, 5004, NULL));
    OK(oneflush_mvbt_commit(second, NULL));
    oneflush_mvbt_txn_close(second);
    OK(oneflush_mvbt_tree_count(txn, tree, &number));
    CHECK(number == cells + 2 && cells_of(db, tree) == cells + 1);
    CHECK(oneflush_mvbt_insert_integer(txn, tree, 1, NULL, 0, NULL) == ONEFLUSH_MVBT_MISUSE);
    oneflush_mvbt_txn_close(txn);

    OK(oneflush_mvbt_begin_read(db, &txn));
    CHECK(oneflush_mvbt_prepare(txn) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_finish(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_commit(txn, NULL));
    oneflush_mvbt_txn_close(txn);
}

// A process that ends between the two steps leaves the transaction.
static void killed_between_the_steps(const char *path)
{
    oneflush_mvbt_db *db;
    int status;
    pid_t child = fork();
    if (child == 0) {
        oneflush_mvbt_txn *txn;
        uint32_t tree;
        OK(oneflush_mvbt_create(path, NULL, &db));
        txn = begin(db);
        OK(oneflush_mvbt_tree_create(txn, false, &tree));
        OK(oneflush_mvbt_insert_integer(txn, tree, 7, NULL, 0, NULL));
        OK(oneflush_mvbt_prepare(txn));
        _exit((int)tree);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    OK(oneflush_mvbt_open(path, NULL, &db));
    CHECK(cells_of(db, (uint32_t)WEXITSTATUS(status)) == 1);
    OK(oneflush_mvbt_close(db));
}

// A child of a fork opens the database itself, and leaves alone what its parent has open.
static void forked(oneflush_mvbt_db *db, const char *path, uint32_t tree)
{
    oneflush_mvbt_txn *txn = begin(db), *other;
    uint64_t before = cells_of(db, tree);
    bool inherited = true;
    int status;
    pid_t child;
    OK(oneflush_mvbt_insert_integer(txn, tree, 70001, NULL, 0, NULL));
    OK(oneflush_mvbt_is_inherited(db, &inherited));
    CHECK(!inherited);
    child = fork();
    if (child == 0) {
        oneflush_mvbt_db *anew;
        char moved[4096];
        OK(oneflush_mvbt_is_inherited(db, &inherited));
        CHECK(inherited);
        CHECK(oneflush_mvbt_begin_read(db, &other) == ONEFLUSH_MVBT_MISUSE);
        CHECK(strstr(oneflush_mvbt_db_error(db), "fork") != NULL);
        CHECK(oneflush_mvbt_commit(txn, NULL) == ONEFLUSH_MVBT_MISUSE);
        oneflush_mvbt_txn_close(txn);
        snprintf(moved, sizeof moved, "%s-other", path);
        CHECK(oneflush_mvbt_open_anew(db, moved, NULL, &anew) == ONEFLUSH_MVBT_IO);
        OK(oneflush_mvbt_create(moved, NULL, &anew));
        OK(oneflush_mvbt_close(anew));
        CHECK(oneflush_mvbt_open_anew(db, moved, NULL, &anew) == ONEFLUSH_MVBT_MISUSE);
        CHECK(strstr(oneflush_mvbt_open_error(), "another file") != NULL && anew == NULL);
        OK(oneflush_mvbt_open_anew(db, path, NULL, &anew));
        OK(oneflush_mvbt_close(db));
        CHECK(cells_of(anew, tree) == before);
        // The parent still writes.
        CHECK(oneflush_mvbt_begin_write(anew, 0, &other) == ONEFLUSH_MVBT_BUSY);
        OK(oneflush_mvbt_close(anew));
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    OK(oneflush_mvbt_commit(txn, NULL));
    oneflush_mvbt_txn_close(txn);
    CHECK(cells_of(db, tree) == before + 1);
}

static void guest(const char *folder)
{
    char log[4096], line[4096];
    FILE *file;
    snprintf(log, sizeof log, "%s/log", folder);
    setenv("ONEFLUSH_LOG", "stdrr", 1);
    CHECK(oneflush_mvbt_say_where() == ONEFLUSH_MVBT_MISUSE);
    CHECK(strstr(oneflush_mvbt_open_error(), "stdrr") != NULL);
    setenv("ONEFLUSH_LOG", log, 1);
    OK(oneflush_mvbt_say_where());
    oneflush_mvbt_say("one line");
    oneflush_mvbt_say("one line");
    oneflush_mvbt_say(NULL);
    file = fopen(log, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    CHECK(strstr(line, "]: one line\n") != NULL && fgets(line, sizeof line, file) == NULL);
    fclose(file);
    CHECK(oneflush_mvbt_check_ground(NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_check_ground("/dev/shm/a.mvbt"));
}

static void limits(oneflush_mvbt_db *db, uint32_t tree)
{
    static uint8_t large[200000];
    oneflush_mvbt_txn *txn;
    uint64_t before, set, pages;
    OK(oneflush_mvbt_pages_max(db, &before));
    CHECK(oneflush_mvbt_pages_max(db, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_set_pages_max(db, 0, &set));
    txn = begin(db);
    OK(oneflush_mvbt_page_count(txn, &pages));
    CHECK(set == pages);
    OK(oneflush_mvbt_pages_max(db, &pages));
    CHECK(set == pages);
    CHECK(oneflush_mvbt_insert_integer(txn, tree, 1, large, sizeof large, NULL) ==
          ONEFLUSH_MVBT_FULL);
    OK(oneflush_mvbt_rollback(txn));
    oneflush_mvbt_txn_close(txn);
    OK(oneflush_mvbt_set_pages_max(db, before, NULL));
    OK(oneflush_mvbt_pages_max(db, &pages));
    CHECK(pages == before);
}

static void copies(oneflush_mvbt_db *db, uint32_t tree, const char *folder)
{
    oneflush_mvbt_db *copy;
    oneflush_mvbt_txn *txn;
    oneflush_mvbt_backup *backup;
    uint64_t cells = cells_of(db, tree), all, left, before, version;
    uint32_t value;
    bool is_done = false;
    int steps = 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/copy.mvbt", folder);

    CHECK(oneflush_mvbt_backup_begin(db, NULL, &backup) == ONEFLUSH_MVBT_MISUSE && backup == NULL);
    CHECK(oneflush_mvbt_backup_begin(db, path, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_backup_begin(db, path, &backup));
    OK(oneflush_mvbt_backup_page_count(backup, &all));
    OK(oneflush_mvbt_backup_remaining(backup, &left));
    CHECK(all > 10 && left == all);
    CHECK(oneflush_mvbt_backup_remaining(backup, NULL) == ONEFLUSH_MVBT_MISUSE);
    CHECK(*oneflush_mvbt_backup_error(backup) != 0);
    // Writers go on, and the copy does not have what they write.
    txn = begin(db);
    OK(oneflush_mvbt_insert_integer(txn, tree, 6001, NULL, 0, NULL));
    OK(oneflush_mvbt_commit(txn, NULL));
    oneflush_mvbt_txn_close(txn);
    for (; !is_done; steps++) {
        CHECK(access(path, F_OK) != 0);
        before = left;
        OK(oneflush_mvbt_backup_step(backup, 1, &is_done));
        OK(oneflush_mvbt_backup_remaining(backup, &left));
        CHECK(left <= before && (left == 0) == is_done);
    }
    CHECK(steps > 5);
    OK(oneflush_mvbt_backup_step(backup, 1, NULL));
    oneflush_mvbt_backup_close(backup);
    CHECK(oneflush_mvbt_backup_begin(db, path, &backup) == ONEFLUSH_MVBT_IO && backup == NULL);
    CHECK(strstr(oneflush_mvbt_db_error(db), path) != NULL);
    OK(oneflush_mvbt_open(path, NULL, &copy));
    CHECK(cells_of(copy, tree) == cells && cells_of(db, tree) == cells + 1);
    OK(oneflush_mvbt_begin_read(copy, &txn));
    OK(oneflush_mvbt_meta_get(txn, 3, &value));
    CHECK(value == 12345);
    oneflush_mvbt_txn_close(txn);
    OK(oneflush_mvbt_close(copy));

    snprintf(path, sizeof path, "%s/abandoned.mvbt", folder);
    OK(oneflush_mvbt_backup_begin(db, path, &backup));
    OK(oneflush_mvbt_backup_step(backup, 1, &is_done));
    CHECK(!is_done);
    oneflush_mvbt_backup_close(backup);
    CHECK(access(path, F_OK) != 0);

    OK(oneflush_mvbt_vacuum_into(db, path));
    CHECK(oneflush_mvbt_vacuum_into(db, path) == ONEFLUSH_MVBT_IO);
    CHECK(oneflush_mvbt_vacuum_into(db, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_open(path, NULL, &copy));
    CHECK(cells_of(copy, tree) == cells + 1);
    OK(oneflush_mvbt_data_version(copy, &version));
    OK(oneflush_mvbt_shrink(copy, &version, true, &left, &all));
    CHECK(left > all);
    version--;
    CHECK(oneflush_mvbt_shrink(copy, &version, false, NULL, NULL) == ONEFLUSH_MVBT_BUSY);
    CHECK(cells_of(copy, tree) == cells + 1);
    OK(oneflush_mvbt_close(copy));
}

static void older_versions(const char *path)
{
    oneflush_mvbt_db *db;
    oneflush_mvbt_txn *txn;
    oneflush_mvbt_history history;
    oneflush_mvbt_statistics stats;
    oneflush_mvbt_mark marks[8];
    uint64_t versions[5], from, cells, version;
    uint32_t tree;

    OK(oneflush_mvbt_create(path, NULL, &db));
    OK(oneflush_mvbt_history_list(db, NULL, 0, &history));
    CHECK(history.retain == ONEFLUSH_MVBT_RETAIN_OFF && history.marks == 0);
    CHECK(history.from == history.to);
    CHECK(oneflush_mvbt_prune(db, 1, &from) == ONEFLUSH_MVBT_SNAPSHOT_GONE);
    CHECK(oneflush_mvbt_begin_read_at_time(db, 1, &txn) == ONEFLUSH_MVBT_SNAPSHOT_GONE);
    CHECK(txn == NULL && strstr(oneflush_mvbt_db_error(db), "history") != NULL);
    txn = begin(db);
    OK(oneflush_mvbt_tree_create(txn, false, &tree));
    CHECK(oneflush_mvbt_set_retain(txn, 3, 1) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_set_retain(txn, ONEFLUSH_MVBT_RETAIN_VERSIONS, 0) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_set_retain(txn, ONEFLUSH_MVBT_RETAIN_MS, 60000));
    OK(oneflush_mvbt_commit(txn, NULL));
    oneflush_mvbt_txn_close(txn);
    OK(oneflush_mvbt_history_list(db, NULL, 0, &history));
    CHECK(history.retain == ONEFLUSH_MVBT_RETAIN_MS && history.retain_count == 60000);
    for (int n = 0; n < 5; n++) {
        txn = begin(db);
        OK(oneflush_mvbt_set_retain(txn, ONEFLUSH_MVBT_RETAIN_VERSIONS, 100));
        OK(oneflush_mvbt_insert_integer(txn, tree, n, NULL, 0, NULL));
        OK(oneflush_mvbt_commit(txn, &versions[n]));
        oneflush_mvbt_txn_close(txn);
    }
    for (int n = 0; n < 5; n++) {
        OK(oneflush_mvbt_begin_read_at(db, versions[n], &txn));
        OK(oneflush_mvbt_tree_count(txn, tree, &cells));
        OK(oneflush_mvbt_txn_version(txn, &version));
        CHECK(cells == (uint64_t)n + 1 && version == versions[n]);
        CHECK(oneflush_mvbt_tree_drop(txn, tree) == ONEFLUSH_MVBT_MISUSE);
        oneflush_mvbt_txn_close(txn);
    }
    CHECK(oneflush_mvbt_begin_read_at(db, versions[4] + 1, &txn) == ONEFLUSH_MVBT_SNAPSHOT_GONE);
    CHECK(oneflush_mvbt_begin_read_at(db, UINT64_MAX, &txn) == ONEFLUSH_MVBT_SNAPSHOT_GONE);
    CHECK(oneflush_mvbt_begin_read_at(db, versions[4], NULL) == ONEFLUSH_MVBT_MISUSE);

    CHECK(oneflush_mvbt_history_list(db, NULL, 8, &history) == ONEFLUSH_MVBT_MISUSE);
    CHECK(oneflush_mvbt_history_list(db, marks, 8, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_history_list(db, marks, 8, &history));
    CHECK(history.retain == ONEFLUSH_MVBT_RETAIN_VERSIONS && history.retain_count == 100);
    CHECK(history.from <= versions[0] && history.to == versions[4]);
    CHECK(history.marks >= 1 && history.marks <= 8);
    CHECK(marks[0].version <= versions[0] && marks[0].number >= 1);
    CHECK(marks[0].time_ms > UINT64_C(1700000000000));
    // A mark is a second at least: none of this time, and all by the end of time.
    CHECK(oneflush_mvbt_begin_read_at_time(db, 1, &txn) == ONEFLUSH_MVBT_SNAPSHOT_GONE);
    for (int n = 0; n < 2; n++) {
        uint64_t time_ms = n == 0 ? marks[0].time_ms + 86400000 : UINT64_MAX;
        OK(oneflush_mvbt_begin_read_at_time(db, time_ms, &txn));
        OK(oneflush_mvbt_tree_count(txn, tree, &cells));
        CHECK(cells == 5);
        oneflush_mvbt_txn_close(txn);
    }

    OK(oneflush_mvbt_stats(db, &stats));
    CHECK(stats.commits == 6 && stats.pages > 2 && stats.free_pages <= stats.pages);
    CHECK(stats.from == history.from && stats.to == history.to && stats.flushes >= 6);
    CHECK(oneflush_mvbt_stats(db, NULL) == ONEFLUSH_MVBT_MISUSE);
    OK(oneflush_mvbt_set_cache_bytes(db, 1 << 20));

    OK(oneflush_mvbt_prune(db, versions[3], &from));
    CHECK(from == versions[3]);
    CHECK(oneflush_mvbt_begin_read_at(db, versions[2], &txn) == ONEFLUSH_MVBT_SNAPSHOT_GONE);
    OK(oneflush_mvbt_begin_read_at(db, versions[3], &txn));
    oneflush_mvbt_txn_close(txn);
    OK(oneflush_mvbt_prune(db, 0, NULL));
    OK(oneflush_mvbt_close(db));
}

// A reader that holds too much keeps transactions from beginning.
static void stale_readers(const char *path)
{
    oneflush_mvbt_db *db;
    oneflush_mvbt_txn *txn, *reader;
    oneflush_mvbt_options options;
    oneflush_mvbt_code code = ONEFLUSH_MVBT_OK;
    uint32_t tree;
    static uint8_t large[200000];

    OK(oneflush_mvbt_options_default(&options));
    CHECK(options.reader_limit_pages > 1000);
    options.reader_limit_pages = 10;
    OK(oneflush_mvbt_create(path, &options, &db));
    txn = begin(db);
    OK(oneflush_mvbt_tree_create(txn, false, &tree));
    OK(oneflush_mvbt_insert_integer(txn, tree, 1, large, sizeof large, NULL));
    OK(oneflush_mvbt_commit(txn, NULL));
    oneflush_mvbt_txn_close(txn);
    OK(oneflush_mvbt_begin_read(db, &reader));
    for (int n = 0; n < 4 && code == ONEFLUSH_MVBT_OK; n++) {
        code = oneflush_mvbt_begin_write(db, -1, &txn);
        if (code == ONEFLUSH_MVBT_OK) {
            OK(oneflush_mvbt_insert_integer(txn, tree, 1, large, sizeof large, NULL));
            OK(oneflush_mvbt_commit(txn, NULL));
            oneflush_mvbt_txn_close(txn);
        }
    }
    CHECK(code == ONEFLUSH_MVBT_BUSY);
    CHECK(strstr(oneflush_mvbt_db_error(db), "reader_limit_pages") != NULL);
    oneflush_mvbt_txn_close(reader);
    oneflush_mvbt_txn_close(begin(db));
    OK(oneflush_mvbt_close(db));
}

static void reopened(const char *path, uint32_t tree)
{
    oneflush_mvbt_db *db;
    oneflush_mvbt_txn *txn;
    oneflush_mvbt_report report;
    oneflush_mvbt_options options;
    uint32_t page_bytes;
    int told = 0;
    bool is_there;

    CHECK(oneflush_mvbt_create(path, NULL, &db) == ONEFLUSH_MVBT_IO && db == NULL);
    bool made = true;
    OK(oneflush_mvbt_make(path, NULL, 0644, &made));
    CHECK(!made);
    OK(oneflush_mvbt_options_default(&options));
    options.read_only = true;
    OK(oneflush_mvbt_open(path, &options, &db));
    CHECK(oneflush_mvbt_begin_write(db, 0, &txn) == ONEFLUSH_MVBT_READ_ONLY);
    oneflush_mvbt_close(db);
    OK(oneflush_mvbt_open(path, NULL, &db));
    OK(oneflush_mvbt_page_bytes(db, &page_bytes));
    CHECK(page_bytes == 1024);
    OK(oneflush_mvbt_check(db, -1, &report, count_faults, &told));
    CHECK(report.faults == 0 && told == 0 && report.cells >= 154);
    OK(oneflush_mvbt_check(db, -1, &report, NULL, NULL));
    // What is not committed goes with its handle, also behind the database's.
    OK(oneflush_mvbt_begin_write(db, 0, &txn));
    OK(oneflush_mvbt_delete_integer(txn, tree, 7, &is_there));
    CHECK(is_there);
    CHECK(oneflush_mvbt_close(db) == ONEFLUSH_MVBT_BUSY);
    CHECK(*oneflush_mvbt_open_error() != 0);
    oneflush_mvbt_txn_close(txn);
    OK(oneflush_mvbt_open(path, NULL, &db));
    OK(oneflush_mvbt_begin_write(db, 0, &txn));
    OK(oneflush_mvbt_delete_integer(txn, tree, 7, &is_there));
    CHECK(is_there);
    oneflush_mvbt_txn_close(txn);
    OK(oneflush_mvbt_close(db));
}

int main(int count, char **arguments)
{
    char path[4096];
    oneflush_mvbt_options options;
    oneflush_mvbt_db *db;
    uint32_t tree;
    if (count != 2)
        return 2;
    snprintf(path, sizeof path, "%s/all.mvbt", arguments[1]);
    without_a_database(path);
    OK(oneflush_mvbt_options_default(&options));
    options.page_bytes = 1000;
    CHECK(oneflush_mvbt_create(path, &options, &db) == ONEFLUSH_MVBT_MISUSE);
    options.page_bytes = 1024;
    OK(oneflush_mvbt_create(path, &options, &db));
    integers(db, &tree);
    records(db);
    threads(db, tree);
    at_a_cursor(db);
    cells_ahead(db);
    in_your_order(db);
    in_two_steps(db, tree);
    limits(db, tree);
    copies(db, tree, arguments[1]);
    OK(oneflush_mvbt_close(db));
    reopened(path, tree);
    OK(oneflush_mvbt_open(path, NULL, &db));
    forked(db, path, tree);
    OK(oneflush_mvbt_close(db));
    guest(arguments[1]);
    snprintf(path, sizeof path, "%s/killed.mvbt", arguments[1]);
    killed_between_the_steps(path);
    snprintf(path, sizeof path, "%s/history.mvbt", arguments[1]);
    older_versions(path);
    snprintf(path, sizeof path, "%s/stale.mvbt", arguments[1]);
    stale_readers(path);
    printf("%d checks\n", checks);
    return 0;
}
