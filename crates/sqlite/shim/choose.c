/*
** Which engine a database gets. One that is there says it by its first bytes. A new one gets what
** its URI says (engine=lsmvbt, engine=sqlite), else what the environment says (ONEFLUSH_ENGINE),
** else the stock one. Databases in memory and temporary ones are always stock.
*/

#define MV_MAGIC "Oneflush mvbt 1\n"

/* What the stock engine answers to the opening of a file of ours. It is no code of SQLite. */
#define MV_IS_THERE (SQLITE_NOTADB|(0x7f<<8))

/* The engine opens the file itself. So the VFS is one of SQLite's for unix, or says that its files
** are the engine's too. */
static int mvIsForVfs(sqlite3_vfs *pVfs){
  if( strncmp(pVfs->zName, "unix", 4)==0 ) return 1;
  return pVfs->iVersion>=3 && pVfs->xGetSystemCall
      && pVfs->xGetSystemCall(pVfs, "oneflush_mvbt")!=0;
}

/* What btree.c calls in the place of sqlite3PagerReadFileheader(), when it has opened a file. So a
** stock file needs no other call of the system, and no memory, than without us. */
SQLITE_PRIVATE int mvReadFileheader(Pager *pPager, int n, unsigned char *pDest){
  int rc = sqlite3PagerReadFileheader(pPager, n, pDest);
  if( rc!=SQLITE_OK || memcmp(pDest, MV_MAGIC, sizeof(MV_MAGIC)-1)!=0 ) return rc;
  return mvIsForVfs(pPager->pVfs) ? MV_IS_THERE : SQLITE_OK;
}

/* 0: the stock engine. 1: ours. Less: the text names none. */
static int mvEngine(const char *z){
  if( sqlite3_stricmp(z, "lsmvbt")==0 ) return 1;
  if( sqlite3_stricmp(z, "sqlite")==0 ) return 0;
  mvSay(SQLITE_ERROR, "engine=%s: there are lsmvbt and sqlite", z);
  return -1;
}

/* *pIsMv: there is no database yet, and it becomes one of our engine. */
static int mvChoose(sqlite3_vfs *pVfs, const char *z, sqlite3 *db, int flags, int vfsFlags,
                    int *pIsMv){
  const char *zEngine;
  int isThere = 0;
  int rc;
  *pIsMv = 0;
  if( z==0 || z[0]==0 || strcmp(z, ":memory:")==0 ) return SQLITE_OK;
  if( flags & (BTREE_MEMORY|BTREE_SINGLE) ) return SQLITE_OK;
  if( (vfsFlags & SQLITE_OPEN_MEMORY)!=0 || (vfsFlags & SQLITE_OPEN_MAIN_DB)==0 ) return SQLITE_OK;
  if( db->init.reopenMemdb || !mvIsForVfs(pVfs) ) return SQLITE_OK;
  zEngine = sqlite3_uri_parameter(z, "engine");
  if( zEngine==0 && (db->mDbFlags & DBFLAG_Vacuum)!=0 ){
    /* VACUUM INTO: as the main database. */
    zEngine = db->aDb[0].pBt && MV_IS(db->aDb[0].pBt) ? "lsmvbt" : "sqlite";
  }
  if( zEngine==0 ) zEngine = getenv("ONEFLUSH_ENGINE");
  if( zEngine==0 || zEngine[0]==0 ) return SQLITE_OK;
  /* Nobody makes a database who only reads: an empty file is an empty database of the stock one. */
  if( vfsFlags & SQLITE_OPEN_READONLY ) return SQLITE_OK;
  rc = mvIsThere(pVfs, z, &isThere);
  if( rc!=SQLITE_OK || isThere ) return rc;
  *pIsMv = mvEngine(zEngine);
  return *pIsMv<0 ? SQLITE_CANTOPEN_BKPT : SQLITE_OK;
}
