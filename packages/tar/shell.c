/* A small shell of SQLite, for the check of the musl archive: Debian has no SQLite for musl.
**
**   shell DATABASE < SQL
**
** SQL from standard input, `.open NAME`, rows with `|` between columns, each line out at once. An
** error is said and the next statement is run, and the exit code is 1, as of the sqlite3 shell.
*/
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed = 0;

static void say(sqlite3 *db) {
    fprintf(stderr, "Runtime error: %s\n", sqlite3_errmsg(db));
    failed = 1;
}

static sqlite3 *open_database(const char *name) {
    sqlite3 *db;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    if (sqlite3_open_v2(name, &db, flags, NULL) != SQLITE_OK) {
        say(db);
        exit(1);
    }
    sqlite3_enable_load_extension(db, 1);
    return db;
}

static int row(void *unused, int count, char **values, char **names) {
    (void)unused;
    (void)names;
    for (int n = 0; n < count; n++) printf("%s%s", n ? "|" : "", values[n] ? values[n] : "");
    putchar('\n');
    return 0;
}

int main(int argc, char **argv) {
    static char sql[1 << 20];
    char line[1 << 16];
    setvbuf(stdout, NULL, _IOLBF, 0);
    sqlite3 *db = open_database(argc > 1 ? argv[1] : ":memory:");
    while (fgets(line, sizeof line, stdin)) {
        if (sql[0] == '\0' && strncmp(line, ".open ", 6) == 0) {
            line[strcspn(line, "\n")] = '\0';
            sqlite3_close(db);
            db = open_database(line + 6);
            continue;
        }
        if (strlen(sql) + strlen(line) >= sizeof sql) return fputs("too long\n", stderr), 1;
        strcat(sql, line);
        if (!sqlite3_complete(sql)) continue;
        if (sqlite3_exec(db, sql, row, NULL, NULL) != SQLITE_OK) say(db);
        sql[0] = '\0';
    }
    sqlite3_close(db);
    return failed;
}
