// The same as process.py, by better-sqlite3.
'use strict';

const fs = require('fs');
const path = require('path');
const threads = require('worker_threads');
const zlib = require('zlib');

const PROBES = Number(process.env.SEATBELT_PROBES || 50);

// Opens, reads and closes all files of the database, as `cp DATABASE*` does.
function probe(file) {
  for (const name of fs.readdirSync(path.dirname(file))) {
    if (!name.startsWith(path.basename(file))) continue;
    try {
      const one = fs.openSync(path.join(path.dirname(file), name));
      fs.readSync(one, Buffer.alloc(4096));
      fs.closeSync(one);
    } catch (error) {
      if (error.code !== 'ENOENT') throw error;
    }
  }
}

function payload(writer, number) {
  const checksum = zlib.crc32(`${writer} ${number}`);
  return checksum.toString(16).padStart(8, '0').repeat(1 + (checksum % 60));
}

function main(mode, file, record, writer, life, seconds) {
  const Database = require('better-sqlite3');
  const until = Date.now() + 1000 * seconds;
  const errors = {};
  // What fails is counted. True: it went well.
  const tries = (action) => {
    try {
      action();
      return true;
    } catch (error) {
      if (!(error instanceof Database.SqliteError)) throw error;
      last = error.code.replace('SQLITE_', '');
      errors[last] = (errors[last] || 0) + 1;
      return false;
    }
  };
  let last = '';
  if (mode !== 'stock') new Database(':memory:').loadExtension(process.env.ONEFLUSH_EXTENSION_PATH);
  const log = fs.openSync(record, 'a');
  if (PROBES) new threads.Worker(__filename, { workerData: file });
  let db = null;
  let left = 0;
  for (let number = 1; Date.now() < until; number++) {
    const committed = tries(() => {
      if (!db) {
        left = life && 1 + Math.floor(Math.random() * life);
        db = new Database(file, { timeout: 2000 });
        db.pragma('wal_autocheckpoint=50');
        db.pragma('synchronous=NORMAL');
      }
      const row = [Number(writer), number, payload(writer, number)];
      db.prepare('INSERT INTO kept VALUES(?, ?, ?)').run(...row);
      fs.writeSync(log, `${number}\n`);
    });
    if (committed ? (left -= 1) !== 0 : last.startsWith('BUSY')) continue;
    if (!committed && /^(CORRUPT|NOTADB)/.test(last)) break;
    tries(() => db && db.close());
    db = null;
  }
  tries(() => db && db.close());
  console.log(JSON.stringify(errors));
  process.exit();
}

if (threads.isMainThread) {
  const [mode, file, record, writer, life, seconds] = process.argv.slice(2);
  main(mode, file, record, writer, Number(life), Number(seconds));
} else {
  setInterval(() => probe(threads.workerData), 1000 / PROBES);
}
