/*
** Pragmas, limits and status: what concerns pages, journals and caches of the stock B-tree has no
** effect here, and says so where SQLite asks.
*/

/* The engine reads past the cache of the system: what is not here is read from the disk. */
#define MV_CACHE_BYTES (64<<20)

static MvPager *mvPager(const Pager *pPager){
  return (MvPager*)pPager;
}

SQLITE_PRIVATE Pager *mvBtreePager(Btree *pBtree){
  return &((MvBtree*)pBtree)->pPager->base;
}
SQLITE_PRIVATE const char *mvPagerFilename(const Pager *pPager, int nullIfMemDb){
  (void)nullIfMemDb;
  return pPager->zFilename;
}
SQLITE_PRIVATE const char *mvBtreeGetFilename(Btree *pBtree){
  return ((MvBtree*)pBtree)->pPager->base.zFilename;
}
/* There is none: it goes into no super-journal. */
SQLITE_PRIVATE const char *mvBtreeGetJournalname(Btree *pBtree){
  (void)pBtree;
  return 0;
}
SQLITE_PRIVATE sqlite3_vfs *mvPagerVfs(Pager *pPager){
  return mvPager(pPager)->pVfs;
}
SQLITE_PRIVATE sqlite3_file *mvPagerFile(Pager *pPager){
  return &mvPager(pPager)->file.base;
}
SQLITE_PRIVATE sqlite3_file *mvPagerJrnlFile(Pager *pPager){
  return &mvPager(pPager)->closed;
}
SQLITE_PRIVATE int mvPagerIsMemdb(Pager *pPager){
  (void)pPager;
  return 0;
}

/* A commit needs no journal beside it: that is what SQLite takes this for. */
SQLITE_PRIVATE int mvPagerGetJournalMode(Pager *pPager){
  (void)pPager;
  return PAGER_JOURNALMODE_WAL;
}
SQLITE_PRIVATE int mvPagerSetJournalMode(Pager *pPager, int eMode){
  (void)pPager; (void)eMode;
  return PAGER_JOURNALMODE_WAL;
}
SQLITE_PRIVATE int mvPagerOkToChangeJournalMode(Pager *pPager){
  (void)pPager;
  return 0;
}
SQLITE_PRIVATE i64 mvPagerJournalSizeLimit(Pager *pPager, i64 iLimit){
  (void)pPager; (void)iLimit;
  return -1;
}
SQLITE_PRIVATE int mvPagerLockingMode(Pager *pPager, int eMode){
  (void)pPager; (void)eMode;
  return PAGER_LOCKINGMODE_NORMAL;
}
SQLITE_PRIVATE int mvPagerExclusiveLock(Pager *pPager){
  (void)pPager;
  return SQLITE_OK;
}
SQLITE_PRIVATE int mvBtreeSetVersion(Btree *pBtree, int iVersion){
  (void)pBtree; (void)iVersion;
  return SQLITE_OK;
}

#ifndef SQLITE_OMIT_WAL
SQLITE_PRIVATE int mvPagerWalSupported(Pager *pPager){
  (void)pPager;
  return 0;
}
SQLITE_PRIVATE int mvPagerWalCallback(Pager *pPager){
  (void)pPager;
  return 0;
}
SQLITE_PRIVATE int mvPagerCloseWal(Pager *pPager, sqlite3 *db){
  (void)pPager; (void)db;
  return SQLITE_OK;
}
/* There is no log: -1 and -1, as of a stock file that has none. */
SQLITE_PRIVATE int mvBtreeCheckpoint(Btree *pBtree, int eMode, int *pnLog, int *pnCkpt){
  (void)pBtree; (void)eMode;
  if( pnLog ) *pnLog = -1;
  if( pnCkpt ) *pnCkpt = -1;
  return SQLITE_OK;
}
# ifdef SQLITE_ENABLE_SNAPSHOT
SQLITE_PRIVATE int mvPagerSnapshotGet(Pager *pPager, sqlite3_snapshot **ppSnapshot){
  (void)pPager; (void)ppSnapshot;
  return SQLITE_ERROR;
}
SQLITE_PRIVATE int mvPagerSnapshotOpen(Pager *pPager, sqlite3_snapshot *pSnapshot){
  (void)pPager; (void)pSnapshot;
  return SQLITE_ERROR;
}
SQLITE_PRIVATE int mvPagerSnapshotRecover(Pager *pPager){
  (void)pPager;
  return SQLITE_ERROR;
}
SQLITE_PRIVATE int mvPagerSnapshotCheck(Pager *pPager, sqlite3_snapshot *pSnapshot){
  (void)pPager; (void)pSnapshot;
  return SQLITE_ERROR;
}
SQLITE_PRIVATE void mvPagerSnapshotUnlock(Pager *pPager){
  (void)pPager;
}
# endif
#endif

