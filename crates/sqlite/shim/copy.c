/*
** A copy of a whole database into another one, of whichever engine: all trees of the one are made
** anew in the other, and the schema gets their numbers there. VACUUM and the backup API use it
** where one of both is not stock. Records come in their order, so nothing is compared.
*/

/* The five columns of a record of the schema. */
typedef struct MvSchemaRow {
  u32 aType[5];
  const u8 *aData[5];
  u32 nData[5];
} MvSchemaRow;

static int mvParseSchemaRow(const u8 *a, u32 n, MvSchemaRow *pRow){
  u32 nHeader, at, i;
  u64 data;
  at = getVarint32(a, nHeader);
  if( nHeader>n || nHeader<at ) return SQLITE_CORRUPT_BKPT;
  data = nHeader;
  for(i=0; i<5; i++){
    if( at>=nHeader ) return SQLITE_CORRUPT_BKPT;
    at += getVarint32(&a[at], pRow->aType[i]);
    pRow->nData[i] = sqlite3VdbeSerialTypeLen(pRow->aType[i]);
    if( data+pRow->nData[i]>n ) return SQLITE_CORRUPT_BKPT;
    pRow->aData[i] = &a[data];
    data += pRow->nData[i];
  }
  return SQLITE_OK;
}

/* The number of the tree: 0 for a view, a trigger or a virtual table. */
static Pgno mvRootOf(const MvSchemaRow *pRow){
  Mem mem;
  memset(&mem, 0, sizeof(mem));
  if( pRow->aType[3]==0 || pRow->aType[3]>9 || pRow->aType[3]==7 ) return 0;
  sqlite3VdbeSerialGet(pRow->aData[3], pRow->aType[3], &mem);
  return mem.u.i>0 && mem.u.i<0xffffffff ? (Pgno)mem.u.i : 0;
}

/* The same record with another number, in 4 bytes. The caller frees it. */
static u8 *mvWithRoot(const MvSchemaRow *pRow, Pgno root, int *pn){
  u8 *a;
  u32 nHeader = 1, nData = 0, at, i;
  for(i=0; i<5; i++){
    nHeader += sqlite3VarintLen(i==3 ? 4 : pRow->aType[i]);
    nData += i==3 ? 4 : pRow->nData[i];
  }
  a = sqlite3_malloc64((u64)nHeader+nData+MV_OVERRUN);
  if( a==0 ) return 0;
  /* Five types have at most 46 bytes: the length of the header has one. */
  a[0] = (u8)nHeader;
  at = 1;
  for(i=0; i<5; i++) at += sqlite3PutVarint(&a[at], i==3 ? 4 : pRow->aType[i]);
  for(i=0; i<5; i++){
    if( i==3 ){
      sqlite3Put4byte(&a[at], root);
      at += 4;
    }else{
      memcpy(&a[at], pRow->aData[i], pRow->nData[i]);
      at += pRow->nData[i];
    }
  }
  memset(&a[at], 0, MV_OVERRUN);
  *pn = (int)at;
  return a;
}

static int mvOpenCursor(Btree *p, Pgno root, int wrFlag, KeyInfo *pKeyInfo, BtCursor **ppCur){
  int rc;
  *ppCur = sqlite3MallocZero(sqlite3BtreeCursorSize());
  if( *ppCur==0 ) return SQLITE_NOMEM_BKPT;
  rc = sqlite3BtreeCursor(p, root, wrFlag, pKeyInfo, *ppCur);
  if( rc!=SQLITE_OK ){
    sqlite3_free(*ppCur);
    *ppCur = 0;
  }
  return rc;
}

static void mvCloseCursor(BtCursor *pCur){
  if( pCur ){
    (void)sqlite3BtreeCloseCursor(pCur);
    sqlite3_free(pCur);
  }
}

/* Whether a tree has records. */
static int mvHasRecords(Btree *p, Pgno root, int *pHasRecords){
  int rc;
  if( MV_IS(p) ){
    MvBtree *pMv = (MvBtree*)p;
    oneflush_mvbt_cursor *place = 0;
    oneflush_mvbt_code code;
    int64_t key;
    rc = mvTxnRc(pMv, oneflush_mvbt_cursor_open(pMv->txn, MV_TREE(root), &place));
    if( rc!=SQLITE_OK ) return rc;
    code = oneflush_mvbt_cursor_key(place, &key);
    *pHasRecords = code==ONEFLUSH_MVBT_WRONG_KIND;
    oneflush_mvbt_cursor_close(place);
  }else{
    DbPage *pPage = 0;
    rc = sqlite3PagerGet(sqlite3BtreePager(p), root, &pPage, 0);
    if( rc!=SQLITE_OK ) return rc;
    *pHasRecords = (((u8*)sqlite3PagerGetData(pPage))[0] & PTF_INTKEY)==0;
    sqlite3PagerUnref(pPage);
  }
  return SQLITE_OK;
}

