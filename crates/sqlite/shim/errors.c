/*
** Which code of SQLite an error of the engine has. Its message goes to the log of errors.
*/

/* The longest message. SQLite's log cuts it at 210 bytes. */
#define MV_SAID 1000

/* Into SQLite's log of errors, and where ONEFLUSH_LOG says. */
static void mvSay(int rc, const char *zFormat, ...){
  char z[MV_SAID];
  va_list ap;
  va_start(ap, zFormat);
  sqlite3_vsnprintf(sizeof(z), z, zFormat, ap);
  va_end(ap);
  sqlite3_log(rc, "%s", z);
  oneflush_mvbt_say(z);
}

static int mvFailed(oneflush_mvbt_code code, const char *zMessage){
  int rc = SQLITE_INTERNAL;
  switch( code ){
    case ONEFLUSH_MVBT_OK:            return SQLITE_OK;
    case ONEFLUSH_MVBT_BUSY:          return SQLITE_BUSY;
    case ONEFLUSH_MVBT_IO:            rc = SQLITE_IOERR; break;
    case ONEFLUSH_MVBT_OTHER_FORMAT:
    case ONEFLUSH_MVBT_NEWER_FORMAT:  rc = SQLITE_NOTADB; break;
    case ONEFLUSH_MVBT_DAMAGED:
    case ONEFLUSH_MVBT_NO_TREE:
    case ONEFLUSH_MVBT_WRONG_KIND:    rc = SQLITE_CORRUPT; break;
    case ONEFLUSH_MVBT_SNAPSHOT_GONE: rc = SQLITE_ERROR_SNAPSHOT; break;
    case ONEFLUSH_MVBT_TOO_LONG:      rc = SQLITE_TOOBIG; break;
    case ONEFLUSH_MVBT_FULL:          rc = SQLITE_FULL; break;
    case ONEFLUSH_MVBT_POISONED:      rc = SQLITE_IOERR_FSYNC; break;
    case ONEFLUSH_MVBT_HALF_DONE:     rc = SQLITE_ABORT_ROLLBACK; break;
    case ONEFLUSH_MVBT_MISUSE:        rc = SQLITE_MISUSE; break;
    case ONEFLUSH_MVBT_READ_ONLY:     rc = SQLITE_READONLY; break;
    case ONEFLUSH_MVBT_INTERNAL:      rc = SQLITE_INTERNAL; break;
  }
  mvSay(rc, "lsmvbt: %s", zMessage);
  return rc;
}

/* Of a call with the database, its transaction or a cursor. */
static int mvDbRc(MvBtree *p, oneflush_mvbt_code code){
  return code==ONEFLUSH_MVBT_OK ? SQLITE_OK : mvFailed(code, oneflush_mvbt_db_error(p->engine));
}
static int mvTxnRc(MvBtree *p, oneflush_mvbt_code code){
  return code==ONEFLUSH_MVBT_OK ? SQLITE_OK : mvFailed(code, oneflush_mvbt_txn_error(p->txn));
}
static int mvCursorRc(MvCursor *pCur, oneflush_mvbt_code code){
  if( code==ONEFLUSH_MVBT_OK ) return SQLITE_OK;
  return mvFailed(code, oneflush_mvbt_cursor_error(pCur->place));
}
