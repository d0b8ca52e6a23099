/*
** The WAL-reset bug (https://sqlite.org/wal.html#walresetbug): told once step by step, then looked for in every
** interleaving of a checkpoint with a writer and a second checkpointer, for three kinds of checkpoint:
**
**   passive  SQLITE_CHECKPOINT_PASSIVE: the control that must lose commits on an affected SQLite
**   full     SQLITE_CHECKPOINT_FULL as SQLite does it: goes on as PASSIVE when the write lock is not to be had
**   held     FULL, and RESTART, in one pass, through a VFS that lets it fail instead: must never lose any
**   ours     PRAGMA oneflush_checkpoint, through the real extension over the pausing VFS: must never lose any
**   through  SQLite's own PASSIVE and FULL through the extension, which the program asks for: must never lose any
**
** Prints what it found; exit code 0 only if that is what this version of SQLite must give.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scene.h"

typedef struct {
  const char *name;
  int mode, keeps_full;
  int beginnings; /* how many of them are tried */
  int both;       /* in how many of them a second actor stops too */
  int ours;       /* the pass is the extension's */
  int through;    /* the pass is SQLite's own, through the extension */
  int interleavings, refused, unsound;
  char example[512];
} Kind;

static const char *folder, *strategy;

static int is_affected(int version) {
  return version >= 3007000 && version <= 3051002 && version != 3044006 && version != 3050007;
}

/* While it is alone, nobody ends its wait but itself. */
static State start_alone(Actor *actor) {
  State state = actor_start(actor);
  while (state == BLOCKED) state = actor_continue(actor);
  return state;
}

/* The others had their turn; now everybody goes on, in turns, until all are done. */
static void finish(Actor **actors, int n) {
  for (int pending = 1; pending;) {
    pending = 0;
    for (int i = 0; i < n; i++) {
      if (actors[i]->thread && actors[i]->state != DONE && actor_continue(actors[i]) != DONE) pending = 1;
    }
  }
}

static void judge(Kind *kind, Scene *scene, int waits, const char *story) {
  /* Where nobody had to wait, one that does not wait has done the same. */
  if (waits && !scene->writer.blocked && !scene->other.blocked) {
    scene_end(scene);
    return;
  }
  kind->interleavings++;
  if ((scene->pass.rc & 0xff) == SQLITE_IOERR) kind->refused++;
  if (!scene_is_sound(scene) && kind->unsound++ == 0) {
    snprintf(kind->example, sizeof kind->example, "%s; %s", story, scene->verdict);
  }
  scene_end(scene);
}

static const struct {
  const char *name;
  int mode;
} others[] = {{"PASSIVE", SQLITE_CHECKPOINT_PASSIVE},
              {"FULL", SQLITE_CHECKPOINT_FULL},
              {"RESTART", SQLITE_CHECKPOINT_RESTART},
              {"TRUNCATE", SQLITE_CHECKPOINT_TRUNCATE}};
#define OTHERS 4

static void prepare(Kind *kind, Scene *scene, Beginning beginning, int waits, int other) {
  scene_begin(scene, folder, beginning);
  if (kind->ours || kind->through) scene_pass_is_ours(scene, strategy, kind->through);
  scene->pass.mode = kind->mode;
  scene->pass.keeps_full = kind->keeps_full;
  scene->other.mode = others[other].mode;
  Actor *waiting[] = {&scene->writer, &scene->other};
  for (int i = 0; waits && i < 2; i++) sqlite3_busy_handler(waiting[i]->db, actor_blocked, waiting[i]);
}

/*
** The pass stops at each of its steps, and there come, one after the other, those in `plan`: w(riter), o(ther). At a |
** the pass goes on and stops once more in the window, which a connection that is newly opened shows to the VFS only if the
** WAL has changed since its first read.
*/
static void stop_the_pass(Kind *kind, Beginning beginning, int waits, const char *plan, int other) {
  for (int step = 1;; step++) {
    Scene scene;
    prepare(kind, &scene, beginning, waits, other);
    scene.pass.stop_at = step;
    if (start_alone(&scene.pass) == DONE) {
      scene_end(&scene);
      return;
    }
    for (const char *at = plan; *at; at++) {
      if (*at == '|') {
        scene.pass.stop_call = "xUnfetch";
        if (actor_continue(&scene.pass) != STOPPED) break;
        continue;
      }
      Actor *actor = *at == 'w' ? &scene.writer : &scene.other;
      if (actor->thread && actor->state != DONE) break; /* it waits for the pass: its second turn comes too early */
      actor_start(actor);
    }
    finish((Actor *[]){&scene.pass, &scene.writer, &scene.other}, 3);
    char story[256];
    snprintf(story, sizeof story, "%s; the checkpoint stops %s, there comes \"%s\" (%s, %s)", beginning_name[beginning],
             scene.pass.where, plan, others[other].name, waits ? "waits" : "does not wait");
    judge(kind, &scene, waits, story);
  }
}

