/*
** Every commit inserts one row and its index entry, and is counted in `written` when SQLite has acknowledged it. So
** `written` is what must be found, by whoever reads, at any later time.
**
** After the actors are done a scene goes on, because a wrong number in the WAL index needs successors to do harm:
** commits one by one past the length of the old WAL, then a checkpoint that empties the WAL, then a fresh connection.
*/
#include "scene.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const beginning_name[BEGINNINGS] = {"backfilled", "half backfilled", "untouched", "with a reader"};

#define COMMITS_BEFORE 6
/* Offsets in the WAL index: https://sqlite.org/walformat.html, "WAL-Index Header". */
#define MX_FRAME 16
#define N_BACKFILL 96

static void must(Scene *scene, sqlite3 *db, int rc, const char *what) {
  if (rc == SQLITE_OK) return;
  fprintf(stderr, "wal-reset: %s: %s: %s (%d)\n", scene->path, what, db ? sqlite3_errmsg(db) : "", rc);
  exit(1);
}

static void run(Scene *scene, sqlite3 *db, const char *sql) { must(scene, db, sqlite3_exec(db, sql, 0, 0, 0), sql); }

sqlite3 *scene_connect(Scene *scene, const char *vfs) {
  sqlite3 *db = 0;
  must(scene, db, sqlite3_open_v2(scene->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs), "open");
  run(scene, db, "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=FULL; SELECT count(*) FROM sqlite_schema");
  return db;
}

int checkpoint(sqlite3 *db, int mode) { return sqlite3_wal_checkpoint_v2(db, 0, mode, 0, 0); }

int scene_commit(Scene *scene, sqlite3 *db) {
  char sql[96];
  snprintf(sql, sizeof sql, "INSERT INTO t(word) VALUES(printf('%%d %%.*c', %d, 60, 'x'))", scene->written * 7919 % 10007);
  int rc = sqlite3_exec(db, sql, 0, 0, 0);
  if (rc == SQLITE_OK) scene->written++;
  return rc;
}

static int count(sqlite3 *db) {
  sqlite3_stmt *statement;
  int rows = -1;
  if (sqlite3_prepare_v2(db, "SELECT count(*) FROM t NOT INDEXED", -1, &statement, 0) != SQLITE_OK) return -1;
  if (sqlite3_step(statement) == SQLITE_ROW) rows = sqlite3_column_int(statement, 0);
  return sqlite3_finalize(statement) == SQLITE_OK ? rows : -1;
}

int scene_rows(Scene *scene) {
  sqlite3 *db = scene_connect(scene, 0);
  int rows = count(db);
  sqlite3_close(db);
  return rows;
}

void scene_read_wal_index(Scene *scene) {
  char path[300];
  uint32_t index[32];
  snprintf(path, sizeof path, "%s-shm", scene->path);
  FILE *file = fopen(path, "rb");
  if (!file || fread(index, sizeof index, 1, file) != 1) must(scene, 0, SQLITE_IOERR, "the WAL index");
  fclose(file);
  scene->frames = index[MX_FRAME / 4];
  scene->backfill = index[N_BACKFILL / 4];
}

static void commits(Actor *actor) { actor->rc = scene_commit(actor->scene, actor->db); }
static void checkpoints(Actor *actor) { actor->rc = checkpoint(actor->db, actor->mode); }

static void cast(Scene *scene, Actor *actor, const char *name, void (*work)(Actor *)) {
  memset(actor, 0, sizeof *actor);
  actor->name = name;
  actor->work = work;
  actor->scene = scene;
  actor->db = scene_connect(scene, PAUSE_VFS);
}

static void checkpoints_by_pragma(Actor *actor) {
  actor->rc = sqlite3_exec(actor->db, "PRAGMA oneflush_checkpoint", 0, 0, 0);
}

void scene_pass_is_ours(Scene *scene, const char *strategy, int by_sqlite) {
  char uri[300];
  sqlite3_close(scene->pass.db);
  snprintf(uri, sizeof uri, "file:%s?strategy=%s", scene->path, strategy);
  must(scene, 0, sqlite3_open_v2(uri, &scene->pass.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, "oneflush"), uri);
  run(scene, scene->pass.db, "PRAGMA wal_autocheckpoint=0; SELECT count(*) FROM t");
  if (!by_sqlite) scene->pass.work = checkpoints_by_pragma;
}

static void snapshot(Scene *scene) {
  scene->reader = scene_connect(scene, 0);
  run(scene, scene->reader, "BEGIN; SELECT count(*) FROM t");
}

