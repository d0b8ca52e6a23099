/*
** The backup API where one of both databases is not stock. The first step copies all: a reader of a
** snapshot keeps no writer out, so there is no need for small steps.
*/

typedef struct MvBackup {
  const char *tag;          /* mvTag */
  sqlite3 *pDestDb;
  sqlite3 *pSrcDb;
  Btree *pSrc;
  char *zDest;
  int rc;
  int nRemaining;
  int nPagecount;
} MvBackup;

static MvBackup *mvBackupInit(sqlite3 *pDestDb, const char *zDest, sqlite3 *pSrcDb, Btree *pSrc){
  MvBackup *p = sqlite3MallocZero(sizeof(MvBackup)+strlen(zDest)+1);
  if( p==0 ){
    sqlite3Error(pDestDb, SQLITE_NOMEM_BKPT);
    return 0;
  }
  p->tag = mvTag;
  p->pDestDb = pDestDb;
  p->pSrcDb = pSrcDb;
  p->pSrc = pSrc;
  p->zDest = (char*)&p[1];
  strcpy(p->zDest, zDest);
  pSrc->nBackup++;
  return p;
}

static int mvBackupCopy(MvBackup *p, Btree *pDest){
  int isOurs = sqlite3BtreeTxnState(p->pSrc)==SQLITE_TXN_NONE;
  u32 cookie = 0;
  int rc = SQLITE_OK;
  if( isOurs ) rc = sqlite3BtreeBeginTrans(p->pSrc, 0, 0);
  if( rc!=SQLITE_OK ) return rc;
  p->nPagecount = (int)sqlite3BtreeLastPage(p->pSrc);
  rc = sqlite3BtreeBeginTrans(pDest, 2, (int*)&cookie);
  if( rc==SQLITE_OK ) rc = mvCopyAll(p->pDestDb, pDest, p->pSrc);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeUpdateMeta(pDest, BTREE_SCHEMA_VERSION, cookie+1);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(pDest);
  if( rc!=SQLITE_OK ) (void)sqlite3BtreeRollback(pDest, SQLITE_OK, 0);
  sqlite3ResetAllSchemasOfConnection(p->pDestDb);
  if( isOurs ) (void)sqlite3BtreeCommit(p->pSrc);
  return rc;
}

static int mvBackupStep(MvBackup *p, int nPage){
  Btree *pDest;
  int rc = p->rc;
  if( rc!=SQLITE_OK && rc!=SQLITE_BUSY && rc!=SQLITE_LOCKED ) return rc;
  sqlite3_mutex_enter(p->pSrcDb->mutex);
  sqlite3BtreeEnter(p->pSrc);
  sqlite3_mutex_enter(p->pDestDb->mutex);
  pDest = findBtree(p->pDestDb, p->pDestDb, p->zDest);
  if( pDest==0 ){
    rc = SQLITE_ERROR;
  }else if( nPage==0 ){
    rc = SQLITE_OK;
  }else if( sqlite3BtreeTxnState(pDest)!=SQLITE_TXN_NONE ){
    rc = SQLITE_LOCKED;
  }else{
    sqlite3BtreeEnter(pDest);
    rc = mvBackupCopy(p, pDest);
    sqlite3BtreeLeave(pDest);
    if( rc==SQLITE_OK ) rc = SQLITE_DONE;
  }
  if( rc==SQLITE_BUSY || rc==SQLITE_LOCKED ) p->nRemaining = p->nPagecount;
  p->rc = rc;
  sqlite3_mutex_leave(p->pDestDb->mutex);
  sqlite3BtreeLeave(p->pSrc);
  sqlite3_mutex_leave(p->pSrcDb->mutex);
  return rc;
}

static int mvBackupFinish(MvBackup *p){
  sqlite3 *pSrcDb = p->pSrcDb;
  sqlite3 *pDestDb = p->pDestDb;
  int rc = p->rc==SQLITE_DONE ? SQLITE_OK : p->rc;
  sqlite3_mutex_enter(pSrcDb->mutex);
  sqlite3_mutex_enter(pDestDb->mutex);
  p->pSrc->nBackup--;
  sqlite3Error(pDestDb, rc);
  sqlite3_free(p);
  sqlite3LeaveMutexAndCloseZombie(pDestDb);
  sqlite3LeaveMutexAndCloseZombie(pSrcDb);
  return rc;
}

