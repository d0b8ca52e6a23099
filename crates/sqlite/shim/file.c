/*
** The file that SQLite, or a program by SQLITE_FCNTL_FILE_POINTER, asks for. The engine reads and
** writes the real one; this one answers questions.
*/

static int mvFileClose(sqlite3_file *pFile){
  (void)pFile;
  return SQLITE_OK;
}
static int mvFileRead(sqlite3_file *pFile, void *a, int n, sqlite3_int64 at){
  (void)pFile; (void)a; (void)n; (void)at;
  return SQLITE_IOERR_READ;
}
static int mvFileWrite(sqlite3_file *pFile, const void *a, int n, sqlite3_int64 at){
  (void)pFile; (void)a; (void)n; (void)at;
  return SQLITE_READONLY;
}
static int mvFileTruncate(sqlite3_file *pFile, sqlite3_int64 n){
  (void)pFile; (void)n;
  return SQLITE_READONLY;
}
static int mvFileSync(sqlite3_file *pFile, int flags){
  (void)pFile; (void)flags;
  return SQLITE_OK;
}
/* A file that this connection has made is as good as empty until it has committed: VACUUM INTO. */
static int mvFileSize(sqlite3_file *pFile, sqlite3_int64 *pSize){
  MvBtree *p = ((MvFile*)pFile)->p;
  *pSize = p->isFresh ? 0 : (i64)mvPages(p)*p->nPage;
  return SQLITE_OK;
}
static int mvFileLock(sqlite3_file *pFile, int eLock){
  (void)pFile; (void)eLock;
  return SQLITE_OK;
}
static int mvFileCheckReservedLock(sqlite3_file *pFile, int *pResOut){
  (void)pFile;
  *pResOut = 0;
  return SQLITE_OK;
}
static int mvFileControl(sqlite3_file *pFile, int op, void *pArg){
  if( op==SQLITE_FCNTL_LOCKSTATE ){
    /* As in WAL: who writes has the reserved lock. */
    u8 inTrans = ((MvFile*)pFile)->p->base.inTrans;
    *(int*)pArg = inTrans==TRANS_WRITE ? RESERVED_LOCK : inTrans ? SHARED_LOCK : NO_LOCK;
    return SQLITE_OK;
  }
  if( op==SQLITE_FCNTL_PRAGMA ) return mvPragma(((MvFile*)pFile)->p, (char**)pArg);
  return SQLITE_NOTFOUND;
}
static int mvFileSectorSize(sqlite3_file *pFile){
  (void)pFile;
  return 4096;
}
static int mvFileCharacteristics(sqlite3_file *pFile){
  (void)pFile;
  return 0;
}

static const sqlite3_io_methods mvFileMethods = {
  1,
  mvFileClose,
  mvFileRead,
  mvFileWrite,
  mvFileTruncate,
  mvFileSync,
  mvFileSize,
  mvFileLock,
  mvFileLock,
  mvFileCheckReservedLock,
  mvFileControl,
  mvFileSectorSize,
  mvFileCharacteristics,
  0, 0, 0, 0, 0, 0
};
