/*
** The VFS is a shim: each method is a gate, the call below, and a gate. At a gate the calling thread hands over to
** the one that runs the actors, if this is the step at which it shall stop. Threads that are no actors pass.
**
** A sleep is a wait for somebody else (SQLite retries a read lock that way), so it hands over too: no interleaving
** takes time.
*/
#include "pause.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* WAL_WRITE_LOCK of wal.c. */
#define WRITE_LOCK 0

typedef struct {
  sqlite3_file base;
  sqlite3_io_methods methods; /* ours, of the same version as those below */
  sqlite3_file *below;        /* directly behind this struct */
} File;

static sqlite3_vfs *below_vfs;
static sem_t back; /* the actor that ran has stopped, is blocked or is done */
static __thread Actor *self;

static sqlite3_file *below(sqlite3_file *file) { return ((File *)file)->below; }

static void hand_over(State state) {
  self->state = state;
  sem_post(&back);
  while (sem_wait(&self->go)) {
  }
}

static void gate(const char *call, const char *side) {
  if (!self) return;
  self->step++;
  int named = self->stop_call && side[0] == 'b' && strcmp(call, self->stop_call) == 0;
  if (!named && self->step != self->stop_at) return;
  self->stop_call = 0;
  snprintf(self->where, sizeof self->where, "%s %s", side, call);
  hand_over(STOPPED);
}

#define GATED(call, expression)   \
  do {                            \
    gate(call, "before");         \
    int rc = (expression);        \
    gate(call, "after");          \
    return rc;                    \
  } while (0)

static int x_close(sqlite3_file *f) { GATED("xClose", below(f)->pMethods->xClose(below(f))); }
static int x_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at) {
  GATED("xRead", below(f)->pMethods->xRead(below(f), p, n, at));
}
static int x_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at) {
  GATED("xWrite", below(f)->pMethods->xWrite(below(f), p, n, at));
}
static int x_truncate(sqlite3_file *f, sqlite3_int64 n) { GATED("xTruncate", below(f)->pMethods->xTruncate(below(f), n)); }
static int x_sync(sqlite3_file *f, int flags) { GATED("xSync", below(f)->pMethods->xSync(below(f), flags)); }
static int x_file_size(sqlite3_file *f, sqlite3_int64 *n) { GATED("xFileSize", below(f)->pMethods->xFileSize(below(f), n)); }
static int x_lock(sqlite3_file *f, int level) { GATED("xLock", below(f)->pMethods->xLock(below(f), level)); }
static int x_unlock(sqlite3_file *f, int level) { GATED("xUnlock", below(f)->pMethods->xUnlock(below(f), level)); }
static int x_check_reserved_lock(sqlite3_file *f, int *out) {
  GATED("xCheckReservedLock", below(f)->pMethods->xCheckReservedLock(below(f), out));
}
static int x_file_control(sqlite3_file *f, int op, void *arg) {
  GATED("xFileControl", below(f)->pMethods->xFileControl(below(f), op, arg));
}
static int x_sector_size(sqlite3_file *f) { return below(f)->pMethods->xSectorSize(below(f)); }
static int x_characteristics(sqlite3_file *f) { return below(f)->pMethods->xDeviceCharacteristics(below(f)); }
static int x_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **out) {
  GATED("xShmMap", below(f)->pMethods->xShmMap(below(f), region, size, extend, out));
}
static int x_shm_lock(sqlite3_file *f, int first, int n, int flags) {
  gate("xShmLock", "before");
  int rc = below(f)->pMethods->xShmLock(below(f), first, n, flags);
  int asks = flags == (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE);
  /* sqlite3WalCheckpoint() takes SQLITE_BUSY here for "then PASSIVE"; any other error ends it. */
  if (self && self->keeps_full && asks && first == WRITE_LOCK && rc == SQLITE_BUSY) rc = SQLITE_IOERR_LOCK;
  gate("xShmLock", "after");
  return rc;
}
static void x_shm_barrier(sqlite3_file *f) {
  gate("xShmBarrier", "before");
  below(f)->pMethods->xShmBarrier(below(f));
  gate("xShmBarrier", "after");
}
static int x_shm_unmap(sqlite3_file *f, int delete) { GATED("xShmUnmap", below(f)->pMethods->xShmUnmap(below(f), delete)); }
static int x_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out) {
  GATED("xFetch", below(f)->pMethods->xFetch(below(f), at, n, out));
}
static int x_unfetch(sqlite3_file *f, sqlite3_int64 at, void *p) {
  GATED("xUnfetch", below(f)->pMethods->xUnfetch(below(f), at, p));
}

