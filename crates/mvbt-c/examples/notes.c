// Notes that survive a loss of power: notes FILE [TEXT]. Adds a note, or lists all.

#include "oneflush_mvbt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *path, const char *message)
{
    fprintf(stderr, "notes: %s: %s\n", path, message);
    return 1;
}

// A new file gets one tree, of integer keys. Its number is the same in each file.
static oneflush_mvbt_code open_notes(const char *path, oneflush_mvbt_db **db)
{
    if (access(path, F_OK) == 0)
        return oneflush_mvbt_open(path, NULL, db);
    oneflush_mvbt_code code = oneflush_mvbt_create(path, NULL, db);
    if (code != ONEFLUSH_MVBT_OK)
        return code;
    oneflush_mvbt_txn *txn;
    uint32_t tree;
    code = oneflush_mvbt_begin_write(*db, -1, &txn);
    if (code == ONEFLUSH_MVBT_OK)
        code = oneflush_mvbt_tree_create(txn, false, &tree);
    if (code == ONEFLUSH_MVBT_OK)
        code = oneflush_mvbt_commit(txn, NULL);
    oneflush_mvbt_txn_close(txn);
    return code;
}

// A note's key is one above the last one.
static oneflush_mvbt_code add(oneflush_mvbt_txn *txn, uint32_t tree, const char *text)
{
    oneflush_mvbt_cursor *cursor;
    bool has_one = false;
    int64_t key = 0;
    oneflush_mvbt_code code = oneflush_mvbt_cursor_open(txn, tree, &cursor);
    if (code == ONEFLUSH_MVBT_OK)
        code = oneflush_mvbt_cursor_last(cursor, &has_one);
    if (code == ONEFLUSH_MVBT_OK && has_one)
        code = oneflush_mvbt_cursor_key(cursor, &key);
    oneflush_mvbt_cursor_close(cursor);
    if (code == ONEFLUSH_MVBT_OK)
        code = oneflush_mvbt_insert_integer(txn, tree, key + 1, (const uint8_t *)text, strlen(text),
                                            NULL);
    // Durable when this returns.
    return code == ONEFLUSH_MVBT_OK ? oneflush_mvbt_commit(txn, NULL) : code;
}

static oneflush_mvbt_code list(oneflush_mvbt_txn *txn, uint32_t tree)
{
    oneflush_mvbt_cursor *cursor;
    bool is_on_cell = false;
    oneflush_mvbt_code code = oneflush_mvbt_cursor_open(txn, tree, &cursor);
    if (code == ONEFLUSH_MVBT_OK)
        code = oneflush_mvbt_cursor_first(cursor, &is_on_cell);
    while (code == ONEFLUSH_MVBT_OK && is_on_cell) {
        int64_t key;
        uint64_t length;
        char text[256];
        code = oneflush_mvbt_cursor_key(cursor, &key);
        if (code == ONEFLUSH_MVBT_OK)
            code = oneflush_mvbt_cursor_payload_length(cursor, &length);
        if (code != ONEFLUSH_MVBT_OK)
            break;
        size_t shown = length < sizeof text ? (size_t)length : sizeof text;
        code = oneflush_mvbt_cursor_payload(cursor, 0, (uint8_t *)text, shown);
        if (code != ONEFLUSH_MVBT_OK)
            break;
        printf("%" PRId64 " %.*s\n", key, (int)shown, text);
        code = oneflush_mvbt_cursor_next(cursor, &is_on_cell);
    }
    oneflush_mvbt_cursor_close(cursor);
    return code;
}

int main(int count, char **arguments)
{
    if (count < 2 || count > 3) {
        fprintf(stderr, "usage: notes FILE [TEXT]\n");
        return 2;
    }
    const char *path = arguments[1];
    oneflush_mvbt_db *db;
    oneflush_mvbt_txn *txn;
    uint32_t tree;
    size_t trees;
    if (open_notes(path, &db) != ONEFLUSH_MVBT_OK)
        return failed(path, db == NULL ? oneflush_mvbt_open_error() : oneflush_mvbt_db_error(db));
    oneflush_mvbt_code code = count == 3 ? oneflush_mvbt_begin_write(db, -1, &txn)
                                         : oneflush_mvbt_begin_read(db, &txn);
    if (code != ONEFLUSH_MVBT_OK)
        return failed(path, oneflush_mvbt_db_error(db));
    code = oneflush_mvbt_tree_list(txn, &tree, 1, &trees);
    if (code == ONEFLUSH_MVBT_OK && trees == 0)
        return failed(path, "it has no notes");
    if (code == ONEFLUSH_MVBT_OK)
        code = count == 3 ? add(txn, tree, arguments[2]) : list(txn, tree);
    if (code != ONEFLUSH_MVBT_OK)
        return failed(path, oneflush_mvbt_code_name((uint32_t)code));
    oneflush_mvbt_txn_close(txn);
    if (oneflush_mvbt_close(db) != ONEFLUSH_MVBT_OK)
        return failed(path, oneflush_mvbt_open_error());
    return 0;
}
