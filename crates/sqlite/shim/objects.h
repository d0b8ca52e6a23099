/*
** What SQLite has a pointer to, and how it is told from an object of the stock B-tree.
**
** The first field of a stock Btree is the connection, and of a Pager the VFS. Here both are the
** address of mvTag. The first byte of a stock BtCursor is its state, 0 to 4. Here it also has the
** bit MV_CURSOR.
*/
#include "oneflush_mvbt.h"

typedef struct MvBtree MvBtree;
typedef struct MvCursor MvCursor;
typedef struct MvPager MvPager;
typedef struct MvFile MvFile;
typedef struct MvRow MvRow;

static const char mvTag[] = "oneflush lsmvbt";

#define MV_CURSOR 0x80
#define MV_IS_SET(p) MV_UNLIKELY(*(const void *const*)(p)==(const void*)mvTag)
#define MV_IS(p) ((p)!=0 && MV_IS_SET(p))
#define MV_IS_CURSOR(c) MV_UNLIKELY(*(const u8*)(c) & MV_CURSOR)

/* SQLite numbers the trees of a file from 1, the engine its own from 2. */
#define MV_TREE(root) ((root)+1)
#define MV_ROOT(tree) ((tree)-1)

/* Older versions than 3.54 have some functions with other arguments. */
#define MV_NEW (SQLITE_VERSION_NUMBER>=3054000)
#if MV_NEW
# define MV_UNPACK(info,n,a,record) sqlite3VdbeRecordUnpack((int)(n), a, record)
#else
# define MV_UNPACK(info,n,a,record) sqlite3VdbeRecordUnpack(info, (int)(n), a, record)
#endif

/* A comparison may read so many bytes behind a record that lies about its header. */
#define MV_OVERRUN 32

/* The file behind sqlite3PagerFile(). Only its methods matter. */
struct MvFile {
  sqlite3_file base;
  MvBtree *p;
};

/* A stock Pager at its head, so that its name and its file are where SQLite looks for them. */
struct MvPager {
  Pager base;               /* pVfs is the tag */
  MvBtree *p;
  sqlite3_vfs *pVfs;
  sqlite3_file closed;      /* The journal that there is none of */
  MvFile file;
  u32 iDataVersion;         /* Changes with each commit that this connection sees */
};

/* A row on its way from one tree to another. */
struct MvRow {
  BtCursor *pDest;          /* The cursor that puts it in */
  u8 *a;
  int n;
};

/* A stock Btree at its head, which is never sharable: what looks at all databases passes it. */
struct MvBtree {
  Btree base;               /* db is the tag; inTrans, hasIncrblobCur and iBDataVersion count */
  sqlite3 *db;
  MvPager *pPager;
  oneflush_mvbt_db *engine; /* Null: it is new, and nobody has asked for it yet */
  int vfsFlags;             /* That it was opened with */
  int nCache;               /* PRAGMA cache_size: pages, or KiB if it is less than 0 */
  u32 nPage;                /* Bytes of a page */
  oneflush_mvbt_txn *txn;   /* What inTrans says. Null: it has ended by a failure */
  oneflush_mvbt_txn *pinned;  /* That of PRAGMA oneflush_snapshot. Null: it reads the newest */
  MvCursor *pCursor;        /* All cursors */
  void *pSchema;
  void (*xFreeSchema)(void*);
  u64 version;              /* That data_version has counted last */
  MvRow row;
  u64 aCacheStat[2];        /* Reads and writes that sqlite3_db_status() has set to 0 */
  uint64_t nSavepoint;      /* Open savepoints of the engine */
  u8 hasBase;               /* The first of them is the beginning of the transaction */
  u8 isReadOnly;
  u8 isFresh;               /* This connection has made the file, and written nothing yet */
  u8 isAppending;           /* Records come in their order */
};

/* So many cells a scan has at hand. */
#define MV_AHEAD 24

/* Its state is one of CURSOR_VALID and so on, with MV_CURSOR.
**
** A scan steps over cells that it has at hand, without a call. aAhead has those of one leaf: the
** cursor of the engine stands on the one of iPlace, and this one on that of iAhead. They are
** brought together where the engine has to know. What stands in the leaf is read there, and not
** copied. */
struct MvCursor {
  u8 eState;
  u8 curFlags;              /* BTCF_WriteFlag, BTCF_Incrblob, BTCF_Pinned */
  u8 hints;
  u8 hasCell;               /* key, nPayload and aLocal are those of the cell */
  u8 hasKey;                /* key is that of the cell, in an integer tree */
  int skipNext;             /* As in the stock cursor */
  MvBtree *p;
  MvCursor *pNext;
  Pgno root;
  struct KeyInfo *pKeyInfo;
  u8 nAhead;                /* Cells of aAhead. 0: none is at hand */
  u8 iAhead;
  u8 iPlace;
  u8 nWanted;               /* So many cells are worth asking for: more with each leaf */
  oneflush_mvbt_cursor *place;  /* Opened when it is needed */
  oneflush_mvbt_cursor *left;   /* One of an ended transaction: SQLite may read its last cell */
  i64 key;                  /* Of the cell, or saved; of a record the length of pSaved */
  void *pSaved;             /* The record on which it stood */
  u64 nPayload;
  u32 nLocal;               /* So many bytes of it are in the leaf */
  const u8 *aLocal;
  oneflush_mvbt_cell_ahead *aAhead;   /* &one, or MV_AHEAD of them from the first scan on */
  oneflush_mvbt_cell_ahead one;
};

#define MV_STATE(c) ((c)->eState & ~MV_CURSOR)
#define MV_SET_STATE(c,s) ((c)->eState = MV_CURSOR|(s))