static const sqlite3_io_methods methods = {
    3,           x_close,        x_read,        x_write,           x_truncate,  x_sync,     x_file_size,
    x_lock,      x_unlock,       x_check_reserved_lock,            x_file_control, x_sector_size, x_characteristics,
    x_shm_map,   x_shm_lock,     x_shm_barrier, x_shm_unmap,       x_fetch,     x_unfetch,
};

static int x_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out) {
  (void)vfs;
  File *file = (File *)f;
  file->below = (sqlite3_file *)(file + 1);
  file->base.pMethods = 0;
  gate("xOpen", "before");
  int rc = below_vfs->xOpen(below_vfs, name, file->below, flags, out);
  if (file->below->pMethods) {
    file->methods = methods;
    file->methods.iVersion = file->below->pMethods->iVersion;
    file->base.pMethods = &file->methods;
  }
  gate("xOpen", "after");
  return rc;
}
static int x_delete(sqlite3_vfs *vfs, const char *name, int sync) {
  (void)vfs;
  GATED("xDelete", below_vfs->xDelete(below_vfs, name, sync));
}
static int x_access(sqlite3_vfs *vfs, const char *name, int flags, int *out) {
  (void)vfs;
  GATED("xAccess", below_vfs->xAccess(below_vfs, name, flags, out));
}
static int x_sleep(sqlite3_vfs *vfs, int us) {
  (void)vfs;
  if (self) {
    actor_blocked(self, 0);
    return us;
  }
  return below_vfs->xSleep(below_vfs, us);
}

int pause_register(void) {
  static sqlite3_vfs vfs;
  sem_init(&back, 0, 0);
  below_vfs = sqlite3_vfs_find(0);
  vfs = *below_vfs;
  vfs.szOsFile = (int)sizeof(File) + below_vfs->szOsFile;
  vfs.zName = PAUSE_VFS;
  vfs.pNext = 0;
  vfs.xOpen = x_open;
  vfs.xDelete = x_delete;
  vfs.xAccess = x_access;
  vfs.xSleep = x_sleep;
  return sqlite3_vfs_register(&vfs, 1);
}

int actor_blocked(void *actor, int attempts) {
  (void)attempts;
  if (self != actor) return 0;
  /* After so many turns of the others nobody will let it in. */
  if (++self->blocked > 200) return 0;
  hand_over(BLOCKED);
  return 1;
}

static void *run(void *actor) {
  self = actor;
  self->work(self);
  self->state = DONE;
  sem_post(&back);
  return 0;
}

static State wait_for(Actor *actor) {
  while (sem_wait(&back)) {
  }
  if (actor->state == DONE) {
    pthread_join(actor->thread, 0);
    sem_destroy(&actor->go);
  }
  return actor->state;
}

State actor_start(Actor *actor) {
  actor->step = actor->blocked = 0;
  actor->where[0] = 0;
  sem_init(&actor->go, 0, 0);
  if (pthread_create(&actor->thread, 0, run, actor)) {
    fprintf(stderr, "wal-reset: cannot start a thread\n");
    exit(1);
  }
  return wait_for(actor);
}

State actor_continue(Actor *actor) {
  sem_post(&actor->go);
  return wait_for(actor);
}
