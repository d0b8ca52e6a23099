/*
** One database and the connections that meet in it: how it begins, what the actors do, and what must hold afterwards.
*/
#ifndef SCENE_H
#define SCENE_H

#include "pause.h"

/* What a checkpoint finds in the WAL. */
typedef enum {
  BACKFILLED,  /* another checkpoint is just complete: the next writer resets the WAL */
  HALF,        /* backfilled up to the snapshot of a reader, who has gone since */
  UNTOUCHED,   /* nothing is backfilled */
  WITH_READER, /* backfilled, and a reader keeps the WAL from being reset */
  BEGINNINGS
} Beginning;

extern const char *const beginning_name[BEGINNINGS];

typedef struct {
  char path[256];
  sqlite3 *keeper;       /* stays open, so that no close checkpoints */
  sqlite3 *reader;       /* HALF and WITH_READER: who keeps a snapshot */
  Actor pass;            /* the checkpoint that is examined */
  Actor writer;          /* commits one transaction */
  Actor other;           /* another checkpoint, by somebody else */
  int written;           /* commits acknowledged so far, one row each */
  unsigned backfill, frames; /* nBackfill and mxFrame of the WAL index when all actors were done */
  char verdict[256];     /* what is wrong, or empty */
} Scene;

/* A new database in `folder`, in WAL mode, its actors ready; nobody checkpoints by itself. */
void scene_begin(Scene *scene, const char *folder, Beginning beginning);
/* Whether every acknowledged row is there and sound, and stays so while the database lives on. */
int scene_is_sound(Scene *scene);
void scene_end(Scene *scene);
/* The examined checkpoint is PRAGMA oneflush_checkpoint, with this strategy. */
void scene_pass_is_ours(Scene *scene, const char *strategy, int by_sqlite);

sqlite3 *scene_connect(Scene *scene, const char *vfs);
/* One row, one transaction; returns SQLite's answer. */
int scene_commit(Scene *scene, sqlite3 *db);
/* What a connection that was opened just now counts. */
int scene_rows(Scene *scene);
void scene_read_wal_index(Scene *scene);
int checkpoint(sqlite3 *db, int mode);

#endif
