/*
** What history a file keeps, and a connection that reads an older version of it.
**
** A connection with a snapshot has one transaction of the engine that reads it, from one PRAGMA
** oneflush_snapshot to the next. Each transaction of SQLite is that one. So the version stays, also
** if the file gives it up for others. The connection may not write meanwhile.
*/

/* Its messages. In pragma.c. */
static int mvRefuse(char**, int, char*);
static int mvRefuseAsEngine(char**, MvBtree*, oneflush_mvbt_code);
static int mvAnswer(char**, char*);
static void mvJsonText(sqlite3_str*, const char*);

/* 1970-01-01, in the milliseconds of SQLite's Julian days. */
#define MV_EPOCH_JD (((i64)21086676)*10000000)
/* PRAGMA oneflush_history shows so many marks, as `oneflush mvbt history` does. */
#define MV_MARKS 20

static void mvAppendTime(sqlite3_str *pOut, u64 ms){
  DateTime at;
  memset(&at, 0, sizeof(at));
  at.iJD = (i64)ms + MV_EPOCH_JD;
  at.validJD = 1;
  computeYMD(&at);
  sqlite3_str_appendf(pOut, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", at.Y, at.M, at.D,
                      (int)(ms/3600000%24), (int)(ms/60000%60), (int)(ms/1000%60), (int)(ms%1000));
}

/* A date, or a date and a time of the day, in UTC or with an offset, as SQLite reads them. */
static int mvParseTime(const char *z, u64 *pMs){
  DateTime at;
  memset(&at, 0, sizeof(at));
  if( parseYyyyMmDd(z, &at)!=0 ) return SQLITE_ERROR;
  computeJD(&at);
  if( at.isError || at.iJD<MV_EPOCH_JD ) return SQLITE_ERROR;
  *pMs = (u64)(at.iJD - MV_EPOCH_JD);
  return SQLITE_OK;
}

/* A number without a sign, and what is behind it and blanks. */
static const char *mvParseCount(const char *z, u64 *pn){
  u64 n = 0;
  if( !sqlite3Isdigit(*z) ) return 0;
  for(; sqlite3Isdigit(*z); z++){
    if( n>(0x7fffffffffffffff-9)/10 ) return 0;
    n = n*10 + (*z-'0');
  }
  while( sqlite3Isspace(*z) ) z++;
  *pn = n;
  return z;
}

static char *mvRetainText(const oneflush_mvbt_history *pHistory){
  u64 n = pHistory->retain_count;
  switch( pHistory->retain ){
    case ONEFLUSH_MVBT_RETAIN_VERSIONS: return sqlite3_mprintf("%llu versions", n);
    case ONEFLUSH_MVBT_RETAIN_MS:       return sqlite3_mprintf("%llu ms", n);
    case ONEFLUSH_MVBT_RETAIN_OFF:      break;
  }
  return sqlite3_mprintf("off");
}