void scene_begin(Scene *scene, const char *folder, Beginning beginning) {
  static unsigned serial;
  memset(scene, 0, sizeof *scene);
  snprintf(scene->path, sizeof scene->path, "%s/%u.db", folder, serial++);
  scene->keeper = scene_connect(scene, 0);
  run(scene, scene->keeper, "PRAGMA page_size=1024; PRAGMA journal_mode=WAL;"
                            "CREATE TABLE t(id INTEGER PRIMARY KEY, word TEXT); CREATE INDEX words ON t(word)");
  must(scene, scene->keeper, checkpoint(scene->keeper, SQLITE_CHECKPOINT_TRUNCATE), "checkpoint");
  /* They have seen the WAL as it is now, and not what comes: a checkpoint of theirs reads a new header. */
  cast(scene, &scene->pass, "pass", checkpoints);
  cast(scene, &scene->writer, "writer", commits);
  cast(scene, &scene->other, "other", checkpoints);
  for (int i = 0; i < COMMITS_BEFORE; i++) {
    if (i == COMMITS_BEFORE / 2 && beginning == HALF) snapshot(scene);
    must(scene, scene->keeper, scene_commit(scene, scene->keeper), "insert");
  }
  if (beginning == WITH_READER) snapshot(scene);
  if (beginning != UNTOUCHED) must(scene, scene->keeper, checkpoint(scene->keeper, SQLITE_CHECKPOINT_PASSIVE), "checkpoint");
  if (beginning == HALF) run(scene, scene->reader, "ROLLBACK");
  scene_read_wal_index(scene);
  if ((scene->backfill == scene->frames) != (beginning == BACKFILLED || beginning == WITH_READER) ||
      (scene->backfill == 0) != (beginning == UNTOUCHED)) {
    must(scene, 0, SQLITE_INTERNAL, "the scene does not begin as it should");
  }
}

static int wrong(Scene *scene, const char *when, const char *what, int found) {
  snprintf(scene->verdict, sizeof scene->verdict, "%s: %s: %d, acknowledged: %d", when, what, found, scene->written);
  return 0;
}

static int integrity_is_ok(Scene *scene, sqlite3 *db, const char *when) {
  sqlite3_stmt *statement;
  int ok = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &statement, 0) == SQLITE_OK &&
           sqlite3_step(statement) == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
  if (!ok) snprintf(scene->verdict, sizeof scene->verdict, "%s: %s", when,
                    statement && sqlite3_column_text(statement, 0) ? (const char *)sqlite3_column_text(statement, 0)
                                                                  : sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  return ok;
}

static int lives_on(Scene *scene, sqlite3 *checker) {
  const char *when = "when all were done";
  int rows = count(checker);
  if (rows != scene->written) return wrong(scene, when, "rows", rows);
  if (!integrity_is_ok(scene, checker, when)) return 0;
  when = "after commits that followed";
  for (int i = 0; i < COMMITS_BEFORE + 1; i++) {
    int rc = scene_commit(scene, scene->keeper);
    if (rc != SQLITE_OK) return wrong(scene, when, "a commit failed with", rc);
    if ((rows = count(checker)) != scene->written) return wrong(scene, when, "rows", rows);
  }
  return integrity_is_ok(scene, checker, when);
}

static int survives_an_empty_wal(Scene *scene) {
  const char *when = "after a checkpoint of all";
  int rc = checkpoint(scene->keeper, SQLITE_CHECKPOINT_TRUNCATE);
  if (rc != SQLITE_OK) return wrong(scene, when, "it failed with", rc);
  sqlite3 *fresh = scene_connect(scene, 0);
  int rows = count(fresh);
  int sound = rows == scene->written ? integrity_is_ok(scene, fresh, when) : wrong(scene, when, "rows", rows);
  sqlite3_close(fresh);
  return sound;
}

int scene_is_sound(Scene *scene) {
  scene_read_wal_index(scene);
  if (scene->reader) sqlite3_close(scene->reader);
  scene->reader = 0;
  sqlite3 *checker = scene_connect(scene, 0);
  int sound = lives_on(scene, checker);
  sqlite3_close(checker);
  sound = sound && survives_an_empty_wal(scene);
  /* Not a lost row yet, but never right. */
  if (sound && scene->backfill > scene->frames) {
    sound = 0;
    snprintf(scene->verdict, sizeof scene->verdict, "%u of %u frames are said to be in the database", scene->backfill,
             scene->frames);
  }
  return sound;
}

void scene_end(Scene *scene) {
  Actor *actors[] = {&scene->pass, &scene->writer, &scene->other};
  for (int i = 0; i < 3; i++) sqlite3_close(actors[i]->db);
  if (scene->reader) sqlite3_close(scene->reader);
  sqlite3_close(scene->keeper);
  char path[300];
  const char *const suffixes[] = {"", "-wal", "-shm"};
  for (int i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s%s", scene->path, suffixes[i]);
    unlink(path);
  }
}
