/*
** A VFS over SQLite's default one that can stop a thread before and after any call, and actors: threads that run one
** at a time, each until it is stopped, blocked or done. What runs when is decided by the caller alone, so that an
** interleaving is repeated exactly.
*/
#ifndef PAUSE_H
#define PAUSE_H

#include <pthread.h>
#include <semaphore.h>
#include <sqlite3.h>

#define PAUSE_VFS "pause"
#define NEVER 0

typedef enum { STOPPED, BLOCKED, DONE } State;

typedef struct Actor Actor;
struct Actor {
  const char *name;
  void (*work)(Actor *); /* what the thread does */
  void *scene;           /* where */
  sqlite3 *db;           /* its connection */
  int mode;              /* of a checkpoint: SQLITE_CHECKPOINT_... */
  int waits;             /* has a busy handler */
  int keeps_full;        /* the VFS never lets its FULL checkpoint become a PASSIVE one */
  int rc;                /* how the work ended */

  int step;              /* odd: before a call, even: after it */
  int stop_at;           /* the step at which to stop, or NEVER */
  const char *stop_call; /* or: before the first call of this name */
  char where[48];        /* the last step, in words */
  int blocked;           /* how often it had to wait */
  State state;
  sem_t go;
  pthread_t thread;
};

/* Registers the VFS, as the default. */
int pause_register(void);

/* Runs the actor until it is stopped (stop_at, stop_call), blocked or done. */
State actor_start(Actor *actor);
/* Goes on from there to the end, unless the actor blocks again. */
State actor_continue(Actor *actor);
/* The busy handler of an actor that waits: gives the word to the others. */
int actor_blocked(void *actor, int attempts);

#endif
