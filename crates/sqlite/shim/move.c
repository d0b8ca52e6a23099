/*
** Cursors: how they move.
*/

/* What a comparison of the engine gets. */
typedef struct MvSought {
  UnpackedRecord *pRecord;
  RecordCompare xCompare;
} MvSought;

/* A stored record beside the one that is sought. The stock comparison may read behind its end. */
static int mvCompare(void *pContext, const uint8_t *a, size_t n){
  MvSought *pSought = (MvSought*)pContext;
  u8 aSmall[256+MV_OVERRUN];
  u8 *aCopy = aSmall;
  int c;
  if( n>256 ){
    aCopy = n<=0x7fffffff-MV_OVERRUN ? sqlite3_malloc64(n+MV_OVERRUN) : 0;
    if( aCopy==0 ){
      pSought->pRecord->errCode = SQLITE_NOMEM;
      return 1;
    }
  }
  memcpy(aCopy, a, n);
  memset(&aCopy[n], 0, MV_OVERRUN);
  c = pSought->xCompare((int)n, aCopy, pSought->pRecord);
  if( aCopy!=aSmall ) sqlite3_free(aCopy);
  /* Of a damaged record: nothing is equal to it, so nothing is put in its place. */
  return pSought->pRecord->errCode ? 1 : c;
}

static void mvSeek(MvSought *pSought, UnpackedRecord *pRecord){
  pRecord->errCode = 0;
  pSought->pRecord = pRecord;
  pSought->xCompare = sqlite3VdbeFindCompare(pRecord);
}

/* What went wrong in a comparison. */
static int mvCompareRc(int rc, UnpackedRecord *pRecord){
  if( rc==SQLITE_OK && pRecord->errCode ){
    rc = pRecord->errCode==SQLITE_NOMEM ? SQLITE_NOMEM_BKPT : SQLITE_CORRUPT_BKPT;
  }
  return rc;
}

/* Before a cursor goes elsewhere. */
static int mvDepart(MvCursor *pCur){
  mvForget(pCur);
  mvFreeSaved(pCur);
  MV_SET_STATE(pCur, CURSOR_INVALID);
  pCur->nWanted = 1;
  return mvOpenPlace(pCur);
}

/* Behind a seek that found no equal key: on the cell behind it, or the last one before it. */
static int mvSettle(MvCursor *pCur, int isFound, int *pRes){
  bool isOn = isFound;
  int rc = SQLITE_OK;
  *pRes = 0;
  if( !isFound ){
    rc = mvCursorRc(pCur, oneflush_mvbt_cursor_is_on_cell(pCur->place, &isOn));
    *pRes = 1;
    if( rc==SQLITE_OK && !isOn ){
      rc = mvCursorRc(pCur, oneflush_mvbt_cursor_last(pCur->place, &isOn));
      *pRes = -1;
    }
  }
  if( rc==SQLITE_OK && isOn ) MV_SET_STATE(pCur, CURSOR_VALID);
  return rc;
}

