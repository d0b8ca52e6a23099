/*
** Calls that concern both engines at once, or an object that has no tag yet. All others are
** dispatched by what the build generates.
*/

SQLITE_PRIVATE int sqlite3BtreeOpen(sqlite3_vfs *pVfs, const char *zFilename, sqlite3 *db,
                                    Btree **ppBtree, int flags, int vfsFlags){
  int isMv = 0;
  int rc = mvChoose(pVfs, zFilename, db, flags, vfsFlags, &isMv);
  if( rc==SQLITE_OK && !isMv ){
    rc = stockBtreeOpen(pVfs, zFilename, db, ppBtree, flags, vfsFlags);
    isMv = rc==MV_IS_THERE;
    if( isMv ) rc = SQLITE_OK;
  }
  if( rc==SQLITE_OK && isMv ) rc = mvBtreeOpen(pVfs, zFilename, db, ppBtree, vfsFlags);
  return rc;
}

/* Of a stock cursor that stands on a row the first byte is 0. Once it was looked at, the compiler
** knows for the calls behind this one which engine's the cursor is. */
MV_INLINE SQLITE_PRIVATE int sqlite3BtreeCursorHasMoved(BtCursor *pCur){
  return MV_UNLIKELY(*(const u8*)pCur!=CURSOR_VALID) ? mvHasMoved(pCur) : 0;
}

SQLITE_PRIVATE int sqlite3BtreeCursorSize(void){
  int nStock = stockBtreeCursorSize();
  int nMv = (int)ROUND8(sizeof(MvCursor));
  return MAX(nStock, nMv);
}

/* Nobody knows yet which engine it gets: both leave alone what is zero. */
SQLITE_PRIVATE void sqlite3BtreeCursorZero(BtCursor *pCur){
  stockBtreeCursorZero(pCur);
}

MV_INLINE SQLITE_PRIVATE int sqlite3BtreeCursor(Btree *p, Pgno iTable, int wrFlag,
                                                struct KeyInfo *pKeyInfo, BtCursor *pCur){
  if( MV_IS_SET(p) ) return mvBtreeCursor(p, iTable, wrFlag, pKeyInfo, pCur);
  return stockBtreeCursor(p, iTable, wrFlag, pKeyInfo, pCur);
}

/* A row of a tree goes into another one, by the sqlite3BtreeInsert() that follows. Between two
** stock trees it goes as it stands. Otherwise it waits in the database that is ours. Then the stock
** tree has no cell of the row: its nPreformatSize is 0, which that of a cell never is. */
SQLITE_PRIVATE int sqlite3BtreeTransferRow(BtCursor *pDest, BtCursor *pSrc, i64 iKey){
  MvRow *pRow;
  u32 n;
  u8 *a;
  int rc;
  if( !MV_IS_CURSOR(pDest) && !MV_IS_CURSOR(pSrc) ){
    return stockBtreeTransferRow(pDest, pSrc, iKey);
  }
  pRow = &((MvCursor*)(MV_IS_CURSOR(pDest) ? pDest : pSrc))->p->row;
  n = sqlite3BtreePayloadSize(pSrc);
  a = sqlite3_realloc64(pRow->a, (u64)n+MV_OVERRUN);
  if( a==0 ) return SQLITE_NOMEM_BKPT;
  pRow->a = a;
  rc = sqlite3BtreePayload(pSrc, 0, n, a);
  if( rc!=SQLITE_OK ) return rc;
  memset(&a[n], 0, MV_OVERRUN);
  pRow->n = (int)n;
  pRow->pDest = pDest;
  if( !MV_IS_CURSOR(pDest) ) pDest->pBt->nPreformatSize = 0;
  return SQLITE_OK;
}

/* A row that waits for a stock cursor. */
static MvRow *mvRowFor(BtCursor *pCur){
  sqlite3 *db = pCur->pBtree->db;
  int i;
  for(i=0; i<db->nDb; i++){
    MvBtree *p = (MvBtree*)db->aDb[i].pBt;
    if( MV_IS(p) && p->row.pDest==pCur ) return &p->row;
  }
  return 0;
}

