/* A program that links SQLite and Oneflush into itself: app DB STRATEGY COUNT [FORM].
**
** Commits COUNT rows in WAL mode, one a transaction, and says each acknowledged one. FORM is how
** the VFS is registered: `register` (default), `default` or `auto_extension`. COUNT 0 reads.
*/
#include "oneflush.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(sqlite3 *db, const char *what) {
    fprintf(stderr, "app: %s: %s\n", what, db ? sqlite3_errmsg(db) : "no connection");
    return 1;
}

static int print(void *label, int columns, char **values, char **names) {
    (void)columns, (void)names;
    printf("%s %s\n", (const char *)label, values[0] ? values[0] : "NULL");
    return 0;
}

static void on_log(void *unused, int code, const char *message) {
    (void)unused;
    fprintf(stderr, "log %d: %s\n", code, message);
}

static int register_by(const char *form) {
    sqlite3 *memory;
    int code;
    if (strcmp(form, "register") == 0) return oneflush_register();
    if (strcmp(form, "default") == 0) return oneflush_register_default();
    sqlite3_auto_extension((void (*)(void))sqlite3_oneflush_init);
    code = sqlite3_open(":memory:", &memory);
    sqlite3_close(memory);
    return code;
}

int main(int count, char **arguments) {
    if (count < 4) return fprintf(stderr, "usage: app DB STRATEGY COUNT [FORM]\n"), 2;
    const char *form = count > 4 ? arguments[4] : "register";
    int rows = atoi(arguments[3]);
    char *name = strcmp(form, "default") == 0
        ? sqlite3_mprintf("file:%s?strategy=%s", arguments[1], arguments[2])
        : sqlite3_mprintf("file:%s?vfs=oneflush&strategy=%s", arguments[1], arguments[2]);
    sqlite3 *db = NULL;

    sqlite3_config(SQLITE_CONFIG_LOG, on_log, NULL);
    if (register_by(form) != SQLITE_OK) return fprintf(stderr, "app: not registered\n"), 1;
    printf("oneflush %s\n", oneflush_version());
    if (sqlite3_open_v2(name, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, NULL) != SQLITE_OK)
        return fail(db, "open");
    sqlite3_free(name);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY)", NULL, NULL, NULL) != SQLITE_OK)
        return fail(db, "schema");
    sqlite3_exec(db, "PRAGMA oneflush_strategy", print, "strategy", NULL);
    for (int n = 0; n < rows; n++) {
        if (sqlite3_exec(db, "INSERT INTO t DEFAULT VALUES", NULL, NULL, NULL) != SQLITE_OK) return fail(db, "insert");
        printf("committed %lld\n", (long long)sqlite3_last_insert_rowid(db));
        fflush(stdout);
    }
    sqlite3_exec(db, "SELECT count(*) FROM t", print, "rows", NULL);
    sqlite3_exec(db, "PRAGMA integrity_check", print, "integrity", NULL);
    return sqlite3_close(db) == SQLITE_OK ? 0 : 1;
}
