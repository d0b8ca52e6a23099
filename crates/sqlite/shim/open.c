/*
** Open, create and close.
*/

static void mvFreeRow(MvRow *pRow){
  sqlite3_free(pRow->a);
  memset(pRow, 0, sizeof(*pRow));
}

/* The bytes of the parameters of a URI, with the zero behind them. */
static size_t mvParameterBytes(const char *zFilename){
  const char *zFirst = &zFilename[strlen(zFilename)+1];
  const char *z = zFirst;
  while( *z ){
    z += strlen(z)+1;
    z += strlen(z)+1;
  }
  return (size_t)(&z[1]-zFirst);
}

/* The pager, and behind it the names in the order that sqlite3_filename_database() relies on: the
** address of the pager, four zeros, the path, the parameters, the names of journal and WAL. */
static MvPager *mvNewPager(sqlite3_vfs *pVfs, const char *zFilename, const char *zPath){
  size_t nPath = strlen(zPath);
  size_t nParam = mvParameterBytes(zFilename);
  MvPager *pPager;
  u8 *a;
  size_t nHead = ROUND8(sizeof(MvPager));
  pPager = sqlite3MallocZero(nHead + sizeof(Pager*) + 4 + nPath+1 + nParam + nPath+9 + nPath+5 + 3);
  if( pPager==0 ) return 0;
  a = (u8*)pPager + nHead;
  memcpy(a, &pPager, sizeof(Pager*));
  a += sizeof(Pager*) + 4;
  pPager->base.zFilename = (char*)a;
  memcpy(a, zPath, nPath);
  a += nPath+1;
  memcpy(a, &zFilename[strlen(zFilename)+1], nParam);
  a += nParam;
  pPager->base.zJournal = (char*)a;
  memcpy(a, zPath, nPath);
  memcpy(&a[nPath], "-journal", 8);
  a += nPath+9;
#ifndef SQLITE_OMIT_WAL
  pPager->base.zWal = (char*)a;
#endif
  memcpy(a, zPath, nPath);
  memcpy(&a[nPath], "-wal", 4);
  pPager->base.pVfs = (sqlite3_vfs*)mvTag;
  pPager->base.fd = &pPager->file.base;
  pPager->base.jfd = &pPager->closed;
  pPager->pVfs = pVfs;
  pPager->file.base.pMethods = &mvFileMethods;
  return pPager;
}

static int mvOpenFailed(oneflush_mvbt_code code){
  return mvFailed(code, oneflush_mvbt_open_error());
}

/* Before anything is opened: messages have a place, and the file system keeps what a flush
** promises, or the user takes what it does. */
static int mvBeforeOpen(const char *zFilename, const char *zPath){
  const char *zGround = sqlite3_uri_parameter(zFilename, "unsafe_ground");
  oneflush_mvbt_code code = oneflush_mvbt_say_where();
  if( zGround==0 ) zGround = getenv("ONEFLUSH_UNSAFE_GROUND");
  if( code==ONEFLUSH_MVBT_OK && (zGround==0 || sqlite3_stricmp(zGround, "allow")!=0) ){
    code = oneflush_mvbt_check_ground(zPath);
  }
  if( code==ONEFLUSH_MVBT_OK ) return SQLITE_OK;
  (void)mvOpenFailed(code);
  return SQLITE_CANTOPEN_BKPT;
}

/* A file of no bytes is none. */
static int mvIsThere(sqlite3_vfs *pVfs, const char *zPath, int *pIsThere){
  return sqlite3OsAccess(pVfs, zPath, SQLITE_ACCESS_EXISTS, pIsThere);
}

/* Makes the database, if nobody else has by now. Tree 1 of SQLite is there from the beginning. */
static int mvCreate(const char *zPath, u32 nPage, int *pIsFresh){
  oneflush_mvbt_options options;
  oneflush_mvbt_code code;
  bool isMade = 0;
  (void)oneflush_mvbt_options_default(&options);
  options.page_bytes = nPage;
  code = oneflush_mvbt_make(zPath, &options, SQLITE_DEFAULT_FILE_PERMISSIONS, &isMade);
  *pIsFresh = isMade;
  if( code!=ONEFLUSH_MVBT_OK ){
    int rc = mvOpenFailed(code);
    return rc==SQLITE_IOERR ? SQLITE_CANTOPEN_BKPT : rc;
  }
  return SQLITE_OK;
}

