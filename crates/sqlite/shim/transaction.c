/*
** Transactions. One of SQLite is one of the engine: TRANS_READ reads a snapshot, TRANS_WRITE is the
** one that writes. Each step of a commit is the engine's: the first one makes it durable, the
** second one shows it to readers.
*/

/* Of the version that is read or written: data_version counts those of others. */
static void mvNoteVersion(MvBtree *p, u64 version){
  if( version!=p->version ){
    p->version = version;
    p->pPager->iDataVersion++;
  }
}

/* A cursor that was left in it keeps its handle, and not its snapshot. One that has ended already
** answers that this is misuse. */
static void mvEndTxn(oneflush_mvbt_txn *txn){
  oneflush_mvbt_code code = txn ? oneflush_mvbt_rollback(txn) : ONEFLUSH_MVBT_OK;
  if( code!=ONEFLUSH_MVBT_OK && code!=ONEFLUSH_MVBT_MISUSE ){
    (void)mvFailed(code, oneflush_mvbt_txn_error(txn));
  }
  oneflush_mvbt_txn_close(txn);
}

static void mvCloseTxn(MvBtree *p){
  if( p->txn!=p->pinned ) mvEndTxn(p->txn);
  p->txn = 0;
  p->nSavepoint = 0;
  p->hasBase = 0;
}

/* Nobody stands in the transaction, and there is none any more. */
static void mvEndTransaction(MvBtree *p){
  mvLeaveTransaction(p);
  mvCloseTxn(p);
  p->base.inTrans = TRANS_NONE;
}

static int mvStart(MvBtree*);

static int mvBeginRead(MvBtree *p){
  uint64_t version = 0;
  if( p->pinned ){
    p->txn = p->pinned;
  }else{
    int rc = mvDbRc(p, oneflush_mvbt_begin_read(p->engine, &p->txn));
    if( rc!=SQLITE_OK ) return rc;
  }
  if( oneflush_mvbt_txn_version(p->txn, &version)==ONEFLUSH_MVBT_OK ) mvNoteVersion(p, version);
  p->base.inTrans = TRANS_READ;
  return SQLITE_OK;
}

/* Opens the database. Others may be opening or closing it. */
static int mvStartOrWait(MvBtree *p, int mayWait){
  int rc;
  do{
    rc = mvStart(p);
  }while( rc==SQLITE_BUSY && mayWait && sqlite3InvokeBusyHandler(&p->db->busyHandler) );
  return rc;
}

/* Begins the engine's transaction that writes. Those who wait for sqlite3_busy_timeout() wait in
** the engine, which wakes them in turn. A busy handler of the program is called instead. */
static int mvTakeWriter(MvBtree *p, int mayWait, oneflush_mvbt_txn **ppTxn){
  int ms = mayWait ? p->db->busyTimeout : 0;
  int rc;
  do{
    rc = mvDbRc(p, oneflush_mvbt_begin_write(p->engine, ms>0 ? ms : 0, ppTxn));
  }while( rc==SQLITE_BUSY && mayWait && ms<=0
       && sqlite3InvokeBusyHandler(&p->db->busyHandler) );
  return rc;
}

/* From nothing, or from a snapshot that is still the newest one: who has that does not wait. */
static int mvBeginWrite(MvBtree *p){
  oneflush_mvbt_txn *writer = 0;
  uint64_t newest = 0;
  int rc;
  if( p->isReadOnly ) return SQLITE_READONLY;
  if( p->pinned ){
    mvSay(SQLITE_READONLY,
        "lsmvbt: the connection reads an older version; PRAGMA oneflush_snapshot=latest ends that");
    return SQLITE_READONLY;
  }
  rc = mvTakeWriter(p, p->base.inTrans==TRANS_NONE, &writer);
  if( rc==SQLITE_OK ) rc = mvDbRc(p, oneflush_mvbt_data_version(p->engine, &newest));
  if( rc==SQLITE_OK && p->base.inTrans==TRANS_READ ){
    /* Nobody else commits from here on. */
    uint64_t read = 0;
    rc = mvTxnRc(p, oneflush_mvbt_txn_version(p->txn, &read));
    if( rc==SQLITE_OK && read!=newest ) rc = SQLITE_BUSY_SNAPSHOT;
  }
  if( rc!=SQLITE_OK ){
    oneflush_mvbt_txn_close(writer);
    return rc;
  }
  mvLeaveTransaction(p);
  mvCloseTxn(p);
  p->txn = writer;
  p->base.inTrans = TRANS_WRITE;
  mvNoteVersion(p, newest);
  /* What ROLLBACK TO an outermost savepoint goes back to. */
  if( p->db->isTransactionSavepoint ){
    rc = mvTxnRc(p, oneflush_mvbt_savepoint(p->txn, &p->nSavepoint));
    p->hasBase = rc==SQLITE_OK;
  }
  return rc;
}

static int mvOpenSavepoints(MvBtree*, int);