/* Raw pages: dbstat, sqlite_dbpage, serialize. */
SQLITE_PRIVATE int mvPagerGet(Pager *pPager, Pgno pgno, DbPage **ppPage, int clrFlag){
  (void)pPager; (void)pgno; (void)clrFlag;
  *ppPage = 0;
  mvSay(SQLITE_ERROR, "lsmvbt: a database in this format has no pages of SQLite's");
  return SQLITE_ERROR;
}
SQLITE_PRIVATE void mvPagerPagecount(Pager *pPager, int *pn){
  *pn = (int)sqlite3BtreeLastPage((Btree*)mvPager(pPager)->p);
}
SQLITE_PRIVATE void mvPagerTruncateImage(Pager *pPager, Pgno pgno){
  (void)pPager; (void)pgno;
}

#if MV_NEW && (defined(SQLITE_DEBUG) || defined(SQLITE_ENABLE_WALSTAT))
SQLITE_PRIVATE void mvPagerWalStat(Pager *pPager, sqlite3_str *pStr){
  (void)pPager; (void)pStr;
}
#endif

SQLITE_PRIVATE u32 mvPagerDataVersion(Pager *pPager){
  return mvPager(pPager)->iDataVersion;
}
SQLITE_PRIVATE int mvPagerFlush(Pager *pPager){
  (void)pPager;
  return SQLITE_OK;
}
SQLITE_PRIVATE void mvPagerShrink(Pager *pPager){
  (void)pPager;
}
SQLITE_PRIVATE void mvPagerClearCache(Pager *pPager){
  (void)pPager;
}
SQLITE_PRIVATE void mvBtreeClearCache(Btree *pBtree){
  (void)pBtree;
}
SQLITE_PRIVATE int mvPagerMemUsed(Pager *pPager){
  (void)pPager;
  return 0;
}
/* sqlite3_db_status(): pages that the process has read, and those that it has written with the
** blocks that commit them. */
#if MV_NEW
SQLITE_PRIVATE void mvPagerCacheStat(Pager *pPager, int eStat, int reset, u64 *pnVal){
#else
SQLITE_PRIVATE void mvPagerCacheStat(Pager *pPager, int eStat, int reset, int *pnVal){
#endif
  MvBtree *p = ((MvPager*)pPager)->p;
  oneflush_mvbt_statistics stats;
  int isWrite = eStat==SQLITE_DBSTATUS_CACHE_WRITE;
  u64 n;
  if( !isWrite && eStat!=SQLITE_DBSTATUS_CACHE_MISS ) return;
  if( p->engine==0 || oneflush_mvbt_stats(p->engine, &stats)!=ONEFLUSH_MVBT_OK ) return;
  n = isWrite ? stats.pages_written + stats.blocks_written : stats.pages_read;
  *pnVal += n - p->aCacheStat[isWrite];
  if( reset ) p->aCacheStat[isWrite] = n;
}

/* SQLite sets its default for every database, and it is little for an engine that reads past the
** cache of the system: then it has MV_CACHE_BYTES. */
static int mvHasDefaultCache(MvBtree *p){
  return p->nCache==0 || p->nCache==SQLITE_DEFAULT_CACHE_SIZE;
}
static u64 mvCacheBytes(MvBtree *p){
  i64 n = p->nCache;
  if( mvHasDefaultCache(p) ) return MV_CACHE_BYTES;
  return n<0 ? (u64)-n*1024 : (u64)n*p->nPage;
}
/* The connections of the process share it. One that is new changes nothing. */
SQLITE_PRIVATE int mvBtreeSetCacheSize(Btree *pBtree, int mxPage){
  MvBtree *p = (MvBtree*)pBtree;
  int isChange = !mvHasDefaultCache(p);
  p->nCache = mxPage;
  isChange |= !mvHasDefaultCache(p);
  if( p->engine && isChange ) (void)oneflush_mvbt_set_cache_bytes(p->engine, mvCacheBytes(p));
  return SQLITE_OK;
}
SQLITE_PRIVATE int mvBtreeSetSpillSize(Btree *pBtree, int mxPage){
  (void)pBtree;
  return mxPage>1 ? mxPage : 1;
}
#if SQLITE_MAX_MMAP_SIZE>0
SQLITE_PRIVATE int mvBtreeSetMmapLimit(Btree *pBtree, sqlite3_int64 szMmap){
  (void)pBtree; (void)szMmap;
  return SQLITE_OK;
}
#endif
/* A commit is durable, whatever PRAGMA synchronous says. */
SQLITE_PRIVATE int mvBtreeSetPagerFlags(Btree *pBtree, unsigned pgFlags){
  (void)pBtree; (void)pgFlags;
  return SQLITE_OK;
}
/* Of a database that is still to be made. */
SQLITE_PRIVATE int mvBtreeSetPageSize(Btree *pBtree, int nPage, int nReserve, int iFix){
  MvBtree *p = (MvBtree*)pBtree;
  (void)nReserve; (void)iFix;
  if( p->engine==0 && nPage>=512 && nPage<=SQLITE_MAX_PAGE_SIZE && (nPage & (nPage-1))==0 ){
    p->nPage = (u32)nPage;
  }
  return SQLITE_OK;
}
SQLITE_PRIVATE int mvBtreeGetPageSize(Btree *pBtree){
  return (int)((MvBtree*)pBtree)->nPage;
}
SQLITE_PRIVATE Pgno mvBtreeMaxPageCount(Btree *pBtree, Pgno mxPage){
  MvBtree *p = (MvBtree*)pBtree;
  uint64_t n = SQLITE_MAX_PAGE_COUNT;
  if( mvStart(p)!=SQLITE_OK ) return SQLITE_MAX_PAGE_COUNT;
  if( mxPage ){
    (void)oneflush_mvbt_set_pages_max(p->engine, mxPage, &n);
  }else{
    (void)oneflush_mvbt_pages_max(p->engine, &n);
  }
  return n>0xfffffffe ? 0xfffffffe : (Pgno)n;
}
SQLITE_PRIVATE int mvBtreeSecureDelete(Btree *pBtree, int newFlag){
  (void)pBtree; (void)newFlag;
  return 0;
}
SQLITE_PRIVATE int mvBtreeGetRequestedReserve(Btree *pBtree){
  (void)pBtree;
  return 0;
}
SQLITE_PRIVATE int mvBtreeGetReserveNoMutex(Btree *pBtree){
  (void)pBtree;
  return 0;
}
SQLITE_PRIVATE int mvBtreeSetAutoVacuum(Btree *pBtree, int autoVacuum){
  (void)pBtree;
  return autoVacuum ? SQLITE_READONLY : SQLITE_OK;
}
SQLITE_PRIVATE int mvBtreeGetAutoVacuum(Btree *pBtree){
  (void)pBtree;
  return BTREE_AUTOVACUUM_NONE;
}
SQLITE_PRIVATE int mvBtreeIncrVacuum(Btree *pBtree){
  (void)pBtree;
  return SQLITE_DONE;
}
SQLITE_PRIVATE int mvBtreeIsReadonly(Btree *pBtree){
  MvBtree *p = (MvBtree*)pBtree;
  return p->isReadOnly || p->pinned!=0;
}
SQLITE_PRIVATE int mvBtreeIsInBackup(Btree *pBtree){
  return pBtree->nBackup!=0;
}
#ifdef SQLITE_DEBUG
SQLITE_PRIVATE sqlite3_uint64 mvBtreeSeekCount(Btree *pBtree){
  (void)pBtree;
  return 0;
}
#endif

SQLITE_PRIVATE void *mvBtreeSchema(Btree *pBtree, int nBytes, void(*xFree)(void*)){
  MvBtree *p = (MvBtree*)pBtree;
  if( p->pSchema==0 && nBytes ){
    p->pSchema = sqlite3DbMallocZero(0, nBytes);
    p->xFreeSchema = xFree;
  }
  return p->pSchema;
}

/* Shared cache: there is none. */
SQLITE_PRIVATE int mvBtreeSchemaLocked(Btree *pBtree){
  (void)pBtree;
  return SQLITE_OK;
}
#ifndef SQLITE_OMIT_SHARED_CACHE
SQLITE_PRIVATE int mvBtreeLockTable(Btree *pBtree, int iTab, u8 isWriteLock){
  (void)pBtree; (void)iTab; (void)isWriteLock;
  return SQLITE_OK;
}
SQLITE_PRIVATE void mvBtreeEnter(Btree *pBtree){
  (void)pBtree;
}
SQLITE_PRIVATE void mvBtreeEnterCursor(BtCursor *pCur){
  (void)pCur;
}
SQLITE_PRIVATE int mvBtreeSharable(Btree *pBtree){
  (void)pBtree;
  return 0;
}
SQLITE_PRIVATE int mvBtreeConnectionCount(Btree *pBtree){
  (void)pBtree;
  return 1;
}
# if SQLITE_THREADSAFE
SQLITE_PRIVATE void mvBtreeLeave(Btree *pBtree){
  (void)pBtree;
}
SQLITE_PRIVATE void mvBtreeLeaveCursor(BtCursor *pCur){
  (void)pCur;
}
#  ifndef NDEBUG
SQLITE_PRIVATE int mvBtreeHoldsMutex(Btree *pBtree){
  (void)pBtree;
  return 1;
}
#  endif
# endif
#endif
