// Commits until code of the library panics, and tries on: panics.c FILE. `ONEFLUSH_PANIC_AT` says
// where. It says which rows are durable, waits for the end of its input, and closes.

#include "oneflush_mvbt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREE = 2, TRIES = 40 };

static void fail(const char *what, const char *message)
{
    fprintf(stderr, "%s: %s\n", what, message);
    exit(1);
}

// A fault of the library is met once.
static oneflush_mvbt_db *opened(const char *path, bool *has_met)
{
    oneflush_mvbt_db *db;
    oneflush_mvbt_options options;
    oneflush_mvbt_options_default(&options);
    // So some pages are written early.
    options.spill_bytes = 2048;
    oneflush_mvbt_code code = oneflush_mvbt_open(path, &options, &db);
    if (code == ONEFLUSH_MVBT_INTERNAL && !*has_met) {
        *has_met = true;
        code = oneflush_mvbt_open(path, &options, &db);
    }
    if (code != ONEFLUSH_MVBT_OK)
        fail("open", oneflush_mvbt_open_error());
    return db;
}

static oneflush_mvbt_code add(const oneflush_mvbt_db *db, int64_t key)
{
    static const uint8_t payload[3000];
    oneflush_mvbt_txn *txn;
    oneflush_mvbt_code code = oneflush_mvbt_begin_write(db, -1, &txn);
    if (code == ONEFLUSH_MVBT_OK)
        code = oneflush_mvbt_insert_integer(txn, TREE, key, payload, sizeof payload, NULL);
    if (code == ONEFLUSH_MVBT_OK)
        code = oneflush_mvbt_commit(txn, NULL);
    // A transaction that has failed is not committed later.
    if (code != ONEFLUSH_MVBT_OK && txn != NULL
        && oneflush_mvbt_commit(txn, NULL) == ONEFLUSH_MVBT_OK)
        fail("commit", "a transaction that has failed is committed");
    oneflush_mvbt_txn_close(txn);
    return code;
}

int main(int count, char **arguments)
{
    if (count != 2)
        fail("usage", "panics FILE");
    bool has_met = false, has_met_writing = false;
    oneflush_mvbt_db *db = opened(arguments[1], &has_met);
    // It shares what the first has open.
    oneflush_mvbt_db *other = opened(arguments[1], &has_met);
    for (int64_t key = 1; key <= TRIES; key++) {
        oneflush_mvbt_code code = add(key % 4 == 3 ? other : db, key);
        if (code == ONEFLUSH_MVBT_OK && has_met_writing)
            fail("commit", "it goes on after a panic");
        if (code == ONEFLUSH_MVBT_OK)
            printf("durable %d\n", (int)key);
        has_met_writing = has_met_writing || code == ONEFLUSH_MVBT_INTERNAL;
        if (code != ONEFLUSH_MVBT_OK && !has_met_writing)
            fail("commit", oneflush_mvbt_code_name((uint32_t)code));
    }
    puts(has_met || has_met_writing ? "met" : "not met");
    fflush(stdout);
    getchar();
    // A panic may be in the closing, and is an answer there, too.
    oneflush_mvbt_close(other);
    oneflush_mvbt_close(db);
    puts("closed");
    return 0;
}
