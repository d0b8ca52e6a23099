/*
** Insert and delete.
*/

#ifndef SQLITE_OMIT_INCRBLOB
/* What is done to a row takes it away from those who read its blobs. */
static void mvInvalidateIncrblobs(MvBtree *p, Pgno root, i64 row, int isAll){
  MvCursor *pCur;
  if( !p->base.hasIncrblobCur ) return;
  p->base.hasIncrblobCur = 0;
  for(pCur=p->pCursor; pCur; pCur=pCur->pNext){
    if( (pCur->curFlags & BTCF_Incrblob)==0 ) continue;
    p->base.hasIncrblobCur = 1;
    if( pCur->root==root && (isAll || pCur->key==row) ) MV_SET_STATE(pCur, CURSOR_INVALID);
  }
}
#else
# define mvInvalidateIncrblobs(p,root,row,isAll)
#endif

/* All records come behind those that are there. */
static int mvBehind(void *pContext, const uint8_t *a, size_t n){
  (void)pContext; (void)a; (void)n;
  return -1;
}

/* What stands where the cursor stood is replaced. In a tree whose order is damaged it may not be
** found: a scan that changes its own rows would never end. */
static int mvReplaced(int rc, int flags, bool isReplaced){
  if( rc==SQLITE_OK && (flags & BTREE_SAVEPOSITION)!=0 && !isReplaced ) rc = SQLITE_CORRUPT_BKPT;
  return rc;
}

static int mvPutRecord(MvCursor *pCur, UnpackedRecord *pRecord, const void *a, i64 n, int flags){
  MvSought sought;
  bool isReplaced = 0;
  int rc;
  mvSeek(&sought, pRecord);
  rc = mvTxnRc(pCur->p, oneflush_mvbt_insert_record(pCur->p->txn, MV_TREE(pCur->root), a,
                                                    (size_t)n, mvCompare, &sought, &isReplaced));
  return mvReplaced(mvCompareRc(rc, pRecord), flags, isReplaced);
}

/* pX: null, or it has the fields of the record. */
static int mvInsertRecord(MvCursor *pCur, const void *a, i64 n, const BtreePayload *pX, int flags){
  MvBtree *p = pCur->p;
  UnpackedRecord *pRecord;
  u8 *aCopy;
  int rc;
  if( p->isAppending ){
    return mvTxnRc(p, oneflush_mvbt_insert_record(p->txn, MV_TREE(pCur->root), a, (size_t)n,
                                                  mvBehind, 0, 0));
  }
  if( pX && pX->nMem ){
    UnpackedRecord r;
    memset(&r, 0, sizeof(r));
    r.pKeyInfo = pCur->pKeyInfo;
    r.aMem = pX->aMem;
    r.nField = pX->nMem;
    return mvPutRecord(pCur, &r, a, n, flags);
  }
  aCopy = sqlite3_malloc64((u64)n+MV_OVERRUN);
  if( aCopy==0 ) return SQLITE_NOMEM_BKPT;
  memcpy(aCopy, a, (size_t)n);
  memset(&aCopy[n], 0, MV_OVERRUN);
  rc = mvUnpack(pCur->pKeyInfo, aCopy, n, &pRecord);
  if( rc==SQLITE_OK ) rc = mvPutRecord(pCur, pRecord, a, n, flags);
  mvFreeRecord(pCur->pKeyInfo, pRecord);
  sqlite3_free(aCopy);
  return rc;
}

static int mvInsertInteger(MvCursor *pCur, i64 key, const void *a, int n, int nZero, int flags){
  MvBtree *p = pCur->p;
  bool isReplaced = 0;
  u8 *aAll = 0;
  int rc;
  if( nZero>0 ){
    aAll = sqlite3_malloc64((u64)n+(u64)nZero);
    if( aAll==0 ) return SQLITE_NOMEM_BKPT;
    if( n>0 ) memcpy(aAll, a, n);
    memset(&aAll[n], 0, nZero);
    a = aAll;
    n += nZero;
  }
  rc = mvTxnRc(p, oneflush_mvbt_insert_integer(p->txn, MV_TREE(pCur->root), key, a, (size_t)n,
                                               &isReplaced));
  sqlite3_free(aAll);
  return mvReplaced(rc, flags, isReplaced);
}