/* What the paper compares itself with: parameters of the URI. */
static void mvReadSwitches(const char *zFilename, oneflush_mvbt_options *p){
  p->lazy_split = sqlite3_uri_boolean(zFilename, "lazy_split", p->lazy_split);
  p->metadata_embedding =
      sqlite3_uri_boolean(zFilename, "metadata_embedding", p->metadata_embedding);
  p->redistribution = sqlite3_uri_boolean(zFilename, "redistribution", p->redistribution);
}

/* Opens what is there. isFresh: this connection has made it. A handle that is there came with a
** fork: then it is the caller's from now on. */
static int mvOpenEngine(MvBtree *p, int isFresh){
  const char *zPath = p->pPager->base.zFilename;
  oneflush_mvbt_db *engine = 0;
  oneflush_mvbt_options options;
  oneflush_mvbt_code code;
  int isWritable = 0;
  int rc;
  (void)oneflush_mvbt_options_default(&options);
  options.cache_bytes = mvCacheBytes(p);
  mvReadSwitches(zPath, &options);
  rc = sqlite3OsAccess(p->pPager->pVfs, zPath, SQLITE_ACCESS_READWRITE, &isWritable);
  if( rc!=SQLITE_OK ) return rc;
  options.read_only = (p->vfsFlags & SQLITE_OPEN_READONLY)!=0 || !isWritable;
  p->isReadOnly = options.read_only;
  p->isFresh = isFresh;
  if( p->engine ){
    code = oneflush_mvbt_open_anew(p->engine, zPath, &options, &engine);
  }else{
    code = oneflush_mvbt_open(zPath, &options, &engine);
  }
  if( code!=ONEFLUSH_MVBT_OK ){
    rc = mvOpenFailed(code);
    return rc==SQLITE_IOERR ? SQLITE_CANTOPEN_BKPT : rc;
  }
  p->engine = engine;
  (void)oneflush_mvbt_page_bytes(p->engine, &p->nPage);
  if( !mvHasDefaultCache(p) ){
    (void)oneflush_mvbt_set_cache_bytes(p->engine, mvCacheBytes(p));
  }
  return SQLITE_OK;
}

static int mvIsInherited(MvBtree *p){
  bool isInherited = 0;
  (void)oneflush_mvbt_is_inherited(p->engine, &isInherited);
  return isInherited;
}

/* In a child of a fork, while no transaction is open: opens the database for this process. What the
** parent has of it, its locks and its part of the memory that processes share, stays as it is. A
** connection with a snapshot reads that version on, if the file still has it. */
static int mvOpenAnew(MvBtree *p){
  oneflush_mvbt_db *inherited = p->engine;
  oneflush_mvbt_txn *pinned = 0;
  oneflush_mvbt_code code;
  uint64_t n = 0;
  int rc = mvOpenEngine(p, p->isFresh);
  if( rc!=SQLITE_OK ) return rc;
  if( p->pinned ){
    (void)oneflush_mvbt_txn_version(p->pinned, &n);
    code = oneflush_mvbt_begin_read_at(p->engine, n, &pinned);
    if( code!=ONEFLUSH_MVBT_OK ){
      rc = mvDbRc(p, code);
      (void)oneflush_mvbt_close(p->engine);
      p->engine = inherited;
      return rc;
    }
    mvUnpin(p);
    p->pinned = pinned;
  }
  if( oneflush_mvbt_pages_max(inherited, &n)==ONEFLUSH_MVBT_OK ){
    (void)oneflush_mvbt_set_pages_max(p->engine, n, 0);
  }
  (void)oneflush_mvbt_close(inherited);
  return SQLITE_OK;
}

/* Opens what is there, or makes it: before the first transaction. Until then PRAGMA page_size has
** an effect on a new database. */
static int mvStart(MvBtree *p){
  const char *zPath = p->pPager->base.zFilename;
  int isFresh = 0;
  int isThere = 0;
  int rc;
  if( p->engine ){
    return p->base.inTrans==TRANS_NONE && mvIsInherited(p) ? mvOpenAnew(p) : SQLITE_OK;
  }
  rc = mvIsThere(p->pPager->pVfs, zPath, &isThere);
  if( rc==SQLITE_OK && !isThere ) rc = mvCreate(zPath, p->nPage, &isFresh);
  return rc==SQLITE_OK ? mvOpenEngine(p, isFresh) : rc;
}

