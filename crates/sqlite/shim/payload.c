/*
** What stands at a cursor.
*/

/* Reads key, length and the first bytes of the cell, if that is not done yet. */
static int mvLoad(MvCursor *pCur){
  const oneflush_mvbt_cell_ahead *pCell;
  if( pCur->hasCell ) return SQLITE_OK;
  if( MV_STATE(pCur)!=CURSOR_VALID && MV_STATE(pCur)!=CURSOR_SKIPNEXT ) return SQLITE_ABORT;
  if( pCur->nAhead==0 ){
    size_t n = 0;
    int nWanted = mvCellsWanted(pCur);
    int rc = mvCursorRc(pCur,
        oneflush_mvbt_cursor_cells(pCur->place, pCur->aAhead, nWanted, &n));
    if( rc!=SQLITE_OK ) return rc;
    pCur->nAhead = (u8)n;
    pCur->iAhead = pCur->iPlace = 0;
  }
  pCell = &pCur->aAhead[pCur->iAhead];
  pCur->nPayload = pCell->length;
  pCur->nLocal = (u32)pCell->local_length;
  pCur->aLocal = pCell->local;
  pCur->hasCell = 1;
  if( pCur->pKeyInfo==0 ){
    pCur->key = pCell->key;
    pCur->hasKey = 1;
  }
  return SQLITE_OK;
}

/* A copy of all of it, with room for a comparison that reads too far. */
static int mvReadAll(MvCursor *pCur, u8 **pa, int *pn){
  u8 *a;
  int rc = mvLoad(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( pCur->nPayload>0x7fffffff-MV_OVERRUN ) return SQLITE_TOOBIG;
  a = sqlite3_malloc64(pCur->nPayload+MV_OVERRUN);
  if( a==0 ) return SQLITE_NOMEM_BKPT;
  rc = mvBtreePayload((BtCursor*)pCur, 0, (u32)pCur->nPayload, a);
  if( rc!=SQLITE_OK ){
    sqlite3_free(a);
    return rc;
  }
  memset(&a[pCur->nPayload], 0, MV_OVERRUN);
  *pa = a;
  *pn = (int)pCur->nPayload;
  return SQLITE_OK;
}

/* For a caller that has no way to say that it failed: without memory the statement fails. */
static int mvIsLoaded(MvCursor *pCur){
  int rc = mvLoad(pCur);
  if( rc==SQLITE_NOMEM ) sqlite3OomFault(pCur->p->db);
  return rc==SQLITE_OK;
}

/* It has no way to say that it failed: then it is 0, and the next call says so. */
SQLITE_PRIVATE i64 mvBtreeIntegerKey(BtCursor *pOld){
  MvCursor *pCur = (MvCursor*)pOld;
  if( !pCur->hasKey && !mvIsLoaded(pCur) ) return 0;
  return pCur->key;
}

SQLITE_PRIVATE u32 mvBtreePayloadSize(BtCursor *pOld){
  MvCursor *pCur = (MvCursor*)pOld;
  if( !mvIsLoaded(pCur) ) return 0;
  return (u32)pCur->nPayload;
}

/* What an honest record has at most: all of the payload. */
SQLITE_PRIVATE sqlite3_int64 mvBtreeMaxRecordSize(BtCursor *pCur){
  return mvBtreePayloadSize(pCur);
}

SQLITE_PRIVATE const void *mvBtreePayloadFetch(BtCursor *pOld, u32 *pAmt){
  MvCursor *pCur = (MvCursor*)pOld;
  if( !mvIsLoaded(pCur) ){
    *pAmt = 0;
    return mvTag;
  }
  *pAmt = pCur->nLocal;
  return pCur->aLocal;
}

SQLITE_PRIVATE int mvBtreePayload(BtCursor *pOld, u32 offset, u32 amt, void *pBuf){
  MvCursor *pCur = (MvCursor*)pOld;
  int rc = mvLoad(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( (u64)offset+amt>pCur->nPayload ) return SQLITE_CORRUPT_BKPT;
  if( (u64)offset+amt<=pCur->nLocal ){
    memcpy(pBuf, &pCur->aLocal[offset], amt);
    return SQLITE_OK;
  }
  rc = mvCatchUp(pCur);
  if( rc!=SQLITE_OK ) return rc;
  return mvCursorRc(pCur, oneflush_mvbt_cursor_payload(pCur->place, offset, pBuf, amt));
}

/* SQLite keeps a long column until this number changes. Rows have no place in the file that stays,
** but a key of their own. */
SQLITE_PRIVATE i64 mvBtreeOffset(BtCursor *pCur){
  return mvBtreeIntegerKey(pCur);
}

#ifndef SQLITE_OMIT_INCRBLOB
/* For sqlite3_blob_read(), whose row may be gone. */
SQLITE_PRIVATE int mvBtreePayloadChecked(BtCursor *pOld, u32 offset, u32 amt, void *pBuf){
  MvCursor *pCur = (MvCursor*)pOld;
  int rc;
  if( MV_STATE(pCur)!=CURSOR_VALID ){
    if( MV_STATE(pCur)==CURSOR_INVALID ) return SQLITE_ABORT;
    rc = mvRestore(pCur);
    if( rc!=SQLITE_OK ) return rc;
    if( MV_STATE(pCur)!=CURSOR_VALID ) return SQLITE_ABORT;
  }
  return mvBtreePayload(pOld, offset, amt, pBuf);
}

SQLITE_PRIVATE void mvBtreeIncrblobCursor(BtCursor *pOld){
  MvCursor *pCur = (MvCursor*)pOld;
  pCur->curFlags |= BTCF_Incrblob;
  pCur->p->base.hasIncrblobCur = 1;
}

/* For sqlite3_blob_write(). The payload keeps its length. */
SQLITE_PRIVATE int mvBtreePutData(BtCursor *pOld, u32 offset, u32 amt, void *z){
  MvCursor *pCur = (MvCursor*)pOld;
  int rc = mvRestore(pCur);
  if( rc!=SQLITE_OK ) return rc;
  if( MV_STATE(pCur)!=CURSOR_VALID ) return SQLITE_ABORT;
  rc = mvSaveAll(pCur->p, pCur->root, pCur, 0);
  if( rc!=SQLITE_OK ) return rc;
  if( (pCur->curFlags & BTCF_WriteFlag)==0 ) return SQLITE_READONLY;
  rc = mvLoad(pCur);
  if( rc==SQLITE_OK ) rc = mvCatchUp(pCur);
  if( rc!=SQLITE_OK ) return rc;
  rc = mvCursorRc(pCur, oneflush_mvbt_cursor_overwrite(pCur->place, offset, z, amt));
  /* The place is not where it was, but the key is known. */
  mvForget(pCur);
  MV_SET_STATE(pCur, CURSOR_REQUIRESEEK);
  return rc;
}
#endif
