/*
** Cursors: how they are opened and closed, and how they keep their place across changes.
**
** A cursor of the engine belongs to a transaction of the engine. Ours lives longer: before a
** transaction ends or becomes another one, and before a tree changes under it, it saves its key
** and goes to CURSOR_REQUIRESEEK, as the stock cursor does. It looks for its key when it is used.
*/

/* Moves by what is saved. In move.c. */
static int mvTableMoveto(MvCursor*, i64, int*);
static int mvIndexMoveto(MvCursor*, UnpackedRecord*, int*);
/* What stands at a cursor. In payload.c. */
static int mvLoad(MvCursor*);
static int mvReadAll(MvCursor*, u8**, int*);

/* What was known of the cell is not so any more. */
static void mvForget(MvCursor *pCur){
  pCur->hasCell = 0;
  pCur->hasKey = 0;
  pCur->nAhead = 0;
}

/* A statement may have a column at hand that it has not read yet, where a function of the program
** ends the transaction meanwhile. So the cell stays until the cursor is used again. */
static void mvLeavePlace(MvCursor *pCur){
  if( pCur->place==0 ) return;
  oneflush_mvbt_cursor_close(pCur->left);
  pCur->left = pCur->place;
  pCur->place = 0;
}

/* The cursor of the engine goes to where this one stands. What is at hand stays. */
static int mvCatchUp(MvCursor *pCur){
  int n = pCur->iAhead-pCur->iPlace;
  size_t nMoved = (size_t)-n;
  int rc;
  if( pCur->nAhead==0 || n==0 ) return SQLITE_OK;
  if( n>0 ){
    rc = mvCursorRc(pCur, oneflush_mvbt_cursor_advance(pCur->place, (size_t)n, 0));
  }else{
    rc = mvCursorRc(pCur, oneflush_mvbt_cursor_retreat(pCur->place, (size_t)-n, &nMoved));
  }
  if( rc==SQLITE_OK && n<0 && nMoved!=(size_t)-n ) rc = SQLITE_INTERNAL;
  if( rc==SQLITE_OK ) pCur->iPlace = pCur->iAhead;
  return rc;
}

static void mvFreeSaved(MvCursor *pCur){
  sqlite3_free(pCur->pSaved);
  pCur->pSaved = 0;
}

/* The cursor of the engine, in the transaction as it is now. */
static int mvOpenPlace(MvCursor *pCur){
  MvBtree *p = pCur->p;
  if( pCur->place ) return SQLITE_OK;
  oneflush_mvbt_cursor_close(pCur->left);
  pCur->left = 0;
  if( p->txn==0 ) return SQLITE_ABORT;
  if( pCur->root==0 || pCur->root>=0xfffffffe ) return SQLITE_CORRUPT_BKPT;
  return mvTxnRc(p, oneflush_mvbt_cursor_open(p->txn, MV_TREE(pCur->root), &pCur->place));
}

/* Keeps the key on which the cursor stands. isForced: also of a pinned one. */
static int mvSave(MvCursor *pCur, int isForced){
  int rc = SQLITE_OK;
  if( MV_STATE(pCur)!=CURSOR_VALID && MV_STATE(pCur)!=CURSOR_SKIPNEXT ) return SQLITE_OK;
  if( (pCur->curFlags & BTCF_Pinned)!=0 && !isForced ) return SQLITE_CONSTRAINT_PINNED;
  if( MV_STATE(pCur)==CURSOR_SKIPNEXT ){
    MV_SET_STATE(pCur, CURSOR_VALID);
  }else{
    pCur->skipNext = 0;
  }
  if( pCur->pKeyInfo==0 ){
    if( !pCur->hasKey ) rc = mvLoad(pCur);
  }else{
    int n;
    u8 *a;
    rc = mvReadAll(pCur, &a, &n);
    if( rc==SQLITE_OK ){
      mvFreeSaved(pCur);
      pCur->pSaved = a;
      pCur->key = n;
    }
  }
  if( rc==SQLITE_OK ){
    MV_SET_STATE(pCur, CURSOR_REQUIRESEEK);
    mvForget(pCur);
  }
  return rc;
}