/* seekResult is not used: the engine looks for the place itself. */
static int mvBtreeInsert(BtCursor *pOld, const BtreePayload *pX, int flags, int seekResult){
  MvCursor *pCur = (MvCursor*)pOld;
  MvBtree *p = pCur->p;
  const void *pKey = pX->pKey;
  i64 nKey = pX->nKey;
  int rc;
  (void)seekResult;
  if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
  if( MV_STATE(pCur)==CURSOR_FAULT ) return pCur->skipNext;
  rc = mvSaveAll(p, pCur->root, pCur, 0);
  if( rc!=SQLITE_OK ) return rc;
  if( flags & BTREE_PREFORMAT ){
    if( p->row.pDest!=pOld ) return SQLITE_INTERNAL;
    p->row.pDest = 0;
  }
  mvFreeSaved(pCur);
  mvForget(pCur);
  MV_SET_STATE(pCur, CURSOR_INVALID);
  if( pCur->pKeyInfo==0 ){
    mvInvalidateIncrblobs(p, pCur->root, nKey, 0);
    if( flags & BTREE_PREFORMAT ){
      rc = mvInsertInteger(pCur, nKey, p->row.a, p->row.n, 0, flags);
    }else{
      rc = mvInsertInteger(pCur, nKey, pX->pData, pX->nData, pX->nZero, flags);
    }
    if( rc==SQLITE_OK ){
      pCur->key = nKey;
      pCur->skipNext = 0;
      MV_SET_STATE(pCur, CURSOR_REQUIRESEEK);
    }
    return rc;
  }
  if( flags & BTREE_PREFORMAT ){
    rc = mvInsertRecord(pCur, p->row.a, p->row.n, 0, flags);
  }else{
    rc = mvInsertRecord(pCur, pKey, nKey, pX, flags);
  }
  if( rc==SQLITE_OK && (flags & BTREE_SAVEPOSITION)!=0 ){
    u8 *a = sqlite3_malloc64((u64)nKey+MV_OVERRUN);
    if( a==0 ) return SQLITE_NOMEM_BKPT;
    memcpy(a, pKey, (size_t)nKey);
    memset(&a[nKey], 0, MV_OVERRUN);
    pCur->pSaved = a;
    pCur->key = nKey;
    pCur->skipNext = 0;
    MV_SET_STATE(pCur, CURSOR_REQUIRESEEK);
  }
  return rc;
}

/* Two records of an index, for the engine's own restore. pContext: the cursor. */
static int mvOrder(void *pContext, const uint8_t *a, size_t na, const uint8_t *b, size_t nb){
  MvCursor *pCur = (MvCursor*)pContext;
  UnpackedRecord *pRecord = 0;
  u8 *aCopy = sqlite3_malloc64((u64)nb+MV_OVERRUN);
  int c = 0;
  if( aCopy ){
    memcpy(aCopy, b, nb);
    memset(&aCopy[nb], 0, MV_OVERRUN);
    if( mvUnpack(pCur->pKeyInfo, aCopy, (i64)nb, &pRecord)==SQLITE_OK ){
      MvSought sought;
      mvSeek(&sought, pRecord);
      c = mvCompare(&sought, a, na);
    }
    mvFreeRecord(pCur->pKeyInfo, pRecord);
  }
  sqlite3_free(aCopy);
  return c;
}

SQLITE_PRIVATE int mvBtreeDelete(BtCursor *pOld, u8 flags){
  MvCursor *pCur = (MvCursor*)pOld;
  MvBtree *p = pCur->p;
  int isKept = (flags & BTREE_SAVEPOSITION)!=0;
  int rc;
  if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
  if( MV_STATE(pCur)!=CURSOR_VALID ){
    if( MV_STATE(pCur)<CURSOR_REQUIRESEEK ) return SQLITE_CORRUPT_BKPT;
    rc = mvRestore(pCur);
    if( rc!=SQLITE_OK || MV_STATE(pCur)!=CURSOR_VALID ) return rc;
  }
  rc = mvSaveAll(p, pCur->root, pCur, 0);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->pKeyInfo==0 ){
    rc = pCur->hasKey ? SQLITE_OK : mvLoad(pCur);
    if( rc==SQLITE_OK ) mvInvalidateIncrblobs(p, pCur->root, pCur->key, 0);
  }else if( isKept ){
    u8 *a = 0;
    int n = 0;
    rc = mvReadAll(pCur, &a, &n);
    if( rc==SQLITE_OK ){
      mvFreeSaved(pCur);
      pCur->pSaved = a;
      pCur->key = n;
    }
  }
  if( rc==SQLITE_OK ) rc = mvCatchUp(pCur);
  if( rc!=SQLITE_OK ) return rc;
  rc = mvCursorRc(pCur, oneflush_mvbt_cursor_delete(pCur->place, mvOrder, pCur));
  mvForget(pCur);
  pCur->skipNext = 0;
  MV_SET_STATE(pCur, isKept ? CURSOR_REQUIRESEEK : CURSOR_INVALID);
  return rc;
}