/* The row that waits goes into a stock tree. */
static MV_NOINLINE int mvInsertWaiting(BtCursor *pCur, const BtreePayload *pPayload, int flags,
                                       int seekResult){
  MvRow *pRow = mvRowFor(pCur);
  BtreePayload x;
  if( pRow==0 ) return stockBtreeInsert(pCur, pPayload, flags, seekResult);
  memset(&x, 0, sizeof(x));
  pRow->pDest = 0;
  if( pCur->pKeyInfo ){
    x.pKey = pRow->a;
    x.nKey = pRow->n;
  }else{
    x.nKey = pPayload->nKey;
    x.pData = pRow->a;
    x.nData = pRow->n;
  }
  return stockBtreeInsert(pCur, &x, flags & ~BTREE_PREFORMAT, seekResult);
}

MV_INLINE SQLITE_PRIVATE int sqlite3BtreeInsert(BtCursor *pCur, const BtreePayload *pPayload,
                                                int flags, int seekResult){
  if( MV_IS_CURSOR(pCur) ) return mvBtreeInsert(pCur, pPayload, flags, seekResult);
  if( MV_UNLIKELY(flags & BTREE_PREFORMAT) && pCur->pBt->nPreformatSize==0 ){
    return mvInsertWaiting(pCur, pPayload, flags, seekResult);
  }
  return stockBtreeInsert(pCur, pPayload, flags, seekResult);
}

/* pTo gets what pFrom has, and is committed. */
static int mvCopyAndCommit(Btree *pTo, Btree *pFrom){
  int rc = mvCopyAll(MV_IS(pTo) ? ((MvBtree*)pTo)->db : pTo->db, pTo, pFrom);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(pTo);
  if( rc!=SQLITE_OK ) (void)sqlite3BtreeRollback(pTo, SQLITE_OK, 0);
  return rc;
}

/* Cuts the file. A file that others use, or have changed since, keeps its length, and so does one
** on a full disk. */
static int mvShrink(MvBtree *p, int isFirst, uint64_t *pnPage, uint64_t *pnFree){
  uint64_t version = p->version;
  oneflush_mvbt_code code = oneflush_mvbt_shrink(p->engine, &version, isFirst!=0, pnPage, pnFree);
  if( code==ONEFLUSH_MVBT_BUSY || code==ONEFLUSH_MVBT_FULL ) return SQLITE_DONE;
  if( code==ONEFLUSH_MVBT_OK ) p->version = version;
  return mvDbRc(p, code);
}

/* A copy that was made behind what it replaces has room before it, which only a second copy can
** use. Nobody may have committed since the first one. Others may have read its schema, which has
** other trees. */
static int mvCopyAgain(MvBtree *p, Btree *pFrom){
  Btree *pTo = &p->base;
  uint64_t version = p->version;
  u32 cookie = 0;
  int primary;
  int rc = sqlite3BtreeBeginTrans(pTo, 2, 0);
  if( rc==SQLITE_OK && p->version!=version ) rc = SQLITE_BUSY;
  if( rc==SQLITE_OK ){
    sqlite3BtreeGetMeta(pTo, BTREE_SCHEMA_VERSION, &cookie);
    rc = mvCopyAll(p->db, pTo, pFrom);
  }
  if( rc==SQLITE_OK ) rc = sqlite3BtreeUpdateMeta(pTo, BTREE_SCHEMA_VERSION, cookie+1);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeCommit(pTo);
  if( rc!=SQLITE_OK ) (void)sqlite3BtreeRollback(pTo, SQLITE_OK, 0);
  primary = rc & 0xff;
  return primary==SQLITE_BUSY || primary==SQLITE_FULL ? SQLITE_DONE : rc;
}