/* PRAGMA oneflush_history: a JSON object, as that of `oneflush mvbt history --json`. Its value says
** how many marks it shows, the newest first. */
static int mvPragmaHistory(MvBtree *p, char **az){
  oneflush_mvbt_history history;
  oneflush_mvbt_mark *aMark = 0;
  oneflush_mvbt_code code;
  size_t nRoom = 0;
  u64 nShown = MV_MARKS;
  size_t i;
  sqlite3_str *pOut;
  if( az[2] ){
    const char *zEnd = mvParseCount(az[2], &nShown);
    if( zEnd==0 || *zEnd ){
      return mvRefuse(az, SQLITE_ERROR,
          sqlite3_mprintf("PRAGMA oneflush_history='%s': its value is a number of marks", az[2]));
    }
  }
  code = oneflush_mvbt_history_list(p->engine, 0, 0, &history);
  while( code==ONEFLUSH_MVBT_OK && history.marks>nRoom ){
    oneflush_mvbt_mark *aNew;
    nRoom = history.marks+8;
    aNew = sqlite3_realloc64(aMark, nRoom*sizeof(*aMark));
    if( aNew==0 ){
      sqlite3_free(aMark);
      return SQLITE_NOMEM_BKPT;
    }
    aMark = aNew;
    code = oneflush_mvbt_history_list(p->engine, aMark, nRoom, &history);
  }
  if( code!=ONEFLUSH_MVBT_OK ){
    sqlite3_free(aMark);
    return mvRefuseAsEngine(az, p, code);
  }
  pOut = sqlite3_str_new(p->db);
  sqlite3_str_appendall(pOut, "{\"file\":");
  mvJsonText(pOut, p->pPager->base.zFilename);
  sqlite3_str_appendall(pOut, ",\"retain\":");
  switch( history.retain ){
    case ONEFLUSH_MVBT_RETAIN_VERSIONS:
      sqlite3_str_appendf(pOut, "{\"versions\":%llu}", history.retain_count);
      break;
    case ONEFLUSH_MVBT_RETAIN_MS:
      sqlite3_str_appendf(pOut, "{\"duration_ms\":%llu}", history.retain_count);
      break;
    case ONEFLUSH_MVBT_RETAIN_OFF:
      sqlite3_str_appendall(pOut, "null");
      break;
  }
  sqlite3_str_appendf(pOut, ",\"from\":%llu,\"to\":%llu,\"marks_count\":%llu,\"marks\":[",
                      history.from, history.to, (u64)history.marks);
  for(i=0; i<history.marks && i<nShown; i++){
    const oneflush_mvbt_mark *pMark = &aMark[history.marks-1-i];
    sqlite3_str_appendf(pOut, "%s{\"version\":%llu,\"time\":\"", i ? "," : "", pMark->version);
    mvAppendTime(pOut, pMark->time_ms);
    sqlite3_str_appendf(pOut, "\",\"time_ms\":%llu,\"number\":%llu}", pMark->time_ms,
                        pMark->number);
  }
  sqlite3_str_appendall(pOut, "]}");
  sqlite3_free(aMark);
  return mvAnswer(az, sqlite3_str_finish(pOut));
}

/* 'off', '100 versions' or '7 days'. */
static int mvParseRetain(const char *z, u32 *pKind, u64 *pn){
  static const struct {
    const char *zUnit;
    u64 ms;                   /* 0: versions */
  } aUnit[] = {
    { "version", 0 }, { "versions", 0 },
    { "ms", 1 },
    { "s", 1000 }, { "second", 1000 }, { "seconds", 1000 },
    { "min", 60000 }, { "minute", 60000 }, { "minutes", 60000 },
    { "h", 3600000 }, { "hour", 3600000 }, { "hours", 3600000 },
    { "d", 86400000 }, { "day", 86400000 }, { "days", 86400000 },
  };
  u64 n = 0;
  int i;
  *pKind = ONEFLUSH_MVBT_RETAIN_OFF;
  *pn = 0;
  if( sqlite3_stricmp(z, "off")==0 ) return SQLITE_OK;
  z = mvParseCount(z, &n);
  if( z==0 || n==0 ) return SQLITE_ERROR;
  for(i=0; i<(int)ArraySize(aUnit); i++){
    if( sqlite3_stricmp(z, aUnit[i].zUnit)!=0 ) continue;
    *pKind = aUnit[i].ms ? ONEFLUSH_MVBT_RETAIN_MS : ONEFLUSH_MVBT_RETAIN_VERSIONS;
    if( aUnit[i].ms==0 ){
      *pn = n;
    }else if( n>0xffffffffffff/aUnit[i].ms ){
      return SQLITE_ERROR;
    }else{
      *pn = n*aUnit[i].ms;
    }
    return SQLITE_OK;
  }
  return SQLITE_ERROR;
}