/* All of it, in the format of SQLite: by a database in memory. */
static unsigned char *mvSerialize(sqlite3 *db, const char *zSchema, sqlite3_int64 *piSize){
  sqlite3 *pMemory = 0;
  sqlite3_backup *pBackup;
  unsigned char *a = 0;
  if( piSize ) *piSize = -1;
  if( sqlite3_open(":memory:", &pMemory)==SQLITE_OK ){
    pBackup = sqlite3_backup_init(pMemory, "main", db, zSchema);
    if( pBackup ) (void)sqlite3_backup_step(pBackup, -1);
    if( pBackup && sqlite3_backup_finish(pBackup)==SQLITE_OK ){
      a = mvStockSerialize(pMemory, "main", piSize, 0);
    }
  }
  (void)sqlite3_close(pMemory);
  return a;
}

SQLITE_API unsigned char *sqlite3_serialize(
  sqlite3 *db, const char *zSchema, sqlite3_int64 *piSize, unsigned int mFlags
){
  Btree *p = zSchema ? sqlite3DbNameToBtree(db, zSchema) : db->aDb[0].pBt;
  if( !MV_IS(p) ) return mvStockSerialize(db, zSchema, piSize, mFlags);
  if( mFlags & SQLITE_SERIALIZE_NOCOPY ){
    if( piSize ) *piSize = -1;
    return 0;
  }
  return mvSerialize(db, zSchema ? zSchema : "main", piSize);
}

SQLITE_API sqlite3_backup *sqlite3_backup_init(
  sqlite3 *pDestDb, const char *zDest, sqlite3 *pSrcDb, const char *zSrc
){
  MvBackup *p = 0;
  Btree *pSrc = 0;
  Btree *pDest = 0;
  int isMv = 0;
  int isSettled = 0;
  sqlite3_mutex_enter(pSrcDb->mutex);
  sqlite3_mutex_enter(pDestDb->mutex);
  if( pSrcDb!=pDestDb ){
    /* This also opens a temporary database that nobody has used yet. The stock function would try
    ** again where that has failed. */
    pSrc = findBtree(pDestDb, pSrcDb, zSrc);
    pDest = findBtree(pDestDb, pDestDb, zDest);
    isMv = pSrc && pDest && (MV_IS(pSrc) || MV_IS(pDest));
    if( isMv && sqlite3BtreeTxnState(pDest)!=SQLITE_TXN_NONE ){
      sqlite3ErrorWithMsg(pDestDb, SQLITE_ERROR, "destination database is in use");
    }else if( isMv ){
      p = mvBackupInit(pDestDb, zDest, pSrcDb, pSrc);
    }
    isSettled = isMv || pSrc==0 || pDest==0;
  }
  sqlite3_mutex_leave(pDestDb->mutex);
  sqlite3_mutex_leave(pSrcDb->mutex);
  if( isSettled ) return (sqlite3_backup*)p;
  return stock_backup_init(pDestDb, zDest, pSrcDb, zSrc);
}

SQLITE_API int sqlite3_backup_step(sqlite3_backup *p, int nPage){
  return MV_IS(p) ? mvBackupStep((MvBackup*)p, nPage) : stock_backup_step(p, nPage);
}
SQLITE_API int sqlite3_backup_finish(sqlite3_backup *p){
  return MV_IS(p) ? mvBackupFinish((MvBackup*)p) : stock_backup_finish(p);
}
SQLITE_API int sqlite3_backup_remaining(sqlite3_backup *p){
  return MV_IS(p) ? ((MvBackup*)p)->nRemaining : stock_backup_remaining(p);
}
SQLITE_API int sqlite3_backup_pagecount(sqlite3_backup *p){
  return MV_IS(p) ? ((MvBackup*)p)->nPagecount : stock_backup_pagecount(p);
}