/* At once if it is there. Else an empty file says that it will be, as with a stock database. */
static int mvOpenFile(MvBtree *p){
  const char *zPath = p->pPager->base.zFilename;
  sqlite3_file *pFile = 0;
  int flags = SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE|SQLITE_OPEN_MAIN_DB;
  int isThere = 0;
  int rc = mvIsThere(p->pPager->pVfs, zPath, &isThere);
  if( rc!=SQLITE_OK ) return rc;
  if( isThere ) return mvOpenEngine(p, 0);
  if( (p->vfsFlags & SQLITE_OPEN_CREATE)==0 ){
    /* An empty one: whoever has begun to make the database has died. */
    rc = sqlite3OsAccess(p->pPager->pVfs, zPath, SQLITE_ACCESS_READWRITE, &isThere);
    if( rc!=SQLITE_OK || !isThere ) return SQLITE_CANTOPEN_BKPT;
  }
  p->isFresh = 1;
  rc = sqlite3OsOpenMalloc(p->pPager->pVfs, zPath, &pFile, flags, &flags);
  if( rc==SQLITE_OK ) sqlite3OsCloseFree(pFile);
  return rc;
}

static void mvFreeBtree(MvBtree *p){
  if( p==0 ) return;
  if( p->xFreeSchema && p->pSchema ) p->xFreeSchema(p->pSchema);
  sqlite3DbFree(0, p->pSchema);
  mvFreeRow(&p->row);
  sqlite3_free(p->pPager);
  sqlite3_free(p);
}

static int mvBtreeOpen(sqlite3_vfs *pVfs, const char *zFilename, sqlite3 *db, Btree **ppBtree,
                       int vfsFlags){
  MvBtree *p = sqlite3MallocZero(sizeof(MvBtree));
  char *zPath = sqlite3_malloc64((u64)pVfs->mxPathname+2);
  int rc;
  *ppBtree = 0;
  if( p==0 || zPath==0 ){
    rc = SQLITE_NOMEM_BKPT;
  }else{
    zPath[0] = 0;
    rc = sqlite3OsFullPathname(pVfs, zFilename, pVfs->mxPathname+1, zPath);
    if( rc==SQLITE_OK_SYMLINK ){
      rc = (vfsFlags & SQLITE_OPEN_NOFOLLOW) ? SQLITE_CANTOPEN_SYMLINK : SQLITE_OK;
    }
  }
  if( rc==SQLITE_OK ) rc = mvBeforeOpen(zFilename, zPath);
  if( rc==SQLITE_OK ){
    p->base.db = (sqlite3*)mvTag;
    p->db = db;
    p->pPager = mvNewPager(pVfs, zFilename, zPath);
    if( p->pPager ){
      p->pPager->p = p;
      p->pPager->file.p = p;
      p->vfsFlags = vfsFlags;
      if( sqlite3_uri_boolean(zFilename, "immutable", 0) ){
        p->vfsFlags &= ~(SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE);
        p->vfsFlags |= SQLITE_OPEN_READONLY;
      }
      p->nPage = SQLITE_DEFAULT_PAGE_SIZE;
      rc = mvOpenFile(p);
    }else{
      rc = SQLITE_NOMEM_BKPT;
    }
  }
  sqlite3_free(zPath);
  if( rc==SQLITE_OK ){
    *ppBtree = (Btree*)p;
  }else{
    mvFreeBtree(p);
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeClose(Btree *pBtree){
  MvBtree *p = (MvBtree*)pBtree;
  oneflush_mvbt_code code;
  while( p->pCursor ) (void)mvBtreeCloseCursor((BtCursor*)p->pCursor);
  mvCloseTxn(p);
  mvUnpin(p);
  /* After a failure the next opening recovers. SQLite does not ask for the answer. */
  code = p->engine ? oneflush_mvbt_close(p->engine) : ONEFLUSH_MVBT_OK;
  if( code!=ONEFLUSH_MVBT_OK ) (void)mvOpenFailed(code);
  mvFreeBtree(p);
  return SQLITE_OK;
}
