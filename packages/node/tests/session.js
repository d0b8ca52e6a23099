'use strict';

// What the tests do with each driver in the same words, and awaited.

const { load, uri } = require('oneflush');

const promised = (db, method, ...more) => new Promise((resolve, reject) => {
  db[method](...more, (error, result) => (error ? reject(error) : resolve(result)));
});

/** Drivers that this Node has: `name` → { Database, open(file, strategy?), exec, all, close }. */
const drivers = {};

function add(name, module, make) {
  try {
    drivers[name] = make(require(module));
  } catch (error) {
    if (!['MODULE_NOT_FOUND', 'ERR_UNKNOWN_BUILTIN_MODULE'].includes(error.code)) throw error;
  }
}

// Both have the same methods, and end at once.
const same = {
  exec: (db, sql) => db.exec(sql),
  all: (db, sql) => db.prepare(sql).all(),
  close: (db) => db.close(),
};

add('better-sqlite3', 'better-sqlite3', (Database) => ({
  ...same,
  Database,
  open: (file, strategy) => {
    if (strategy) load(Database, { default: true, strategy });
    return new Database(file);
  },
}));

add('node:sqlite', 'node:sqlite', ({ DatabaseSync }) => ({
  ...same,
  Database: DatabaseSync,
  open: (file, strategy) => {
    if (!strategy) return new DatabaseSync(file);
    load(DatabaseSync);
    return new DatabaseSync(uri(file, { strategy }));
  },
}));

add('sqlite3', 'sqlite3', ({ Database, OPEN_READWRITE, OPEN_CREATE, OPEN_URI }) => ({
  Database,
  open: async (file, strategy) => {
    if (strategy) await load(Database);
    const name = strategy ? uri(file, { strategy }) : file;
    const flags = OPEN_READWRITE | OPEN_CREATE | OPEN_URI;
    return new Promise((resolve, reject) => {
      const db = new Database(name, flags, (error) => (error ? reject(error) : resolve(db)));
    });
  },
  exec: (db, sql) => promised(db, 'exec', sql),
  all: (db, sql) => promised(db, 'all', sql),
  close: (db) => promised(db, 'close'),
}));

module.exports = { drivers };