SQLITE_PRIVATE int mvBtreeBeginTrans(Btree *pBtree, int wrflag, int *pSchemaVersion){
  MvBtree *p = (MvBtree*)pBtree;
  u8 before = p->base.inTrans;
  int rc = SQLITE_OK;
  if( before==TRANS_NONE || (before==TRANS_READ && wrflag) ){
    rc = mvStartOrWait(p, before==TRANS_NONE);
    if( rc==SQLITE_OK ) rc = wrflag ? mvBeginWrite(p) : mvBeginRead(p);
  }
  if( rc==SQLITE_OK && pSchemaVersion ){
    sqlite3BtreeGetMeta(pBtree, BTREE_SCHEMA_VERSION, (u32*)pSchemaVersion);
  }
  if( rc==SQLITE_OK && wrflag ) rc = mvOpenSavepoints(p, p->db->nSavepoint);
  return rc;
}

SQLITE_PRIVATE int mvBtreeCommitPhaseOne(Btree *pBtree, const char *zSuperJrnl){
  MvBtree *p = (MvBtree*)pBtree;
  int rc;
  (void)zSuperJrnl;
  if( p->base.inTrans!=TRANS_WRITE ) return SQLITE_OK;
  if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
  mvLeaveTransaction(p);
  rc = mvTxnRc(p, oneflush_mvbt_prepare(p->txn));
  /* The engine has taken it back. sqlite3BtreeRollback() follows. */
  if( rc!=SQLITE_OK ) mvCloseTxn(p);
  return rc;
}

/* Other statements of this connection read on. */
static int mvReadsOn(MvBtree *p){
  return p->db->nVdbeRead>1;
}

SQLITE_PRIVATE int mvBtreeCommitPhaseTwo(Btree *pBtree, int bCleanup){
  MvBtree *p = (MvBtree*)pBtree;
  int rc = SQLITE_OK;
  if( p->base.inTrans==TRANS_WRITE ){
    uint64_t version = p->version;
    if( p->txn==0 ) return bCleanup ? SQLITE_OK : SQLITE_ABORT_ROLLBACK;
    if( mvReadsOn(p) ){
      rc = mvTxnRc(p, oneflush_mvbt_finish_and_read(p->txn, &version));
    }else{
      rc = mvTxnRc(p, oneflush_mvbt_finish(p->txn, &version));
    }
    if( version!=p->version ){
      p->version = version;
      p->pPager->iDataVersion++;
      p->base.iBDataVersion--;
    }
    p->isFresh = 0;
    p->nSavepoint = 0;
    p->hasBase = 0;
    p->base.inTrans = TRANS_READ;
    if( rc!=SQLITE_OK ){
      /* It is durable. Only who reads on cannot. */
      mvBtreeTripAllCursors(pBtree, rc, 0);
      mvEndTransaction(p);
      return SQLITE_OK;
    }
  }
  if( p->base.inTrans!=TRANS_NONE && !mvReadsOn(p) ) mvEndTransaction(p);
  return rc;
}

SQLITE_PRIVATE int mvBtreeCommit(Btree *pBtree){
  int rc = mvBtreeCommitPhaseOne(pBtree, 0);
  if( rc==SQLITE_OK ) rc = mvBtreeCommitPhaseTwo(pBtree, 0);
  return rc;
}

/* Undoes the transaction. Those who read on get the snapshot that it began with. */
static int mvUndo(MvBtree *p){
  oneflush_mvbt_txn *writer = p->txn;
  int rc = SQLITE_OK;
  mvLeaveTransaction(p);
  p->txn = 0;
  p->nSavepoint = 0;
  p->hasBase = 0;
  p->base.inTrans = TRANS_NONE;
  /* Before others may write: then nobody's commit comes in between. */
  if( mvReadsOn(p) ) rc = mvBeginRead(p);
  if( writer ){
    oneflush_mvbt_code code = oneflush_mvbt_rollback(writer);
    /* A prepare that failed has ended it. */
    if( code!=ONEFLUSH_MVBT_OK && code!=ONEFLUSH_MVBT_MISUSE ){
      int rc2 = mvFailed(code, oneflush_mvbt_txn_error(writer));
      if( rc==SQLITE_OK ) rc = rc2;
    }
    oneflush_mvbt_txn_close(writer);
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeRollback(Btree *pBtree, int tripCode, int writeOnly){
  MvBtree *p = (MvBtree*)pBtree;
  int rc = SQLITE_OK;
  if( tripCode==SQLITE_OK ){
    rc = tripCode = mvSaveAll(p, 0, 0, 0);
    if( rc ) writeOnly = 0;
  }
  if( tripCode ){
    int rc2 = mvBtreeTripAllCursors(pBtree, tripCode, writeOnly);
    if( rc2!=SQLITE_OK ) rc = rc2;
  }
  if( p->base.inTrans==TRANS_WRITE ){
    int rc2 = mvUndo(p);
    if( rc2!=SQLITE_OK ) rc = rc2;
  }else if( p->base.inTrans==TRANS_READ && !mvReadsOn(p) ){
    mvEndTransaction(p);
  }
  return rc;
}

SQLITE_PRIVATE int mvBtreeTxnState(Btree *pBtree){
  return pBtree ? pBtree->inTrans : TRANS_NONE;
}