/* All cursors of a tree but one. Tree 0: of all trees. A pinned cursor of a tree that is about to
** change refuses, also where it stands on no cell: the stock one would stand on some. */
static int mvSaveAll(MvBtree *p, Pgno root, MvCursor *pExcept, int isForced){
  MvCursor *pCur;
  for(pCur=p->pCursor; pCur; pCur=pCur->pNext){
    if( pCur!=pExcept && (root==0 || pCur->root==root) ){
      int rc = mvSave(pCur, isForced);
      if( rc!=SQLITE_OK ) return rc;
      if( root!=0 && (pCur->curFlags & BTCF_Pinned)!=0 ) return SQLITE_CONSTRAINT_PINNED;
    }
  }
  return SQLITE_OK;
}

/* Before the transaction of the engine ends: nobody stands in it any more. */
static void mvLeaveTransaction(MvBtree *p){
  MvCursor *pCur;
  for(pCur=p->pCursor; pCur; pCur=pCur->pNext){
    int rc = mvSave(pCur, 1);
    if( rc!=SQLITE_OK ){
      MV_SET_STATE(pCur, CURSOR_FAULT);
      pCur->skipNext = rc;
      mvForget(pCur);
    }
    mvLeavePlace(pCur);
  }
}

/* Takes a record apart, which the caller frees. Only the fields of the key count: what stands in an
** inner page of the engine may have other fields behind them, those that a replaced record had. */
static int mvUnpack(struct KeyInfo *pKeyInfo, const void *a, i64 n, UnpackedRecord **ppRecord){
  UnpackedRecord *pRecord = sqlite3VdbeAllocUnpackedRecord(pKeyInfo);
  *ppRecord = pRecord;
  if( pRecord==0 ) return SQLITE_NOMEM_BKPT;
  MV_UNPACK(pKeyInfo, n, a, pRecord);
  if( pRecord->nField==0 || pRecord->nField>pKeyInfo->nAllField ) return SQLITE_CORRUPT_BKPT;
  if( pRecord->nField>pKeyInfo->nKeyField ) pRecord->nField = pKeyInfo->nKeyField;
  return SQLITE_OK;
}

static void mvFreeRecord(struct KeyInfo *pKeyInfo, UnpackedRecord *pRecord){
  if( pRecord ) sqlite3DbFree(pKeyInfo->db, pRecord);
}

/* Goes to a saved key, or a packed one. pKey: null in an integer tree. */
static int mvMoveto(MvCursor *pCur, const void *pKey, i64 nKey, int *pRes){
  UnpackedRecord *pRecord;
  int rc;
  if( pCur->pKeyInfo==0 ) return mvTableMoveto(pCur, nKey, pRes);
  rc = mvUnpack(pCur->pKeyInfo, pKey, nKey, &pRecord);
  if( rc==SQLITE_OK ) rc = mvIndexMoveto(pCur, pRecord, pRes);
  mvFreeRecord(pCur->pKeyInfo, pRecord);
  return rc;
}

/* As the stock cursor: on its cell, or beside it with skipNext. */
static int mvRestore(MvCursor *pCur){
  int rc;
  int skipNext = 0;
  void *pSaved = pCur->pSaved;
  if( MV_STATE(pCur)<CURSOR_REQUIRESEEK ) return SQLITE_OK;
  if( MV_STATE(pCur)==CURSOR_FAULT ) return pCur->skipNext;
  MV_SET_STATE(pCur, CURSOR_INVALID);
  /* To move gives up what is saved, and here it is what is looked for. */
  pCur->pSaved = 0;
  rc = mvMoveto(pCur, pSaved, pCur->key, &skipNext);
  sqlite3_free(pSaved);
  if( rc==SQLITE_OK ){
    if( skipNext ) pCur->skipNext = skipNext;
    if( pCur->skipNext && MV_STATE(pCur)==CURSOR_VALID ) MV_SET_STATE(pCur, CURSOR_SKIPNEXT);
  }
  return rc;
}

/* How many cells to ask for. There is room for them in aAhead. Without memory it is one. */
static int mvCellsWanted(MvCursor *pCur){
  if( pCur->nWanted>1 && pCur->aAhead==&pCur->one ){
    oneflush_mvbt_cell_ahead *aNew = sqlite3_malloc64(MV_AHEAD*sizeof(*aNew));
    if( aNew==0 ) return 1;
    pCur->aAhead = aNew;
  }
  return pCur->nWanted;
}

