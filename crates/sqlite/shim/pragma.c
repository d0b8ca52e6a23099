/*
** The pragmas that a database of ours answers: one row with one text, or an error with its text.
** SQLite asks while it prepares the statement.
*/

/* Ends a pragma with an error. zText: of sqlite3_mprintf(). */
static int mvRefuse(char **az, int rc, char *zText){
  az[0] = zText;
  return zText ? rc : SQLITE_NOMEM_BKPT;
}

/* Ends it with the engine's message. */
static int mvRefuseAsEngine(char **az, MvBtree *p, oneflush_mvbt_code code){
  const char *zMessage = oneflush_mvbt_db_error(p->engine);
  int rc = mvFailed(code, zMessage);
  return mvRefuse(az, rc, sqlite3_mprintf("%s", zMessage));
}

/* Ends it with a row. zText: of sqlite3_mprintf(). */
static int mvAnswer(char **az, char *zText){
  az[0] = zText;
  return zText ? SQLITE_OK : SQLITE_NOMEM_BKPT;
}

/* A text in the quotes of JSON. */
static void mvJsonText(sqlite3_str *pOut, const char *z){
  sqlite3_str_appendchar(pOut, 1, '"');
  for(; *z; z++){
    u8 c = (u8)*z;
    if( c=='"' || c=='\\' ) sqlite3_str_appendchar(pOut, 1, '\\');
    if( c<' ' ){
      sqlite3_str_appendf(pOut, "\\u%04x", c);
    }else{
      sqlite3_str_appendchar(pOut, 1, (char)c);
    }
  }
  sqlite3_str_appendchar(pOut, 1, '"');
}

/* PRAGMA oneflush_stats: a JSON object. Its names are those of Oneflush's VFS where they mean the
** same. Counts are those of the process since it opened the file. */
static int mvPragmaStats(MvBtree *p, char **az){
  oneflush_mvbt_statistics stats;
  oneflush_mvbt_code code;
  sqlite3_str *pOut;
  if( az[2] ) return mvRefuse(az, SQLITE_ERROR, sqlite3_mprintf("PRAGMA %s takes no value", az[1]));
  code = oneflush_mvbt_stats(p->engine, &stats);
  if( code!=ONEFLUSH_MVBT_OK ) return mvRefuseAsEngine(az, p, code);
  pOut = sqlite3_str_new(p->db);
  sqlite3_str_appendf(pOut, "{\"version\":\"%s\",\"engine\":\"lsmvbt\",\"database\":",
                      oneflush_mvbt_version());
  mvJsonText(pOut, p->pPager->base.zFilename);
  sqlite3_str_appendf(pOut,
      ",\"strategy\":\"lsmvbt\",\"commits\":{\"count\":%llu,\"pages\":{\"sum\":%llu},"
      "\"syncs\":{\"sum\":%llu}}",
      stats.commits, stats.pages_written, stats.flushes);
  sqlite3_str_appendf(pOut,
      ",\"files\":{\"main\":{\"reads\":%llu,\"read_bytes\":%llu,\"writes\":%llu,"
      "\"write_bytes\":%llu,\"syncs\":%llu}}",
      stats.pages_read, stats.pages_read*p->nPage, stats.pages_written+stats.blocks_written,
      stats.pages_written*p->nPage+stats.blocks_written*4096, stats.flushes);
  sqlite3_str_appendf(pOut,
      ",\"pages\":{\"bytes\":%u,\"count\":%llu,\"free\":%llu,\"freed\":%llu,\"splits\":%llu}"
      ",\"history\":{\"from\":%llu,\"to\":%llu}}",
      p->nPage, stats.pages, stats.free_pages, stats.freed, stats.splits, stats.from, stats.to);
  return mvAnswer(az, sqlite3_str_finish(pOut));
}

/* What a file control for a pragma gets: az[1] is its name, az[2] its value or null. */
static int mvPragma(MvBtree *p, char **az){
  static const struct {
    const char *zName;
    int (*xAnswer)(MvBtree*, char**);
  } aPragma[] = {
    { "oneflush_stats", mvPragmaStats },
    { "oneflush_history", mvPragmaHistory },
    { "oneflush_retain", mvPragmaRetain },
    { "oneflush_snapshot", mvPragmaSnapshot },
  };
  int i;
  if( sqlite3StrICmp(az[1], "journal_mode")==0 || sqlite3StrICmp(az[1], "oneflush_strategy")==0 ){
    return mvAnswer(az, sqlite3_mprintf("lsmvbt"));
  }
  if( sqlite3_strnicmp(az[1], "oneflush_", 9)!=0 ) return SQLITE_NOTFOUND;
  for(i=0; i<(int)ArraySize(aPragma); i++){
    if( sqlite3StrICmp(az[1], aPragma[i].zName)==0 ){
      int rc = mvStart(p);
      if( rc!=SQLITE_OK ) return mvRefuse(az, rc, sqlite3_mprintf("%s", sqlite3ErrStr(rc)));
      return aPragma[i].xAnswer(p, az);
    }
  }
  return mvRefuse(az, SQLITE_ERROR, sqlite3_mprintf(
      "PRAGMA %s: not known; a database of lsmvbt has oneflush_strategy, oneflush_stats, "
      "oneflush_history, oneflush_retain and oneflush_snapshot", az[1]));
}