/* The end of VACUUM. After the first copy all is committed, and the rest is for the room. */
SQLITE_PRIVATE int sqlite3BtreeCopyFile(Btree *pTo, Btree *pFrom){
  int rc;
  if( !MV_IS(pTo) && !MV_IS(pFrom) ) return stockBtreeCopyFile(pTo, pFrom);
  rc = mvCopyAndCommit(pTo, pFrom);
  if( rc==SQLITE_OK && MV_IS(pTo) ){
    uint64_t nPage = 0, nFree = 0;
    rc = mvShrink((MvBtree*)pTo, 1, &nPage, &nFree);
    if( rc==SQLITE_OK && nFree>nPage-nFree ){
      rc = mvCopyAgain((MvBtree*)pTo, pFrom);
      if( rc==SQLITE_OK || rc==SQLITE_DONE ) rc = mvShrink((MvBtree*)pTo, 0, 0, 0);
    }
    if( rc==SQLITE_DONE ) rc = SQLITE_OK;
  }
  return rc;
}

/* A stock database becomes one of ours while there is nothing in it: its file is empty, and nobody
** of this connection uses it. */
static int mvBecome(sqlite3 *db, const char *zDbName){
  int iDb = zDbName ? sqlite3FindDbName(db, zDbName) : 0;
  Btree *pOld = iDb>=0 ? db->aDb[iDb].pBt : 0;
  Btree *pNew = 0;
  sqlite3_file *pFile;
  sqlite3_vfs *pVfs;
  const char *zFilename;
  i64 n = 0;
  int rc;
  if( pOld==0 || MV_IS(pOld) || iDb==1 || pOld->sharable || pOld->nBackup ) return SQLITE_NOTFOUND;
  if( !db->autoCommit || db->nVdbeActive || sqlite3BtreeTxnState(pOld)!=SQLITE_TXN_NONE ){
    return SQLITE_NOTFOUND;
  }
  zFilename = sqlite3BtreeGetFilename(pOld);
  pFile = sqlite3PagerFile(sqlite3BtreePager(pOld));
  pVfs = sqlite3PagerVfs(sqlite3BtreePager(pOld));
  if( zFilename==0 || zFilename[0]==0 || sqlite3PagerIsMemdb(sqlite3BtreePager(pOld)) ){
    return SQLITE_NOTFOUND;
  }
  if( strncmp(pVfs->zName, "unix", 4)!=0 ) return SQLITE_NOTFOUND;
  if( pFile->pMethods==0 || sqlite3OsFileSize(pFile, &n)!=SQLITE_OK || n>0 ) return SQLITE_NOTFOUND;
  if( sqlite3BtreeIsReadonly(pOld) ) return SQLITE_READONLY;
  rc = mvBtreeOpen(pVfs, zFilename, db, &pNew, SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE);
  if( rc!=SQLITE_OK ) return rc;
  ((MvBtree*)pNew)->nPage = (u32)sqlite3BtreeGetPageSize(pOld);
  rc = mvStart((MvBtree*)pNew);
  if( rc!=SQLITE_OK ){
    (void)sqlite3BtreeClose(pNew);
    return rc;
  }
  sqlite3ResetAllSchemasOfConnection(db);
  db->aDb[iDb].pSchema = sqlite3SchemaGet(db, pNew);
  if( db->aDb[iDb].pSchema==0 ){
    (void)sqlite3BtreeClose(pNew);
    db->aDb[iDb].pSchema = sqlite3SchemaGet(db, pOld);
    return SQLITE_NOMEM_BKPT;
  }
  db->aDb[iDb].pSchema->enc = ENC(db);
  db->aDb[iDb].pBt = pNew;
  return sqlite3BtreeClose(pOld);
}

/* What pragma.c calls in the place of sqlite3_file_control(). */
SQLITE_PRIVATE int mvPragmaFileControl(sqlite3 *db, const char *zDbName, int op, void *pArg){
  if( op==SQLITE_FCNTL_PRAGMA ){
    char **az = (char**)pArg;
    if( az[2] && sqlite3StrICmp(az[1], "journal_mode")==0 && sqlite3StrICmp(az[2], "lsmvbt")==0 ){
      int rc = mvBecome(db, zDbName);
      if( rc!=SQLITE_OK && rc!=SQLITE_NOTFOUND ) return rc;
    }
  }
  return sqlite3_file_control(db, zDbName, op, pArg);
}