/* In the transaction that writes, or else in one of its own. */
static int mvSetRetain(MvBtree *p, u32 kind, u64 n){
  oneflush_mvbt_txn *txn = 0;
  oneflush_mvbt_code code;
  uint64_t before = 0;
  uint64_t version = 0;
  int rc;
  if( p->base.inTrans==TRANS_WRITE ){
    if( p->txn==0 ) return SQLITE_ABORT_ROLLBACK;
    return mvTxnRc(p, oneflush_mvbt_set_retain(p->txn, kind, n));
  }
  if( p->isReadOnly || p->pinned ) return SQLITE_READONLY;
  p->db->busyHandler.nBusy = 0;
  rc = mvTakeWriter(p, 1, &txn);
  if( rc!=SQLITE_OK ) return rc;
  (void)oneflush_mvbt_data_version(p->engine, &before);
  code = oneflush_mvbt_set_retain(txn, kind, n);
  if( code==ONEFLUSH_MVBT_OK ) code = oneflush_mvbt_commit(txn, &version);
  rc = code==ONEFLUSH_MVBT_OK ? SQLITE_OK : mvFailed(code, oneflush_mvbt_txn_error(txn));
  oneflush_mvbt_txn_close(txn);
  /* No row has changed. */
  if( rc==SQLITE_OK && before==p->version && p->base.inTrans==TRANS_NONE ) p->version = version;
  return rc;
}

/* PRAGMA oneflush_retain: what the file keeps for readers of older versions. */
static int mvPragmaRetain(MvBtree *p, char **az){
  oneflush_mvbt_history history;
  oneflush_mvbt_code code;
  if( az[2] ){
    u32 kind;
    u64 n;
    int rc = mvParseRetain(az[2], &kind, &n);
    if( rc!=SQLITE_OK ){
      return mvRefuse(az, rc, sqlite3_mprintf("PRAGMA oneflush_retain='%s': it is off, a number of "
                                              "versions ('100 versions') or a time ('7 days')",
                                              az[2]));
    }
    rc = mvSetRetain(p, kind, n);
    if( rc!=SQLITE_OK ) return mvRefuse(az, rc, sqlite3_mprintf("%s", sqlite3ErrStr(rc)));
    history.retain = kind;
    history.retain_count = n;
    return mvAnswer(az, mvRetainText(&history));
  }
  code = oneflush_mvbt_history_list(p->engine, 0, 0, &history);
  if( code!=ONEFLUSH_MVBT_OK ) return mvRefuseAsEngine(az, p, code);
  return mvAnswer(az, mvRetainText(&history));
}

static void mvUnpin(MvBtree *p){
  mvEndTxn(p->pinned);
  p->pinned = 0;
}

/* Begins to read what a text names. */
static int mvPin(MvBtree *p, char **az){
  oneflush_mvbt_txn *txn = 0;
  oneflush_mvbt_code code;
  u64 n = 0;
  const char *zEnd = mvParseCount(az[2], &n);
  if( zEnd && *zEnd==0 ){
    code = oneflush_mvbt_begin_read_at(p->engine, n, &txn);
  }else if( mvParseTime(az[2], &n)==SQLITE_OK ){
    code = oneflush_mvbt_begin_read_at_time(p->engine, n, &txn);
  }else{
    return mvRefuse(az, SQLITE_ERROR, sqlite3_mprintf(
        "PRAGMA oneflush_snapshot='%s': it is latest, the number of a version or a time in UTC "
        "('2026-01-31 12:00:00')", az[2]));
  }
  if( code!=ONEFLUSH_MVBT_OK ) return mvRefuseAsEngine(az, p, code);
  mvUnpin(p);
  p->pinned = txn;
  return SQLITE_OK;
}

/* PRAGMA oneflush_snapshot: which version the connection reads. The schema is read anew: that of
** the other version may differ. */
static int mvPragmaSnapshot(MvBtree *p, char **az){
  uint64_t version = 0;
  if( az[2] ){
    if( p->base.inTrans!=TRANS_NONE || p->db->nVdbeActive>0 || !p->db->autoCommit ){
      return mvRefuse(az, SQLITE_ERROR, sqlite3_mprintf(
          "PRAGMA oneflush_snapshot: end the transaction and all statements first"));
    }
    if( az[2][0]==0 || sqlite3_stricmp(az[2], "latest")==0 ){
      mvUnpin(p);
    }else{
      int rc = mvPin(p, az);
      if( rc!=SQLITE_OK ) return rc;
    }
    sqlite3ResetAllSchemasOfConnection(p->db);
  }
  if( p->pinned==0 ) return mvAnswer(az, sqlite3_mprintf("latest"));
  (void)oneflush_mvbt_txn_version(p->pinned, &version);
  return mvAnswer(az, sqlite3_mprintf("%llu", (u64)version));
}