/*
** The writer (or the other, and then the writer) stops at each of its own steps, the pass begins and stops at each of
** its, and then the one that was stopped first goes on.
*/
static void stop_both(Kind *kind, Beginning beginning, int waits, int with_other, int other) {
  for (int first_step = 1;; first_step++) {
    for (int step = 1;; step++) {
      Scene scene;
      prepare(kind, &scene, beginning, waits, other);
      Actor *first = with_other ? &scene.other : &scene.writer;
      first->stop_at = first_step;
      if (start_alone(first) == DONE) {
        scene_end(&scene);
        return;
      }
      scene.pass.stop_at = step;
      State pass = actor_start(&scene.pass);
      finish(&first, 1);
      if (with_other) actor_start(&scene.writer);
      finish((Actor *[]){&scene.pass, &scene.writer, &scene.other}, 3);
      char story[256];
      snprintf(story, sizeof story, "%s; the %s stops %s, the checkpoint %s (%s, %s)", beginning_name[beginning],
               first->name, first->where, scene.pass.where, others[other].name, waits ? "waits" : "does not wait");
      judge(kind, &scene, waits, story);
      if (pass == DONE) break;
    }
  }
}

static void enumerate(Kind *kind) {
  for (int beginning = 0; beginning < kind->beginnings; beginning++) {
    for (int waits = 0; waits < 2; waits++) {
      stop_the_pass(kind, beginning, waits, "w", 0);
      stop_the_pass(kind, beginning, waits, "ww", 0);
      stop_the_pass(kind, beginning, waits, "wwwo|w", 0);
      if (beginning < kind->both) stop_both(kind, beginning, waits, 0, 0);
      for (int other = 0; other < OTHERS; other++) {
        stop_the_pass(kind, beginning, waits, "o", other);
        stop_the_pass(kind, beginning, waits, "wo", other);
        stop_the_pass(kind, beginning, waits, "ow", other);
        if (beginning < kind->both) stop_both(kind, beginning, waits, 1, other);
      }
    }
  }
}

/* The bug as sqlite.org tells it. Returns the number of acknowledged rows that are gone. */
static int tell(void) {
  Scene scene;
  scene_begin(&scene, folder, BACKFILLED);
  printf("1. A completes a checkpoint: nBackfill %u, mxFrame %u\n", scene.backfill, scene.frames);
  scene.pass.mode = SQLITE_CHECKPOINT_PASSIVE;
  scene.pass.stop_call = "xUnfetch";
  State pass = actor_start(&scene.pass);
  printf("2. B begins another one, has read the WAL index's header, and stops %s\n",
         pass == STOPPED ? scene.pass.where : "nowhere");
  actor_start(&scene.writer);
  scene_read_wal_index(&scene);
  printf("3. C commits a row and resets the WAL: nBackfill %u, mxFrame %u\n", scene.backfill, scene.frames);
  if (pass != DONE) finish((Actor *[]){&scene.pass}, 1);
  scene_read_wal_index(&scene);
  printf("4. B goes on and ends with %d: nBackfill %u, mxFrame %u\n", scene.pass.rc, scene.backfill, scene.frames);
  int rc = scene_commit(&scene, scene.keeper);
  scene_read_wal_index(&scene);
  printf("5. A commits a row, which is acknowledged (%d): nBackfill %u, mxFrame %u; acknowledged rows: %d, seen: %d\n", rc,
         scene.backfill, scene.frames, scene.written, scene_rows(&scene));
  rc = checkpoint(scene.keeper, SQLITE_CHECKPOINT_TRUNCATE);
  int rows = scene_rows(&scene);
  printf("6. A checkpoints all and empties the WAL (%d); acknowledged rows: %d, seen: %d\n", rc, scene.written, rows);
  int lost = scene.written - rows;
  scene_end(&scene);
  return lost;
}

