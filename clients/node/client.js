// better-sqlite3 compiles SQLite without URIs, so the VFS cannot be named: ONEFLUSH_DEFAULT=1 makes it the default
// when the first connection loads the extension, and every database that is opened afterwards goes through it.
'use strict';

const { execFileSync, spawnSync } = require('child_process');
const Database = require('better-sqlite3');

const ROWS = 20;
const EXPECTED = `${ROWS}:` + Array.from({ length: ROWS }, (_, at) => `word ${at + 1}`).join(',');
const SUMMARY = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)";
const JOURNALS = { wal: 'wal', delete: 'rollback_journal' };

function check(what, found, expected) {
  if (found !== expected) {
    console.error(`node: ${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
    process.exit(1);
  }
}

const pragma = (db, words) => db.pragma(words, { simple: true });
const stats = (db) => JSON.parse(pragma(db, 'oneflush_stats'));
const summary = (db) => db.prepare(SUMMARY).pluck().get();

function load() {
  const loader = new Database(':memory:');
  loader.loadExtension(process.env.ONEFLUSH_EXTENSION_PATH);
  loader.close();
}

function writeAndRead(mode) {
  const file = `${mode}.db`;
  let db = new Database(file);
  const inactive = 'plain (inactive: journal_mode=delete)';
  check('PRAGMA oneflush_strategy', pragma(db, 'oneflush_strategy'), inactive);
  check('PRAGMA journal_mode', pragma(db, `journal_mode=${mode}`), mode);
  db.pragma('synchronous=FULL');
  db.exec('CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)');

  const before = stats(db);
  const insert = db.prepare('INSERT INTO item VALUES(?, ?)');
  for (let n = 1; n <= ROWS; n++) insert.run(n, `word ${n}`);
  const rolledBack = new Error('rolled back');
  try {
    db.transaction(() => {
      insert.run(99, 'rolled back');
      check('rows before the rollback', db.prepare('SELECT count(*) FROM item').pluck().get(), ROWS + 1);
      throw rolledBack;
    })();
  } catch (error) {
    if (error !== rolledBack) throw error;
  }
  const after = stats(db);
  check('commits counted', after.commits.count - before.commits.count, ROWS);
  for (const role of Object.values(JOURNALS)) {
    const written = after.files[role].write_bytes - before.files[role].write_bytes;
    check(`${mode}: bytes counted for ${role}`, written > 0, role === JOURNALS[mode]);
  }
  check('rows', summary(db), EXPECTED);
  db.close();

  db = new Database(file);
  check('strategy after the reopen', pragma(db, 'oneflush_strategy'), mode === 'wal' ? 'plain' : inactive);
  check('journal mode after the reopen', pragma(db, 'journal_mode'), mode);
  check('rows after the reopen', summary(db), EXPECTED);
  check('PRAGMA integrity_check', pragma(db, 'integrity_check'), 'ok');
  db.close();

  // Another process, which never heard of Oneflush.
  const sql = `PRAGMA oneflush_strategy; ${SUMMARY}; PRAGMA integrity_check`;
  const plain = execFileSync(process.env.SQLITE3, ['-batch', file, sql], { encoding: 'utf8' });
  check('plain SQLite', plain, `${EXPECTED}\nok\n`);
}

// Without URIs an unknown strategy can only come from the environment: then the extension is not loaded.
function refuseUnknownStrategy() {
  const env = { ...process.env, ONEFLUSH_STRATEGY: 'nonsense' };
  const child = spawnSync(process.execPath, [__filename, 'load'], { env, encoding: 'utf8' });
  check('an unknown strategy was refused', child.status, 1);
  for (const words of ['environment variable ONEFLUSH_STRATEGY', '"nonsense"', 'allowed: auto, stock']) {
    check(`${words} in the message ${child.stderr}`, child.stderr.includes(words), true);
  }
}

process.env.ONEFLUSH_DEFAULT = '1';
if (process.argv[2] === 'load') {
  load();
  process.exit(0);
}
const stock = new Database('before.db');
check('rows of PRAGMA oneflush_strategy before the extension is loaded', stock.pragma('oneflush_strategy').length, 0);
stock.close();
load();
Object.keys(JOURNALS).forEach(writeAndRead);
refuseUnknownStrategy();
const version = new Database(':memory:').prepare('SELECT sqlite_version()').pluck().get();
console.log(`node: ok (SQLite ${version}, better-sqlite3 ${require('better-sqlite3/package.json').version})`);
