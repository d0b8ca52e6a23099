/*
** Trees, and the meta words.
*/

SQLITE_PRIVATE int mvBtreeCreateTable(Btree *pBtree, Pgno *piTable, int flags){
  MvBtree *p = (MvBtree*)pBtree;
  u32 tree = 0;
  int rc;
  if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
  rc = mvTxnRc(p, oneflush_mvbt_tree_create(p->txn, (flags & BTREE_BLOBKEY)!=0, &tree));
  if( rc==SQLITE_OK ) *piTable = MV_ROOT(tree);
  return rc;
}

SQLITE_PRIVATE int mvBtreeClearTable(Btree *pBtree, int iTable, i64 *pnChange){
  MvBtree *p = (MvBtree*)pBtree;
  uint64_t n = 0;
  int rc;
  if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
  rc = mvSaveAll(p, (Pgno)iTable, 0, 0);
  if( rc!=SQLITE_OK ) return rc;
  mvInvalidateIncrblobs(p, (Pgno)iTable, 0, 1);
  rc = mvTxnRc(p, oneflush_mvbt_tree_clear(p->txn, MV_TREE((Pgno)iTable), &n));
  if( rc==SQLITE_OK && pnChange ) *pnChange += (i64)n;
  return rc;
}

SQLITE_PRIVATE int mvBtreeClearTableOfCursor(BtCursor *pOld){
  MvCursor *pCur = (MvCursor*)pOld;
  return mvBtreeClearTable((Btree*)pCur->p, (int)pCur->root, 0);
}

SQLITE_PRIVATE int mvBtreeDropTable(Btree *pBtree, int iTable, int *piMoved){
  MvBtree *p = (MvBtree*)pBtree;
  int rc;
  *piMoved = 0;
  if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
  if( iTable<2 ) return SQLITE_CORRUPT_BKPT;
  rc = mvSaveAll(p, (Pgno)iTable, 0, 0);
  if( rc!=SQLITE_OK ) return rc;
  mvInvalidateIncrblobs(p, (Pgno)iTable, 0, 1);
  return mvTxnRc(p, oneflush_mvbt_tree_drop(p->txn, MV_TREE((Pgno)iTable)));
}

/* It cannot say that it failed: then the word is 0, and the log has the reason. */
SQLITE_PRIVATE void mvBtreeGetMeta(Btree *pBtree, int idx, u32 *pValue){
  MvBtree *p = (MvBtree*)pBtree;
  *pValue = 0;
  if( idx==BTREE_DATA_VERSION ){
    *pValue = p->pPager->iDataVersion + p->base.iBDataVersion;
  }else if( idx!=BTREE_FREE_PAGE_COUNT && p->txn ){
    (void)mvTxnRc(p, oneflush_mvbt_meta_get(p->txn, (u32)idx, pValue));
  }
}

SQLITE_PRIVATE int mvBtreeUpdateMeta(Btree *pBtree, int idx, u32 value){
  MvBtree *p = (MvBtree*)pBtree;
  if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
  if( idx<1 || idx>=BTREE_DATA_VERSION ) return SQLITE_MISUSE_BKPT;
  return mvTxnRc(p, oneflush_mvbt_meta_set(p->txn, (u32)idx, value));
}

/* Only the stock B-tree's own backup asks for it. */
SQLITE_PRIVATE int mvBtreeNewDb(Btree *pBtree){
  (void)pBtree;
  return SQLITE_OK;
}

static u64 mvPages(MvBtree *p){
  oneflush_mvbt_txn *txn = p->txn;
  uint64_t n = 0;
  if( p->engine==0 ) return 0;
  if( txn==0 && oneflush_mvbt_begin_read(p->engine, &txn)!=ONEFLUSH_MVBT_OK ) return 0;
  (void)oneflush_mvbt_page_count(txn, &n);
  if( txn!=p->txn ) oneflush_mvbt_txn_close(txn);
  return n;
}

/* The greatest number of a tree. Numbers of trees that are gone are not given again. */
static Pgno mvGreatestRoot(MvBtree *p){
  Pgno root = 1;
  size_t n = 0;
  u32 *a;
  if( p->txn==0 || oneflush_mvbt_tree_list(p->txn, 0, 0, &n)!=ONEFLUSH_MVBT_OK ) return root;
  a = n>0 ? sqlite3_malloc64(n*sizeof(u32)) : 0;
  if( a ){
    size_t nNow = 0;
    if( oneflush_mvbt_tree_list(p->txn, a, n, &nNow)==ONEFLUSH_MVBT_OK ) root = MV_ROOT(a[n-1]);
    sqlite3_free(a);
  }
  return root;
}

/* SQLite takes a root page behind this for damage, so it is never less than those of the trees. */
SQLITE_PRIVATE Pgno mvBtreeLastPage(Btree *pBtree){
  MvBtree *p = (MvBtree*)pBtree;
  u64 n = mvPages(p);
  Pgno root = mvGreatestRoot(p);
  Pgno pages = n>SQLITE_MAX_PAGE_COUNT ? SQLITE_MAX_PAGE_COUNT : (Pgno)n;
  return MAX(pages, root);
}