/* Opens a cursor in memory of sqlite3BtreeCursorSize() bytes. */
static int mvBtreeCursor(Btree *pBtree, Pgno root, int wrFlag, struct KeyInfo *pKeyInfo,
                         BtCursor *pNew){
  MvBtree *p = (MvBtree*)pBtree;
  MvCursor *pCur = (MvCursor*)pNew;
  if( root<1 ) return SQLITE_CORRUPT_BKPT;
  memset(pCur, 0, sizeof(*pCur));
  MV_SET_STATE(pCur, CURSOR_INVALID);
  pCur->aAhead = &pCur->one;
  pCur->curFlags = wrFlag ? BTCF_WriteFlag : 0;
  pCur->p = p;
  pCur->root = root;
  pCur->pKeyInfo = pKeyInfo;
  pCur->pNext = p->pCursor;
  p->pCursor = pCur;
  return SQLITE_OK;
}

SQLITE_PRIVATE int mvBtreeCloseCursor(BtCursor *pOld){
  MvCursor *pCur = (MvCursor*)pOld;
  MvCursor **pp;
  if( pCur->p==0 ) return SQLITE_OK;
  for(pp=&pCur->p->pCursor; *pp!=pCur; pp=&(*pp)->pNext){}
  *pp = pCur->pNext;
  if( pCur->p->row.pDest==pOld ) pCur->p->row.pDest = 0;
  oneflush_mvbt_cursor_close(pCur->place);
  oneflush_mvbt_cursor_close(pCur->left);
  mvFreeSaved(pCur);
  if( pCur->aAhead!=&pCur->one ) sqlite3_free(pCur->aAhead);
  memset(pCur, 0, sizeof(*pCur));
  return SQLITE_OK;
}

SQLITE_PRIVATE void mvBtreeClearCursor(BtCursor *pOld){
  MvCursor *pCur = (MvCursor*)pOld;
  mvFreeSaved(pCur);
  mvForget(pCur);
  MV_SET_STATE(pCur, CURSOR_INVALID);
}

/* Of either engine. */
static MV_NOINLINE int mvHasMoved(const BtCursor *pCur){
  return MV_STATE((const MvCursor*)pCur)!=CURSOR_VALID;
}

SQLITE_PRIVATE int mvBtreeCursorRestore(BtCursor *pOld, int *pDifferentRow){
  MvCursor *pCur = (MvCursor*)pOld;
  int rc = mvRestore(pCur);
  *pDifferentRow = rc!=SQLITE_OK || MV_STATE(pCur)!=CURSOR_VALID;
  return rc;
}

SQLITE_PRIVATE int mvBtreeCursorIsValidNN(BtCursor *pCur){
  return MV_STATE((MvCursor*)pCur)==CURSOR_VALID;
}
#ifndef NDEBUG
SQLITE_PRIVATE int mvBtreeCursorIsValid(BtCursor *pCur){
  return mvBtreeCursorIsValidNN(pCur);
}
#endif
#ifdef SQLITE_DEBUG
SQLITE_PRIVATE int mvBtreeClosesWithCursor(Btree *pBtree, BtCursor *pCur){
  return ((MvCursor*)pCur)->p==(MvBtree*)pBtree;
}
#endif

SQLITE_PRIVATE void mvBtreeCursorHintFlags(BtCursor *pCur, unsigned x){
  ((MvCursor*)pCur)->hints = (u8)x;
}
SQLITE_PRIVATE int mvBtreeCursorHasHint(BtCursor *pCur, unsigned int mask){
  return (((MvCursor*)pCur)->hints & mask)!=0;
}
SQLITE_PRIVATE void mvBtreeCursorPin(BtCursor *pCur){
  ((MvCursor*)pCur)->curFlags |= BTCF_Pinned;
}
SQLITE_PRIVATE void mvBtreeCursorUnpin(BtCursor *pCur){
  ((MvCursor*)pCur)->curFlags &= ~BTCF_Pinned;
}

SQLITE_PRIVATE int mvBtreeTripAllCursors(Btree *pBtree, int errCode, int writeOnly){
  MvBtree *p = (MvBtree*)pBtree;
  MvCursor *pCur;
  if( p==0 ) return SQLITE_OK;
  for(pCur=p->pCursor; pCur; pCur=pCur->pNext){
    if( writeOnly && (pCur->curFlags & BTCF_WriteFlag)==0 ){
      int rc = mvSave(pCur, 0);
      if( rc!=SQLITE_OK ){
        (void)mvBtreeTripAllCursors(pBtree, rc, 0);
        return rc;
      }
    }else{
      mvBtreeClearCursor((BtCursor*)pCur);
      MV_SET_STATE(pCur, CURSOR_FAULT);
      pCur->skipNext = errCode;
    }
  }
  return SQLITE_OK;
}