/* All cells of a tree, in their order, into an empty one. */
static int mvCopyTree(Btree *pTo, Pgno to, Btree *pFrom, Pgno from, KeyInfo *pKeyInfo){
  BtCursor *pDest = 0;
  BtCursor *pSrc = 0;
  u8 *a = 0;
  int isEmpty = 0;
  int rc = mvOpenCursor(pTo, to, BTREE_WRCSR, pKeyInfo, &pDest);
  if( rc==SQLITE_OK ) rc = mvOpenCursor(pFrom, from, 0, pKeyInfo, &pSrc);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(pSrc, &isEmpty);
  while( rc==SQLITE_OK && !isEmpty ){
    BtreePayload x;
    u32 n = sqlite3BtreePayloadSize(pSrc);
    u8 *aNew = sqlite3_realloc64(a, (u64)n+MV_OVERRUN);
    if( aNew==0 ){
      rc = SQLITE_NOMEM_BKPT;
      break;
    }
    a = aNew;
    memset(&x, 0, sizeof(x));
    rc = sqlite3BtreePayload(pSrc, 0, n, a);
    if( pKeyInfo ){
      /* A stock cursor on the last record puts the next one behind it. */
      int res = 0;
      x.pKey = a;
      x.nKey = n;
      if( rc==SQLITE_OK && !MV_IS(pTo) ) rc = sqlite3BtreeLast(pDest, &res);
    }else{
      x.nKey = sqlite3BtreeIntegerKey(pSrc);
      x.pData = a;
      x.nData = (int)n;
    }
    if( rc==SQLITE_OK ) rc = sqlite3BtreeInsert(pDest, &x, BTREE_APPEND, pKeyInfo ? -1 : 0);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(pSrc, 0);
  }
  sqlite3_free(a);
  mvCloseCursor(pDest);
  mvCloseCursor(pSrc);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

/* Calls for each record of the schema, until that fails. */
static int mvEachSchemaRow(
  Btree *p,
  int (*xRow)(void *pContext, i64 key, const u8 *a, int n, const MvSchemaRow *pRow),
  void *pContext
){
  BtCursor *pCur = 0;
  int isEmpty = 0;
  int rc = mvOpenCursor(p, SCHEMA_ROOT, 0, 0, &pCur);
  if( rc==SQLITE_OK ) rc = sqlite3BtreeFirst(pCur, &isEmpty);
  while( rc==SQLITE_OK && !isEmpty ){
    u32 n = sqlite3BtreePayloadSize(pCur);
    i64 key = sqlite3BtreeIntegerKey(pCur);
    u8 *a = sqlite3_malloc64((u64)n+MV_OVERRUN);
    MvSchemaRow row;
    if( a==0 ){
      rc = SQLITE_NOMEM_BKPT;
    }else{
      memset(&a[n], 0, MV_OVERRUN);
      rc = sqlite3BtreePayload(pCur, 0, n, a);
    }
    if( rc==SQLITE_OK ) rc = mvParseSchemaRow(a, n, &row);
    if( rc==SQLITE_OK ) rc = xRow(pContext, key, a, (int)n, &row);
    sqlite3_free(a);
    if( rc==SQLITE_OK ) rc = sqlite3BtreeNext(pCur, 0);
  }
  mvCloseCursor(pCur);
  return rc==SQLITE_DONE ? SQLITE_OK : rc;
}

typedef struct MvRoots {
  Pgno *a;
  int n;
  int nAlloc;
} MvRoots;

static int mvNoteRoot(void *pContext, i64 key, const u8 *a, int n, const MvSchemaRow *pRow){
  MvRoots *pRoots = (MvRoots*)pContext;
  Pgno root = mvRootOf(pRow);
  (void)key; (void)a; (void)n;
  if( root<2 ) return SQLITE_OK;
  if( pRoots->n==pRoots->nAlloc ){
    int nNew = pRoots->nAlloc*2 + 16;
    Pgno *aNew = sqlite3_realloc64(pRoots->a, (u64)nNew*sizeof(Pgno));
    if( aNew==0 ) return SQLITE_NOMEM_BKPT;
    pRoots->a = aNew;
    pRoots->nAlloc = nNew;
  }
  pRoots->a[pRoots->n++] = root;
  return SQLITE_OK;
}

/* Drops all trees, the last one first: so a stock file with auto-vacuum moves none. */
static int mvEmpty(Btree *p){
  MvRoots roots;
  int rc, i, j;
  memset(&roots, 0, sizeof(roots));
  rc = mvEachSchemaRow(p, mvNoteRoot, &roots);
  for(i=1; i<roots.n; i++){
    Pgno root = roots.a[i];
    for(j=i; j>0 && roots.a[j-1]<root; j--) roots.a[j] = roots.a[j-1];
    roots.a[j] = root;
  }
  for(i=0; rc==SQLITE_OK && i<roots.n; i++){
    int iMoved = 0;
    rc = sqlite3BtreeDropTable(p, (int)roots.a[i], &iMoved);
  }
  if( rc==SQLITE_OK ) rc = sqlite3BtreeClearTable(p, SCHEMA_ROOT, 0);
  sqlite3_free(roots.a);
  return rc;
}

typedef struct MvCopy {
  Btree *pTo;
  Btree *pFrom;
  BtCursor *pSchema;        /* Of pTo */
  KeyInfo *pKeyInfo;        /* Stands for that of any index: nothing is compared */
} MvCopy;

static int mvCopyRow(void *pContext, i64 key, const u8 *a, int n, const MvSchemaRow *pRow){
  MvCopy *pCopy = (MvCopy*)pContext;
  Pgno root = mvRootOf(pRow);
  BtreePayload x;
  u8 *aNew = 0;
  int rc = SQLITE_OK;
  memset(&x, 0, sizeof(x));
  x.nKey = key;
  x.pData = a;
  x.nData = n;
  if( root>=2 ){
    Pgno made = 0;
    int hasRecords = 0;
    rc = mvHasRecords(pCopy->pFrom, root, &hasRecords);
    if( rc==SQLITE_OK ){
      rc = sqlite3BtreeCreateTable(pCopy->pTo, &made, hasRecords ? BTREE_BLOBKEY : BTREE_INTKEY);
    }
    if( rc==SQLITE_OK ){
      rc = mvCopyTree(pCopy->pTo, made, pCopy->pFrom, root, hasRecords ? pCopy->pKeyInfo : 0);
    }
    if( rc!=SQLITE_OK ) return rc;
    aNew = mvWithRoot(pRow, made, &x.nData);
    if( aNew==0 ) return SQLITE_NOMEM_BKPT;
    x.pData = aNew;
  }
  rc = sqlite3BtreeInsert(pCopy->pSchema, &x, BTREE_APPEND, 0);
  sqlite3_free(aNew);
  return rc;
}

/* pTo is writing, pFrom reading. The caller commits. */
static int mvCopyAll(sqlite3 *db, Btree *pTo, Btree *pFrom){
  static const u8 aWord[] = {
    BTREE_SCHEMA_VERSION, BTREE_FILE_FORMAT, BTREE_DEFAULT_CACHE_SIZE, BTREE_TEXT_ENCODING,
    BTREE_USER_VERSION, BTREE_APPLICATION_ID
  };
  MvCopy copy;
  int rc, i;
  memset(&copy, 0, sizeof(copy));
  copy.pTo = pTo;
  copy.pFrom = pFrom;
  copy.pKeyInfo = sqlite3KeyInfoAlloc(db, 1, 0);
  if( copy.pKeyInfo==0 ) return SQLITE_NOMEM_BKPT;
  rc = mvEmpty(pTo);
  if( MV_IS(pTo) ) ((MvBtree*)pTo)->isAppending = 1;
  if( rc==SQLITE_OK ) rc = mvOpenCursor(pTo, SCHEMA_ROOT, BTREE_WRCSR, 0, &copy.pSchema);
  if( rc==SQLITE_OK ) rc = mvEachSchemaRow(pFrom, mvCopyRow, &copy);
  mvCloseCursor(copy.pSchema);
  if( MV_IS(pTo) ) ((MvBtree*)pTo)->isAppending = 0;
  sqlite3KeyInfoUnref(copy.pKeyInfo);
  for(i=0; rc==SQLITE_OK && i<ArraySize(aWord); i++){
    u32 value = 0;
    sqlite3BtreeGetMeta(pFrom, aWord[i], &value);
    rc = sqlite3BtreeUpdateMeta(pTo, aWord[i], value);
  }
  return rc;
}
