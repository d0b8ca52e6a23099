// exercise make FOLDER       makes databases of LS-MVBT, of several kinds.
// exercise use FILE…         uses each as a program would, in a process of its own. It may be
//                            damaged: then SQLite says so. Names those on which the process dies,
//                            hangs, leaks memory, or has an answer that accuses the library.
// exercise starve FILE…      the same with copies of sound ones. In each turn one allocation of
//                            SQLite fails, or all from one on. The copy is sound afterwards.
// exercise fail FILE…        the same. In each turn all reads, or all writes, fail from one
//                            statement on.

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
typedef struct sqlite3_blob sqlite3_blob;
int sqlite3_config(int, ...);
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close(sqlite3 *);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_finalize(sqlite3_stmt *);
int sqlite3_column_count(sqlite3_stmt *);
const void *sqlite3_column_blob(sqlite3_stmt *, int);
const char *sqlite3_errmsg(sqlite3 *);
int sqlite3_blob_open(sqlite3 *, const char *, const char *, const char *, long long, int,
                      sqlite3_blob **);
int sqlite3_blob_bytes(sqlite3_blob *);
int sqlite3_blob_read(sqlite3_blob *, void *, int, int);
int sqlite3_blob_write(sqlite3_blob *, const void *, int, int);
int sqlite3_blob_close(sqlite3_blob *);
int sqlite3_exec(sqlite3 *, const char *, int (*)(void *, int, char **, char **), void *, char **);
void sqlite3_free(void *);

typedef struct {
    void *(*allocate)(int);
    void (*release)(void *);
    void *(*resize)(void *, int);
    int (*size)(void *);
    int (*round_up)(int);
    int (*begin)(void *);
    void (*end)(void *);
    void *context;
} methods;

enum { OK = 0, INTERNAL = 2, NOMEM = 7, MISUSE = 21, ROW = 100 };
enum { SET_MALLOC = 4, GET_MALLOC = 5, CREATE = 6, URI = 0x40 };
enum { SECONDS_MAX = 30, ROWS_MAX = 200000 };

// What every database has.
static const char *const SCHEMA =
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c TEXT);"
    "CREATE INDEX tb ON t(b);"
    "CREATE INDEX tc ON t(c DESC, a);"
    "CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;"
    "CREATE TABLE s(id INTEGER PRIMARY KEY AUTOINCREMENT, x UNIQUE);"
    "CREATE VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b;"
    "CREATE TRIGGER tr AFTER DELETE ON s BEGIN DELETE FROM t WHERE a = old.id; END;";
static const char *const ROWS =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d)"
    " INSERT INTO t SELECT i, i %% 17, substr(hex(i*7919), 1, 3) || printf('%%.*c', i %% 40, 'x')"
    " FROM n;"
    "INSERT INTO w SELECT 'key' || (a*37 %% 1000003), zeroblob(a %% 90) FROM t;"
    "INSERT INTO s(x) SELECT c || a FROM t WHERE a %% 5 = 0;"
    "INSERT INTO t VALUES(100000, 1, printf('%%.*c', %d, 'long'));"
    "INSERT INTO w VALUES(printf('%%.*c', %d, 'k'), 1);"
    "DELETE FROM t WHERE a %% 11 = 3;"
    "UPDATE t SET c = c || 'y' WHERE a %% 7 = 1;";

static const char *const USES[] = {
    "PRAGMA oneflush_stats",
    "PRAGMA oneflush_history",
    "SELECT count(*), sum(rootpage), max(length(sql)) FROM sqlite_schema",
    "PRAGMA integrity_check",
    "SELECT count(*), sum(a), sum(length(b)), max(c) FROM t",
    "SELECT * FROM t ORDER BY a DESC",
    "SELECT a, b FROM t WHERE b = 5",
    "SELECT b FROM t INDEXED BY tb WHERE b > 3 ORDER BY b DESC",
    "SELECT c, a FROM t INDEXED BY tc WHERE c > 'C' LIMIT 500",
    "SELECT t.c, w.v FROM t JOIN w ON w.k = 'key' || (t.a * 37 % 1000003) WHERE t.a < 300",
    "SELECT k, length(v) FROM w WHERE k BETWEEN 'key1' AND 'key5' ORDER BY k DESC",
    "SELECT * FROM v",
    "PRAGMA oneflush_snapshot='2037-01-01'",
    "SELECT count(*), max(c) FROM t",
    "PRAGMA oneflush_snapshot=3",
    "SELECT count(*), max(c) FROM t",
    "PRAGMA oneflush_snapshot=latest",
    "INSERT INTO t VALUES(NULL, 5, 'new')",
    "BEGIN",
    "INSERT INTO t SELECT a + 200000, b, c FROM t LIMIT 300",
    "SAVEPOINT one",
    "DELETE FROM t WHERE b = 2",
    "ROLLBACK TO one",
    "UPDATE t SET b = b + 1 WHERE a % 3 = 0",
    "COMMIT",
    "ROLLBACK",
    "INSERT OR REPLACE INTO w SELECT 'key' || a, c FROM t LIMIT 200",
    "DELETE FROM w WHERE k < 'key3'",
    "DELETE FROM s WHERE id % 2",
    "INSERT INTO s(x) VALUES(randomblob(2000)), (randomblob(5000))",
    "DELETE FROM t WHERE a IN (SELECT a FROM t ORDER BY a DESC LIMIT 50)",
    "ALTER TABLE t ADD COLUMN d DEFAULT 3",
    "ALTER TABLE t RENAME COLUMN b TO bb",
    "CREATE INDEX tn ON t(length(c), a)",
    "REINDEX",
    "ANALYZE",
    "DROP INDEX tc",
    "CREATE TABLE n AS SELECT * FROM t",
    "DROP TABLE w",
    "PRAGMA integrity_check",
    "VACUUM",
    "PRAGMA integrity_check",
    "DELETE FROM t",
    "SELECT count(*) FROM n",
};

