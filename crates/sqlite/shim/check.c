/*
** PRAGMA integrity_check: the engine looks at all pages of the last committed version, and each
** tree that is asked for is counted in the transaction's.
*/

/* The check keeps writers out. It waits at least so many milliseconds for the one that is there:
** SQLite's own waits for nobody. */
#define MV_CHECK_PATIENCE 5000

typedef struct MvFaults {
  StrAccum text;
  int n;
  int nMax;
} MvFaults;

static void mvFault(void *pContext, const char *zText){
  MvFaults *pFaults = (MvFaults*)pContext;
  if( pFaults->n>=pFaults->nMax ) return;
  sqlite3_str_appendf(&pFaults->text, pFaults->n ? "\n%s" : "%s", zText);
  pFaults->n++;
}

#if MV_NEW
SQLITE_PRIVATE int mvBtreeIntegrityCheck(sqlite3 *db, Btree *pBtree, Pgno *aRoot,
    sqlite3_value *aCnt, int nRoot, int mxErr, int *pnErr, char **pzOut){
#else
SQLITE_PRIVATE char *mvBtreeIntegrityCheck(sqlite3 *db, Btree *pBtree, Pgno *aRoot,
    int nRoot, int mxErr, int *pnErr){
#endif
  MvBtree *p = (MvBtree*)pBtree;
  MvFaults faults;
  int i;
  int rc = SQLITE_OK;
  memset(&faults, 0, sizeof(faults));
  faults.nMax = mxErr;
  sqlite3StrAccumInit(&faults.text, 0, 0, 0, SQLITE_MAX_LENGTH);
  /* A transaction that writes keeps others out, also the check: it only counts its trees. */
  if( p->base.inTrans!=TRANS_WRITE ){
    oneflush_mvbt_report report;
    int wait = MAX(p->db->busyTimeout, MV_CHECK_PATIENCE);
    oneflush_mvbt_code code = oneflush_mvbt_check(p->engine, wait, &report, mvFault, &faults);
    if( code!=ONEFLUSH_MVBT_OK ){
      rc = mvDbRc(p, code);
      if( rc!=SQLITE_BUSY ) mvFault(&faults, oneflush_mvbt_db_error(p->engine));
    }
  }
  for(i=0; i<nRoot; i++){
    uint64_t n = 0;
    if( aRoot[i]!=0 && p->txn!=0
     && oneflush_mvbt_tree_count(p->txn, MV_TREE(aRoot[i]), &n)!=ONEFLUSH_MVBT_OK
    ){
      mvFault(&faults, oneflush_mvbt_txn_error(p->txn));
    }
#if MV_NEW
    sqlite3MemSetArrayInt64(aCnt, i, (i64)n);
#endif
  }
  if( rc==SQLITE_BUSY ) mvFault(&faults, "not checked: another connection writes");
  (void)db;
  *pnErr = faults.n;
#if MV_NEW
  *pzOut = faults.n ? sqlite3StrAccumFinish(&faults.text) : 0;
  return SQLITE_OK;
#else
  return faults.n ? sqlite3StrAccumFinish(&faults.text) : 0;
#endif
}
