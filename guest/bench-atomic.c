/* bench-atomic DISK DATABASE JOURNAL WORKLOAD N: N transactions, and what they cost at the disk, as one line of JSON.
 *
 * WORKLOAD: insert (a row of 100 B), update (a random row of 10,000), five (five rows). The close is inside, with the
 * last checkpoint, and so is all that the kernel writes back. Nothing else may use DISK (as in /sys/block). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sqlite3.h"

#define ROWS 10000

static const char *disk;
static sqlite3 *db;

struct counts {
    unsigned long long bytes, flushes;
};

static void fail(const char *what, const char *why) {
    fprintf(stderr, "bench-atomic: %s: %s\n", what, why);
    exit(1);
}

static void sync_all(const char *database) {
    int fd = open(database, O_RDONLY);
    if (fd < 0 || syncfs(fd) != 0) fail(database, "cannot be synced");
    close(fd);
}

/* Linux Documentation/block/stat.rst: sectors written are the 7th number, flushes the 16th. */
static struct counts count(void) {
    char path[256];
    unsigned long long field[17];
    snprintf(path, sizeof path, "/sys/block/%s/stat", disk);
    FILE *file = fopen(path, "r");
    if (!file) fail(path, "cannot be read");
    for (int i = 0; i < 17; i++)
        if (fscanf(file, "%llu", &field[i]) != 1) fail(path, "17 numbers are expected");
    fclose(file);
    return (struct counts){field[6] * 512, field[15]};
}

static void run(const char *sql) {
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) fail(sql, message);
}

int main(int argc, char **argv) {
    if (argc != 6) fail("usage", "bench-atomic DISK DATABASE JOURNAL WORKLOAD N");
    disk = argv[1];
    const char *database = argv[2], *journal = argv[3], *workload = argv[4];
    int transactions = atoi(argv[5]), is_update = !strcmp(workload, "update"), rows = strcmp(workload, "five") ? 1 : 5;
    char sql[300];

    if (sqlite3_open(database, &db) != SQLITE_OK) fail(database, sqlite3_errmsg(db));
    snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s; PRAGMA synchronous=FULL", journal);
    run(sql);
    run("CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)");
    if (is_update) {
        snprintf(sql, sizeof sql,
                 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d)"
                 " INSERT INTO t(v) SELECT hex(randomblob(50)) FROM n; PRAGMA wal_checkpoint(TRUNCATE)",
                 ROWS);
        run(sql);
    }
    sync_all(database);
    struct counts before = count();
    srandom(1);
    for (int at = 0; at < transactions; at++) {
        run("BEGIN IMMEDIATE");
        for (int row = 0; row < rows; row++) {
            if (is_update)
                snprintf(sql, sizeof sql, "UPDATE t SET v=hex(randomblob(50)) WHERE id=%ld", random() % ROWS + 1);
            else
                snprintf(sql, sizeof sql, "INSERT INTO t(v) VALUES(hex(randomblob(50)))");
            run(sql);
        }
        run("COMMIT");
    }
    if (sqlite3_close(db) != SQLITE_OK) fail(database, "cannot be closed");
    sync_all(database);
    struct counts after = count();
    printf("{\"batch_atomic\": %d, \"journal\": \"%s\", \"workload\": \"%s\", \"transactions\": %d,"
           " \"bytes\": %llu, \"flushes\": %llu}\n",
           sqlite3_compileoption_used("ENABLE_BATCH_ATOMIC_WRITE"), journal, workload, transactions,
           after.bytes - before.bytes, after.flushes - before.flushes);
    return 0;
}
