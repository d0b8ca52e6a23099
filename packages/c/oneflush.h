/*
** Oneflush, linked statically: durable SQLite commits for one aligned write and one flush.
**
** For programs that link SQLite 3.40 or newer into themselves:
**
**     cc app.c sqlite3.c liboneflush.a -lpthread -ldl -lm
**
** With musl, an unwinder of musl has to be there: Alpine's compiler has one, Zig's wants -lunwind
** behind the library. Debian's musl-gcc has only that of glibc.
**
** Call oneflush_register() before a database is opened. Then ask for the VFS:
**
**     oneflush_register();
**     sqlite3_open_v2("file:app.db?vfs=oneflush&strategy=eager", &db,
**                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, 0);
**
** The library calls the sqlite3_* functions of the program. SQLite has to be threadsafe (the
** default), and must not be compiled with SQLITE_OMIT_WAL for strategies other than maw.
** Options are those of the environment and of the URI; the docs list them.
*/
#ifndef ONEFLUSH_H
#define ONEFLUSH_H

#include "sqlite3.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
** Registers the VFS "oneflush" over SQLite's default VFS, and initializes SQLite for that. The VFS
** becomes the default only if the environment has ONEFLUSH_DEFAULT=1. Another call reads the
** environment anew. Returns SQLITE_OK, or SQLITE_ERROR with the reason in SQLite's error log
** (SQLITE_CONFIG_LOG) and where ONEFLUSH_LOG says.
*/
int oneflush_register(void);

/*
** The same, and "oneflush" becomes the default VFS: databases that are opened by a plain name use
** it.
*/
int oneflush_register_default(void);

/*
** The form of sqlite3_auto_extension():
**
**     sqlite3_auto_extension((void (*)(void))sqlite3_oneflush_init);
**
** SQLite calls it when a connection is open already. So the first connection, for example
** to ":memory:", registers the VFS, and later ones can use it. oneflush_register() needs no such
** connection.
*/
int sqlite3_oneflush_init(sqlite3 *db, char **error, const struct sqlite3_api_routines *routines);

/*
** For a SQLite that is compiled with -DSQLITE_EXTRA_INIT=oneflush_vfs_extra_init. The VFS is
** then the default of each program that uses this SQLite.
*/
int oneflush_vfs_extra_init(const char *unused);

/* The version of this library: "0.1.0". */
const char *oneflush_version(void);

#ifdef __cplusplus
}
#endif

#endif
