/*
** Which engine a database gets. One that is there says it by its first bytes. A new one gets what
** its URI says (engine=lsmvbt, engine=sqlite), else what the environment says (ONEFLUSH_ENGINE),
** else the stock one. Databases in memory and temporary ones are always stock.
*/

#include <sys/stat.h>

#define MV_MAGIC "Oneflush mvbt 1\n"

/* Whether the file is there, and has something in it; and whether it is one of the engine.
** It is read through the VFS: to close a file of one's own would give up the locks of others. */
static int mvLook(sqlite3_vfs *pVfs, const char *zFilename, int *pIsThere, int *pIsMv){
  char *zPath = sqlite3_malloc64((u64)pVfs->mxPathname+8);
  sqlite3_file *pFile = 0;
  struct stat buf;
  int rc;
  *pIsThere = *pIsMv = 0;
  if( zPath==0 ) return SQLITE_NOMEM_BKPT;
  /* The VFS looks for parameters behind the name of a main database. */
  memset(zPath, 0, (size_t)pVfs->mxPathname+8);
  rc = sqlite3OsFullPathname(pVfs, zFilename, pVfs->mxPathname+1, &zPath[4]);
  if( rc==SQLITE_OK_SYMLINK ) rc = SQLITE_OK;
  if( rc==SQLITE_OK ) rc = sqlite3OsAccess(pVfs, &zPath[4], SQLITE_ACCESS_EXISTS, pIsThere);
  /* To open a pipe would wait. */
  if( rc==SQLITE_OK && *pIsThere && (stat(&zPath[4], &buf)!=0 || S_ISREG(buf.st_mode)) ){
    int flags = SQLITE_OPEN_READONLY|SQLITE_OPEN_MAIN_DB;
    u8 a[sizeof(MV_MAGIC)-1];
    rc = sqlite3OsOpenMalloc(pVfs, &zPath[4], &pFile, flags, &flags);
    if( rc==SQLITE_OK ){
      *pIsMv = sqlite3OsRead(pFile, a, sizeof(a), 0)==SQLITE_OK && !memcmp(a, MV_MAGIC, sizeof(a));
      sqlite3OsCloseFree(pFile);
    }else if( rc!=SQLITE_NOMEM ){
      /* The stock engine says what is wrong with it. */
      rc = SQLITE_OK;
    }
  }
  sqlite3_free(zPath);
  return rc;
}

/* 0: the stock engine. 1: ours. Less: the text names none. */
static int mvEngine(const char *z){
  if( sqlite3_stricmp(z, "lsmvbt")==0 ) return 1;
  if( sqlite3_stricmp(z, "sqlite")==0 ) return 0;
  sqlite3_log(SQLITE_ERROR, "engine=%s: there are lsmvbt and sqlite", z);
  return -1;
}

/* The engine opens the file itself. So the VFS is one of SQLite's for unix, or says that its files
** are the engine's too. */
static int mvIsFileOf(sqlite3_vfs *pVfs){
  if( strncmp(pVfs->zName, "unix", 4)==0 ) return 1;
  return pVfs->iVersion>=3 && pVfs->xGetSystemCall
      && pVfs->xGetSystemCall(pVfs, "oneflush_mvbt")!=0;
}

/* *pIsMv: it is a database of our engine, or becomes one. */
static int mvChoose(sqlite3_vfs *pVfs, const char *z, sqlite3 *db, int flags, int vfsFlags,
                    int *pIsMv){
  const char *zEngine = 0;
  int isThere = 0;
  int rc;
  *pIsMv = 0;
  if( z==0 || z[0]==0 || strcmp(z, ":memory:")==0 ) return SQLITE_OK;
  if( flags & (BTREE_MEMORY|BTREE_SINGLE) ) return SQLITE_OK;
  if( (vfsFlags & SQLITE_OPEN_MEMORY)!=0 || (vfsFlags & SQLITE_OPEN_MAIN_DB)==0 ) return SQLITE_OK;
  if( db->init.reopenMemdb || !mvIsFileOf(pVfs) ) return SQLITE_OK;
  rc = mvLook(pVfs, z, &isThere, pIsMv);
  if( rc!=SQLITE_OK || isThere ) return rc;
  zEngine = sqlite3_uri_parameter(z, "engine");
  if( zEngine==0 && (db->mDbFlags & DBFLAG_Vacuum)!=0 ){
    /* VACUUM INTO: as the main database. */
    *pIsMv = db->aDb[0].pBt && MV_IS(db->aDb[0].pBt);
    return SQLITE_OK;
  }
  if( zEngine==0 ) zEngine = getenv("ONEFLUSH_ENGINE");
  if( zEngine && zEngine[0] ){
    int engine = mvEngine(zEngine);
    if( engine<0 ) return SQLITE_CANTOPEN_BKPT;
    *pIsMv = engine;
  }
  return SQLITE_OK;
}