// In which statement the process is, for messages.
static const char *now = "open";

// What is done to the process.
static struct {
    long allocations, failing;  // Those made; the one that fails, or 0
    int is_for_ever;
    long statement;             // From this one on calls of the system fail, or -1
    int is_reading;
} hardship = {0, 0, 0, -1, 0};

static int accuses(int code)
{
    int primary = code & 0xff;
    return primary == INTERNAL || primary == MISUSE || (primary == NOMEM && !hardship.failing);
}

static methods real;

static int fails_now(void)
{
    long number = ++hardship.allocations;
    return hardship.failing
        && (number == hardship.failing || (hardship.is_for_ever && number > hardship.failing));
}

static void *allocate(int bytes)
{
    return fails_now() ? NULL : real.allocate(bytes);
}

static void *resize(void *memory, int bytes)
{
    return fails_now() ? NULL : real.resize(memory, bytes);
}

static void starve(void)
{
    methods ours;
    sqlite3_config(GET_MALLOC, &real);
    ours = real;
    ours.allocate = allocate;
    ours.resize = resize;
    sqlite3_config(SET_MALLOC, &ours);
}

// From now on the disk cannot be read, or not be written.
static void fail(void)
{
    static const unsigned reads[] = {SYS_pread64, SYS_preadv, SYS_preadv2, SYS_io_uring_enter};
    static const unsigned writes[] = {SYS_pwrite64, SYS_pwritev, SYS_pwritev2, SYS_fdatasync,
                                      SYS_fsync, SYS_fallocate, SYS_io_uring_enter};
    const unsigned *calls = hardship.is_reading ? reads : writes;
    unsigned count = hardship.is_reading ? sizeof reads / sizeof *reads
                                         : sizeof writes / sizeof *writes;
    struct sock_filter code[16] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)};
    struct sock_fprog program = {.len = count + 3, .filter = code};
    for (unsigned n = 0; n < count; n++)
        code[n + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[n],
                                                   count - n, 0);
    code[count + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[count + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        _exit(5);
    }
}

static int run(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    int code, rows = 0;
    now = sql;
    code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code == OK) {
        while ((code = sqlite3_step(statement)) == ROW && rows++ < ROWS_MAX)
            for (int column = 0; column < sqlite3_column_count(statement); column++)
                sqlite3_column_blob(statement, column);
        code = sqlite3_finalize(statement);
    }
    if (accuses(code)) {
        printf("%s: %d, %s\n", sql, code, sqlite3_errmsg(db));
        return 1;
    }
    return 0;
}

static int use_blob(sqlite3 *db)
{
    sqlite3_blob *blob = NULL;
    char part[64] = {0};
    int code, bad = 0;
    now = "blob";
    code = sqlite3_blob_open(db, "main", "t", "c", 100000, 1, &blob);
    if (code == OK) {
        int length = sqlite3_blob_bytes(blob);
        for (int at = 0; at + 64 <= length && at < 6400; at += 64)
            bad |= accuses(sqlite3_blob_read(blob, part, 64, at));
        bad |= accuses(sqlite3_blob_write(blob, part, length < 64 ? length : 64, 0));
    }
    sqlite3_blob_close(blob);
    return bad | accuses(code);
}

static void hangs(int signal)
{
    (void)signal;
    dprintf(1, "hangs in: %s\n", now);
    _exit(4);
}

static int use(const char *path)
{
    sqlite3 *db = NULL;
    int bad = 0;
    signal(SIGALRM, hangs);
    alarm(SECONDS_MAX);
    if (sqlite3_open_v2(path, &db, 2, NULL) == OK) {
        for (size_t n = 0; n < sizeof USES / sizeof *USES; n++) {
            if ((long)n == hardship.statement)
                fail();
            bad |= run(db, USES[n]);
            if (n == 16)
                bad |= use_blob(db);
        }
    }
    if (sqlite3_close(db) != OK) {
        printf("close: %s\n", sqlite3_errmsg(db));
        bad = 1;
    }
    fflush(stdout);
    return bad;
}

static int must(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) == OK)
        return 0;
    printf("%s: %s\n", sql, message);
    sqlite3_free(message);
    return 1;
}