static int check(int holds, const char *claim) {
  printf("%s: %s\n", holds ? "yes" : "NO", claim);
  return holds;
}

/* Loads the extension while the pausing VFS is the default, so that it puts itself over that one. */
static int load(const char *extension) {
  sqlite3 *db;
  char *message = 0;
  int ok = sqlite3_open(":memory:", &db) == SQLITE_OK && sqlite3_enable_load_extension(db, 1) == SQLITE_OK &&
           sqlite3_load_extension(db, extension, 0, &message) == SQLITE_OK;
  if (!ok) fprintf(stderr, "wal-reset: %s: %s\n", extension, message ? message : sqlite3_errmsg(db));
  sqlite3_close(db);
  return ok;
}

static void examine(Kind *kind) {
  enumerate(kind);
  printf("%-14s %6d interleavings, %d refused, %d lost or corrupt\n", kind->name, kind->interleavings, kind->refused,
         kind->unsound);
  if (kind->unsound) printf("               the first: %s\n", kind->example);
}

int main(int n, char **argument) {
  int deep = n == 5 && strcmp(argument[4], "deep") == 0;
  if (n != 4 + deep) {
    fprintf(stderr, "usage: wal-reset FOLDER EXTENSION STRATEGY [deep]   (an existing, empty folder)\n");
    return 2;
  }
  folder = argument[1];
  strategy = argument[3];
  setvbuf(stdout, 0, _IOLBF, 0);
  int affected = is_affected(sqlite3_libversion_number());
  printf("SQLite %s, %s\n", sqlite3_libversion(), affected ? "which has the bug" : "in which it is repaired");
  if (pause_register() != SQLITE_OK || !load(argument[2])) return 1;

  Kind passive = {.name = "passive", .mode = SQLITE_CHECKPOINT_PASSIVE, .beginnings = 1, .both = 1};
  Kind full = {.name = "full", .mode = SQLITE_CHECKPOINT_FULL, .beginnings = 1, .both = 1};
  Kind held_full = {.name = "held full", .mode = SQLITE_CHECKPOINT_FULL, .keeps_full = 1, .beginnings = BEGINNINGS};
  Kind held_restart = {.name = "held restart", .mode = SQLITE_CHECKPOINT_RESTART, .keeps_full = 1, .beginnings = BEGINNINGS};
  held_full.both = deep ? BEGINNINGS : 0;
  held_restart.both = deep ? BEGINNINGS : 1;
  /* A writer that is stopped with the write lock would cost it its patience each time, so only the pass stops here. */
  Kind ours = {.name = "ours", .ours = 1, .beginnings = deep ? BEGINNINGS : 1};

  int lost = tell(), ok = 1;
  examine(&passive);
  examine(&full);
  ok &= check((lost > 0) == affected, affected ? "the story loses acknowledged rows" : "the story loses nothing");
  ok &= check((passive.unsound > 0) == affected, affected ? "PASSIVE loses some" : "PASSIVE loses nothing");
  ok &= check((full.unsound > 0) == affected, affected ? "FULL that became PASSIVE loses some" : "FULL loses nothing");
  if (affected || deep) {
    examine(&held_full);
    examine(&held_restart);
    ok &= check(held_restart.refused > 0, "held: refused where it would have become PASSIVE");
    ok &= check(held_full.unsound == 0 && held_restart.unsound == 0, "held: loses nothing");
  }
  if (strcmp(strategy, "stock") != 0 && (affected || deep)) {
    examine(&ours);
    ok &= check(ours.unsound == 0, "ours: loses nothing");
    Kind through[] = {{.name = "through passive", .mode = SQLITE_CHECKPOINT_PASSIVE},
                      {.name = "through full", .mode = SQLITE_CHECKPOINT_FULL}};
    for (int i = 0; i < 2; i++) {
      through[i].through = through[i].both = 1;
      through[i].beginnings = deep ? BEGINNINGS : 1;
      examine(&through[i]);
      ok &= check(through[i].unsound == 0, "through the extension: loses nothing");
    }
  }
  return !ok;
}