static int mvTableMoveto(MvCursor *pCur, i64 key, int *pRes){
  bool isFound = 0;
  int rc;
  if( MV_STATE(pCur)==CURSOR_VALID && pCur->hasKey && pCur->key==key ){
    *pRes = 0;
    return SQLITE_OK;
  }
  rc = mvDepart(pCur);
  if( rc==SQLITE_OK ){
    rc = mvCursorRc(pCur, oneflush_mvbt_cursor_seek_integer(pCur->place, key, &isFound));
  }
  if( rc==SQLITE_OK ) rc = mvSettle(pCur, isFound, pRes);
  if( rc==SQLITE_OK && isFound ){
    pCur->key = key;
    pCur->hasKey = 1;
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeTableMoveto(BtCursor *pCur, i64 key, int bias, int *pRes){
  (void)bias;
  return mvTableMoveto((MvCursor*)pCur, key, pRes);
}

/* Sets eqSeen if the record at the cursor begins with what is sought. */
static int mvSeesEqual(MvCursor *pCur, MvSought *pSought){
  int rc = mvLoad(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->nLocal==pCur->nPayload ){
    (void)pSought->xCompare((int)pCur->nLocal, pCur->aLocal, pSought->pRecord);
  }else{
    u8 *a;
    int n;
    rc = mvReadAll(pCur, &a, &n);
    if( rc!=SQLITE_OK ) return rc;
    (void)pSought->xCompare(n, a, pSought->pRecord);
    sqlite3_free(a);
  }
  return mvCompareRc(SQLITE_OK, pSought->pRecord);
}

/* SQLite reads nothing where a seek has met no equal record, and compares nothing where it has. An
** inner page of the engine may have a record that is gone from the leaves. So what was met counts
** only if it is there: at the cursor, or before it if it stands behind all equal ones. */
static int mvConfirmEqual(MvCursor *pCur, MvSought *pSought, int *pRes){
  UnpackedRecord *pRecord = pSought->pRecord;
  int rc = SQLITE_OK;
  pRecord->eqSeen = 0;
  if( MV_STATE(pCur)!=CURSOR_VALID ) return SQLITE_OK;
  rc = mvSeesEqual(pCur, pSought);
  if( rc==SQLITE_OK && !pRecord->eqSeen && pRecord->default_rc<0 && *pRes>0 ){
    rc = mvBtreePrevious((BtCursor*)pCur, 0);
    *pRes = -1;
    if( rc==SQLITE_OK ) rc = mvSeesEqual(pCur, pSought);
    if( rc==SQLITE_DONE ){
      /* Nothing stands before it. */
      int isEmpty = 0;
      rc = mvBtreeFirst((BtCursor*)pCur, &isEmpty);
      *pRes = isEmpty ? -1 : 1;
    }
  }
  return rc;
}

static int mvIndexMoveto(MvCursor *pCur, UnpackedRecord *pRecord, int *pRes){
  MvSought sought;
  bool isFound = 0;
  int rc = mvDepart(pCur);
  mvSeek(&sought, pRecord);
  if( rc==SQLITE_OK ){
    rc = mvCursorRc(pCur,
        oneflush_mvbt_cursor_seek_record(pCur->place, mvCompare, &sought, &isFound));
  }
  rc = mvCompareRc(rc, pRecord);
  if( rc==SQLITE_OK ) rc = mvSettle(pCur, isFound, pRes);
  if( rc==SQLITE_OK && pRecord->eqSeen && (pCur->hints & BTREE_SEEK_EQ)!=0 ){
    rc = mvConfirmEqual(pCur, &sought, pRes);
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeIndexMoveto(BtCursor *pCur, UnpackedRecord *pRecord, int *pRes){
  return mvIndexMoveto((MvCursor*)pCur, pRecord, pRes);
}

static int mvGoTo(
  BtCursor *pOld,
  oneflush_mvbt_code (*xGo)(oneflush_mvbt_cursor*, bool*),
  int *pRes
){
  MvCursor *pCur = (MvCursor*)pOld;
  bool isOn = 0;
  int rc = mvDepart(pCur);
  if( rc==SQLITE_OK ) rc = mvCursorRc(pCur, xGo(pCur->place, &isOn));
  if( rc==SQLITE_OK ){
    *pRes = !isOn;
    if( isOn ) MV_SET_STATE(pCur, CURSOR_VALID);
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeFirst(BtCursor *pCur, int *pRes){
  return mvGoTo(pCur, oneflush_mvbt_cursor_first, pRes);
}

SQLITE_PRIVATE int mvBtreeLast(BtCursor *pCur, int *pRes){
  return mvGoTo(pCur, oneflush_mvbt_cursor_last, pRes);
}

SQLITE_PRIVATE int mvBtreeIsEmpty(BtCursor *pCur, int *pRes){
  if( MV_STATE((MvCursor*)pCur)==CURSOR_VALID ){
    *pRes = 0;
    return SQLITE_OK;
  }
  return mvBtreeFirst(pCur, pRes);
}

/* Before a step to the next cell (sign 1) or to the one before (-1). *pIsThere: a skipNext of this
** sign has made it already. */
static int mvBeforeStep(MvCursor *pCur, int sign, int *pIsThere){
  int rc;
  *pIsThere = 0;
  if( MV_STATE(pCur)==CURSOR_VALID ) return SQLITE_OK;
  rc = mvRestore(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( MV_STATE(pCur)==CURSOR_INVALID ) return SQLITE_DONE;
  if( MV_STATE(pCur)==CURSOR_SKIPNEXT ){
    MV_SET_STATE(pCur, CURSOR_VALID);
    *pIsThere = pCur->skipNext*sign>0;
  }
  return SQLITE_OK;
}

/* isOn: false if there was no cell. */
static int mvAfterStep(MvCursor *pCur, int rc, int isOn){
  mvForget(pCur);
  pCur->nWanted = pCur->nWanted<MV_AHEAD/4 ? pCur->nWanted*4 : MV_AHEAD;
  if( rc==SQLITE_OK && isOn ) return SQLITE_OK;
  MV_SET_STATE(pCur, CURSOR_INVALID);
  return rc!=SQLITE_OK ? rc : SQLITE_DONE;
}

SQLITE_PRIVATE int mvBtreeNext(BtCursor *pOld, int flags){
  MvCursor *pCur = (MvCursor*)pOld;
  bool isOn = 0;
  int isThere;
  int rc;
  (void)flags;
  if( MV_STATE(pCur)==CURSOR_VALID && pCur->iAhead+1<pCur->nAhead ){
    pCur->iAhead++;
    pCur->hasCell = pCur->hasKey = 0;
    return SQLITE_OK;
  }
  rc = mvBeforeStep(pCur, 1, &isThere);
  if( rc!=SQLITE_OK || isThere ) return rc;
  if( pCur->nAhead ){
    int n = pCur->iAhead+1-pCur->iPlace;
    rc = mvCursorRc(pCur, oneflush_mvbt_cursor_advance(pCur->place, n, &isOn));
  }else{
    rc = mvCursorRc(pCur, oneflush_mvbt_cursor_next(pCur->place, &isOn));
  }
  return mvAfterStep(pCur, rc, isOn);
}

SQLITE_PRIVATE int mvBtreePrevious(BtCursor *pOld, int flags){
  MvCursor *pCur = (MvCursor*)pOld;
  size_t n = 0;
  size_t nAhead = 0;
  int isThere;
  int rc;
  (void)flags;
  if( MV_STATE(pCur)==CURSOR_VALID && pCur->nAhead && pCur->iAhead>0 ){
    pCur->iAhead--;
    pCur->hasCell = pCur->hasKey = 0;
    return SQLITE_OK;
  }
  rc = mvBeforeStep(pCur, -1, &isThere);
  if( rc==SQLITE_OK ) rc = mvCatchUp(pCur);
  if( rc!=SQLITE_OK || isThere ) return rc;
  rc = mvCursorRc(pCur, oneflush_mvbt_cursor_retreat(pCur->place, mvCellsWanted(pCur), &n));
  rc = mvAfterStep(pCur, rc, n>0);
  if( rc==SQLITE_OK && n>1 ){
    /* It has gone back over these, and stands on the last one. */
    rc = mvCursorRc(pCur,
        oneflush_mvbt_cursor_cells(pCur->place, pCur->aAhead, n, &nAhead));
    if( rc!=SQLITE_OK || nAhead!=n ) return mvAfterStep(pCur, rc, 0);
    pCur->nAhead = (u8)n;
    pCur->iAhead = (u8)(n-1);
    pCur->iPlace = 0;
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeEof(BtCursor *pCur){
  return MV_STATE((MvCursor*)pCur)!=CURSOR_VALID;
}

SQLITE_PRIVATE int mvBtreeCount(sqlite3 *db, BtCursor *pOld, i64 *pnEntry){
  MvCursor *pCur = (MvCursor*)pOld;
  uint64_t n = 0;
  int rc;
  (void)db;
  if( pCur->p->txn==0 ) return SQLITE_ABORT;
  rc = mvTxnRc(pCur->p, oneflush_mvbt_tree_count(pCur->p->txn, MV_TREE(pCur->root), &n));
  *pnEntry = (i64)n;
  return rc;
}

SQLITE_PRIVATE i64 mvBtreeRowCountEst(BtCursor *pOld){
  MvCursor *pCur = (MvCursor*)pOld;
  uint64_t n = 0;
  if( MV_STATE(pCur)!=CURSOR_VALID || oneflush_mvbt_cursor_estimate(pCur->place, &n)!=0 ){
    return -1;
  }
  return n>0x7fffffffffffffff ? 0x7fffffffffffffff : (i64)n;
}
