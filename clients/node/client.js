// better-sqlite3 compiles SQLite without URIs, so the VFS cannot be named: ONEFLUSH_DEFAULT=1 makes it the default
// when the first connection loads the extension, and every database that is opened afterwards goes through it. The
// strategy comes from the environment at the same time, so each that is named has a process of its own.
'use strict';

const { spawnSync } = require('child_process');
const fs = require('fs');
const Database = require('better-sqlite3');

const ROWS = 20;
const EXPECTED = `${ROWS}:` + Array.from({ length: ROWS }, (_, at) => `word ${at + 1}`).join(',');
const SUMMARY = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)";
// Numbers of PRAGMA oneflush_stats. `files` counts what SQLite writes, wherever the strategy puts it.
const WAL = 'files.wal.write_bytes';
const JOURNAL = 'files.rollback_journal.write_bytes';
// CLIENT_F2FS says that the folder is on F2FS. There the default needs no journal file.
const ON_F2FS = Boolean(process.env.CLIENT_F2FS);
// ONEFLUSH_STRATEGY, the strategy that PRAGMA oneflush_strategy tells, journal mode, a number that grows, a number that
// stays, the files beside the open database, ONEFLUSH_ATOMIC. Without `log` there would be no log on F2FS.
const ROUNDS = [
  [undefined, 'plain', 'wal', WAL, JOURNAL, '-shm -wal', 'auto'],
  [undefined, 'plain (inactive: journal_mode=delete)', 'delete', JOURNAL, WAL, ON_F2FS ? '' : '-journal', 'auto'],
  ['eager', 'eager', 'wal', 'eager.log.logged_bytes', JOURNAL, '-oneflush -oneflush-shm -oneflush-wal -shm', 'log'],
  ['waldio', 'waldio', 'wal', WAL, JOURNAL, '-oneflush-shm -shm -waldio', 'log'],
  ['maw', 'maw', 'delete', 'maw.log.logged_bytes', 'maw.ordinary', '-maw -oneflush-shm', 'log'],
];
// The last one with F2FS's atomic write. Two numbers stay.
if (ON_F2FS) {
  ROUNDS.push(['maw', 'maw', 'delete', 'maw.atomic', 'maw.ordinary maw.log.logged_bytes', '', 'f2fs']);
}

function check(what, found, expected) {
  if (found !== expected) {
    console.error(`node: ${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
    process.exit(1);
  }
}

const pragma = (db, words) => db.pragma(words, { simple: true });
const stats = (db) => JSON.parse(pragma(db, 'oneflush_stats'));
const summary = (db) => db.prepare(SUMMARY).pluck().get();
const number = (stats, path) => path.split('.').reduce((part, name) => part[name], stats);

function beside(file) {
  const names = fs.readdirSync('.').filter((name) => name.startsWith(`${file}-`)).sort();
  return names.map((name) => name.slice(file.length)).join(' ');
}

// Another process, which never heard of Oneflush.
function plainSqlite(file) {
  const sql = `PRAGMA oneflush_strategy; ${SUMMARY}; PRAGMA integrity_check`;
  const shell = spawnSync(process.env.SQLITE3, ['-batch', file, sql], { encoding: 'utf8' });
  return shell.stdout + shell.stderr;
}

function load() {
  const loader = new Database(':memory:');
  loader.loadExtension(process.env.ONEFLUSH_EXTENSION_PATH);
  loader.close();
}

function writeAndRead([named, strategy, mode, grows, stays, files, atomic]) {
  console.log(`${strategy}, journal_mode=${mode}, atomic=${atomic}`);
  const file = `${named ?? 'default'}-${mode}-${atomic}.db`;
  let db = new Database(file);
  check('PRAGMA journal_mode', pragma(db, `journal_mode=${mode}`), mode);
  check('PRAGMA oneflush_strategy', pragma(db, 'oneflush_strategy'), strategy);
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
      check('files beside the open database', beside(file), files);
      const meanwhile = named === undefined || atomic === 'f2fs' ? EXPECTED : 'file is not a database';
      const answer = plainSqlite(file);
      check(`${meanwhile} from plain SQLite meanwhile: ${answer}`, answer.includes(meanwhile), true);
      throw rolledBack;
    })();
  } catch (error) {
    if (error !== rolledBack) throw error;
  }
  const after = stats(db);
  check('commits counted', after.commits.count - before.commits.count, ROWS);
  for (const path of [grows, ...stays.split(' ')]) {
    check(`growth of ${path}`, number(after, path) > number(before, path), path === grows);
  }
  check('rows', summary(db), EXPECTED);
  db.close();

  db = new Database(file);
  check('strategy after the reopen', pragma(db, 'oneflush_strategy'), strategy);
  check('journal mode after the reopen', pragma(db, 'journal_mode'), mode);
  check('rows after the reopen', summary(db), EXPECTED);
  check('PRAGMA integrity_check', pragma(db, 'integrity_check'), 'ok');
  db.close();

  // In WAL mode `plain` keeps its WAL.
  check('files beside the closed database', beside(file), strategy === 'plain' ? '-oneflush-kept' : '');
  check('plain SQLite', plainSqlite(file), `${EXPECTED}\nok\n`);
}

// Loads the extension and does the rounds of the strategy and the provider that the environment names, or of none.
function loadAndWrite() {
  const { ONEFLUSH_STRATEGY, ONEFLUSH_ATOMIC } = process.env;
  load();
  const rounds = ROUNDS.filter((round) => round[0] === ONEFLUSH_STRATEGY && round[6] === ONEFLUSH_ATOMIC);
  check('a round for this process', rounds.length > 0, true);
  rounds.forEach(writeAndRead);
}

// The same in a process of its own.
function child(named, atomic, stdio) {
  const env = { ...process.env, ONEFLUSH_STRATEGY: named, ONEFLUSH_ATOMIC: atomic };
  return spawnSync(process.execPath, [__filename, 'child'], { env, encoding: 'utf8', stdio });
}

// Without URIs an unknown strategy can only come from the environment: then the extension is not loaded.
function refuseUnknownStrategy() {
  const refused = child('nonsense', 'log', 'pipe');
  check('an unknown strategy was refused', refused.status, 1);
  for (const words of ['environment variable ONEFLUSH_STRATEGY', '"nonsense"', 'allowed: auto, stock']) {
    check(`${words} in the message ${refused.stderr}`, refused.stderr.includes(words), true);
  }
}

process.env.ONEFLUSH_DEFAULT = '1';
if (process.argv[2] === 'child') {
  loadAndWrite();
  process.exit(0);
}
process.env.ONEFLUSH_ATOMIC = 'auto';
const stock = new Database('before.db');
check('rows of PRAGMA oneflush_strategy before the extension is loaded', stock.pragma('oneflush_strategy').length, 0);
stock.close();
loadAndWrite();
for (const round of ROUNDS.filter(([named]) => named)) {
  check(`exit code of the process with ${round[0]}`, child(round[0], round[6], 'inherit').status, 0);
}
refuseUnknownStrategy();
const version = new Database(':memory:').prepare('SELECT sqlite_version()').pluck().get();
console.log(`node: ok (SQLite ${version}, better-sqlite3 ${require('better-sqlite3/package.json').version})`);
