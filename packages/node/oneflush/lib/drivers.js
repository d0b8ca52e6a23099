'use strict';

// What the drivers do in ways of their own: how one is known, a database in memory, extensions,
// the first column of the first row.
//
// `connection(Class)`, `load(db, path)`, `ask(db, sql)`, `close(db)`. Those of sqlite3 return
// promises.

const { OneflushError } = require('./error');

const has = (prototype, ...methods) => methods.every((method) => method in prototype);

const betterSqlite3 = {
  name: 'better-sqlite3',
  // It compiles SQLite without URIs, so only the default VFS can be ours.
  hasUris: false,
  isAsync: false,
  is: (prototype) => has(prototype, 'loadExtension', 'pragma', 'prepare'),
  connection: (Database) => new Database(':memory:'),
  load: (db, path) => db.loadExtension(path),
  ask: (db, sql) => {
    const statement = db.prepare(sql);
    // Where nothing answers a PRAGMA it has no column.
    return statement.reader ? statement.pluck().get() : undefined;
  },
  close: (db) => db.close(),
};

const nodeSqlite = {
  name: 'node:sqlite',
  hasUris: true,
  isAsync: false,
  is: (prototype) => has(prototype, 'loadExtension', 'enableLoadExtension', 'prepare'),
  connection: (DatabaseSync) => new DatabaseSync(':memory:', { allowExtension: true }),
  load: (db, path) => {
    try {
      db.loadExtension(path);
    } catch (error) {
      if (error.code !== 'ERR_INVALID_STATE') throw error;
      throw new OneflushError(`oneflush: node:sqlite says: ${error.message}. Open the database ` +
        'with { allowExtension: true }, or pass the class itself: load(DatabaseSync)');
    }
  },
  ask: (db, sql) => Object.values(db.prepare(sql).get() ?? {})[0],
  close: (db) => db.close(),
};

// A method with a callback as a promise.
const promised = (db, method, ...more) => new Promise((resolve, reject) => {
  db[method](...more, (error, result) => (error ? reject(error) : resolve(result)));
});

const sqlite3 = {
  name: 'sqlite3',
  hasUris: true,
  isAsync: true,
  is: (prototype) => has(prototype, 'loadExtension', 'configure', 'get'),
  connection: (Database) => new Promise((resolve, reject) => {
    const db = new Database(':memory:', (error) => (error ? reject(error) : resolve(db)));
  }),
  load: (db, path) => promised(db, 'loadExtension', path),
  ask: async (db, sql) => Object.values((await promised(db, 'get', sql)) ?? {})[0],
  close: (db) => promised(db, 'close'),
};

/** The driver of a database or of its class. */
function driverOf(target) {
  const prototype = typeof target === 'function' ? target.prototype : target;
  const isObject = typeof prototype === 'object' && prototype !== null;
  const driver = isObject && [betterSqlite3, nodeSqlite, sqlite3].find(({ is }) => is(prototype));
  if (driver) return driver;
  throw new OneflushError('oneflush: this is no database, and no class Database, of ' +
    'better-sqlite3, node:sqlite or sqlite3');
}

module.exports = { driverOf };
