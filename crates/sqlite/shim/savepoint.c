/*
** Savepoints. SQLite counts them from 0, the engine from 1. Where the transaction itself is a
** savepoint, the engine has one more: the first one is the beginning of the transaction.
*/

/* Until so many of SQLite's are open. */
static int mvOpenSavepoints(MvBtree *p, int n){
  int rc = SQLITE_OK;
  while( rc==SQLITE_OK && p->nSavepoint<(u64)n+p->hasBase ){
    if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
    rc = mvTxnRc(p, oneflush_mvbt_savepoint(p->txn, &p->nSavepoint));
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeBeginStmt(Btree *pBtree, int iStatement){
  return mvOpenSavepoints((MvBtree*)pBtree, iStatement);
}

SQLITE_PRIVATE int mvBtreeSavepoint(Btree *pBtree, int op, int iSavepoint){
  MvBtree *p = (MvBtree*)pBtree;
  u64 number;
  int rc = SQLITE_OK;
  if( p==0 || p->base.inTrans!=TRANS_WRITE ) return SQLITE_OK;
  if( p->txn==0 ) return op==SAVEPOINT_ROLLBACK ? SQLITE_ABORT_ROLLBACK : SQLITE_OK;
  if( op==SAVEPOINT_ROLLBACK ) rc = mvSaveAll(p, 0, 0, 0);
  /* -1: back to the beginning of the transaction, which is the engine's first one. */
  number = (u64)(i64)(iSavepoint+1) + p->hasBase;
  if( rc!=SQLITE_OK || number>p->nSavepoint ) return rc;
  if( number==0 ) return SQLITE_INTERNAL;
  if( op==SAVEPOINT_ROLLBACK ){
    rc = mvTxnRc(p, oneflush_mvbt_rollback_to(p->txn, number));
    p->nSavepoint = number;
  }else{
    rc = mvTxnRc(p, oneflush_mvbt_release(p->txn, number));
    p->nSavepoint = number-1;
  }
  return rc;
}
