/*
** The second B-tree of SQLite: databases in files of LS-MVBT. This is included into the
** amalgamation behind the stock B-tree. It implements the same functions on the C functions of
** oneflush-mvbt. It translates and forwards; what a database is, the engine decides.
**
** | question                                          | file            |
** |---------------------------------------------------|-----------------|
** | what an object is, and how it is told from stock  | objects.h       |
** | which code of SQLite an error has                 | errors.c        |
** | which engine a file gets                          | choose.c        |
** | open, create, close                               | open.c          |
** | transactions                                      | transaction.c   |
** | savepoints                                        | savepoint.c     |
** | cursors: where they stand, save and restore       | cursor.c        |
** | cursors: how they move                            | move.c          |
** | what stands at a cursor                           | payload.c       |
** | insert and delete                                 | change.c        |
** | trees, meta words                                 | trees.c         |
** | integrity_check                                   | check.c         |
** | pragmas, limits, what is the pager's              | config.c        |
** | the history of a file, a reader of older versions | history.c       |
** | PRAGMA oneflush_…                                 | pragma.c        |
** | the file that others ask for                      | file.c          |
** | a copy into another database, backup and VACUUM   | copy.c backup.c |
** | calls that concern both engines at once           | dispatch.c      |
*/
#include "objects.h"
#include "errors.c"
#include "cursor.c"
#include "move.c"
#include "payload.c"
#include "transaction.c"
#include "savepoint.c"
#include "change.c"
#include "trees.c"
#include "check.c"
#include "history.c"
#include "pragma.c"
#include "file.c"
#include "config.c"
#include "open.c"
#include "choose.c"
#include "copy.c"
#include "backup.c"
#include "dispatch.c"