static int make(const char *folder)
{
    static const struct {
        const char *name, *before;
        int rows, length;
    } kinds[] = {
        {"small", "PRAGMA page_size=512", 60, 700},
        {"low", "PRAGMA page_size=512", 500, 3000},
        {"middle", "PRAGMA page_size=1024; PRAGMA encoding='UTF-16le'", 400, 9000},
        {"usual", "", 400, 20000},
        {"history", "PRAGMA page_size=512; PRAGMA oneflush_retain='1000 versions'", 300, 2000},
        {"empty", "PRAGMA page_size=512", 0, 1},
    };
    char path[4096], rows[2048];
    int bad = 0;
    for (size_t n = 0; n < sizeof kinds / sizeof *kinds; n++) {
        sqlite3 *db = NULL;
        snprintf(path, sizeof path, "file:%s/%s?engine=lsmvbt", folder, kinds[n].name);
        bad |= sqlite3_open_v2(path, &db, CREATE | URI, NULL) != OK;
        bad |= must(db, kinds[n].before) | must(db, SCHEMA);
        snprintf(rows, sizeof rows, ROWS, kinds[n].rows ? kinds[n].rows : 1, kinds[n].length,
                 kinds[n].length);
        bad |= must(db, rows);
        if (kinds[n].rows == 0)
            bad |= must(db, "DELETE FROM t; DELETE FROM w; DELETE FROM s");
        bad |= sqlite3_close(db) != OK;
    }
    return bad;
}

// In a process of its own. Names what it does wrong.
static int apart(int (*work)(const char *), const char *path)
{
    int status = 0;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0)
        exit(work(path));
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(2);
    if (status != 0)
        printf("%s: %s %d\n", path, WIFSIGNALED(status) ? "signal" : "exit code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return status != 0;
}

static int show(void *context, int columns, char **values, char **names)
{
    (void)context;
    (void)columns;
    (void)names;
    if (strcmp(values[0], "ok") == 0)
        return 0;
    printf("not sound: %s\n", values[0]);
    return 1;
}

static int sound(const char *path)
{
    sqlite3 *db = NULL;
    int bad = sqlite3_open_v2(path, &db, 2, NULL) != OK;
    bad |= sqlite3_exec(db, "PRAGMA integrity_check", show, NULL, NULL) != OK;
    bad |= sqlite3_exec(db, "DELETE FROM sqlite_sequence", NULL, NULL, NULL) != OK;
    if (bad)
        printf("%s: %s\n", path, sqlite3_errmsg(db));
    sqlite3_close(db);
    return bad;
}

static int use_starved(const char *path)
{
    int bad;
    starve();
    bad = use(path);
    return bad;
}

static void copy(const char *from, const char *to)
{
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t length;
    while (in && out && (length = fread(bytes, 1, sizeof bytes, in)) > 0)
        fwrite(bytes, 1, length, out);
    if (!in || !out || fclose(in) != 0 || fclose(out) != 0)
        exit(2);
}

// A turn with a copy.
static int turn(int (*work)(const char *), const char *path)
{
    char name[4096];
    int bad;
    snprintf(name, sizeof name, "%s.copy", path);
    copy(path, name);
    bad = apart(work, name);
    hardship.failing = 0;
    hardship.statement = -1;
    bad |= apart(sound, name);
    unlink(name);
    return bad;
}

static int starve_all(const char *path)
{
    int bad = 0;
    // Some of the first ones, where a database is opened, and fewer later on.
    for (long n = 1; n < 30000; n += 1 + n / 12) {
        for (int is_for_ever = 0; is_for_ever < 2; is_for_ever++) {
            hardship.failing = n;
            hardship.is_for_ever = is_for_ever;
            if (turn(use_starved, path)) {
                printf("allocation %ld%s\n", n, is_for_ever ? " and all behind it" : "");
                bad = 1;
            }
        }
    }
    return bad;
}

static int fail_all(const char *path)
{
    int bad = 0;
    for (long n = 0; n < (long)(sizeof USES / sizeof *USES); n++) {
        for (int is_reading = 0; is_reading < 2; is_reading++) {
            hardship.statement = n;
            hardship.is_reading = is_reading;
            if (turn(use, path)) {
                printf("no %s from statement %ld on: %s\n", is_reading ? "reads" : "writes", n,
                       USES[n]);
                bad = 1;
            }
        }
    }
    return bad;
}

int main(int count, char **arguments)
{
    int (*work)(const char *) = NULL;
    int bad = 0;
    if (count == 3 && strcmp(arguments[1], "make") == 0)
        return make(arguments[2]);
    if (count >= 3 && strcmp(arguments[1], "starve") == 0)
        work = starve_all;
    if (count >= 3 && strcmp(arguments[1], "fail") == 0)
        work = fail_all;
    if (work == NULL && (count < 3 || strcmp(arguments[1], "use") != 0)) {
        fprintf(stderr, "use: exercise make FOLDER | exercise use|starve|fail FILE…\n");
        return 2;
    }
    for (int n = 2; n < count; n++)
        bad |= work ? work(arguments[n]) : apart(use, arguments[n]);
    return bad;
}
