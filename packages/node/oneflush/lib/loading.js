'use strict';

// Loads the extension into a driver's SQLite.
//
// The library reads its options from the environment while it is loaded, so they stand there for
// that time. A worker of Node has a copy of the environment, and so has Jest: what is set there
// the library does not see. Workers that share it (SHARE_ENV) would change it for each other. So
// options are taken by the main thread, and the workers that it starts afterwards know of them.

const { getEnvironmentData, isMainThread, setEnvironmentData } = require('node:worker_threads');
const { driverOf } = require('./drivers');
const { OneflushError } = require('./error');
const { variables } = require('./options');
const { libraryPath } = require('./platform');

// Under this name the main thread tells its workers: { SQLite: variables }.
const LOADED = 'oneflush';

// While sqlite3 loads in a thread of its own, the environment is that of its options. So one load
// waits for the other.
let isUnderWay = false;
let lastOfQueue = Promise.resolve();

function load(target, options = {}) {
  const wanted = variables(options);
  const driver = driverOf(target);
  const path = libraryPath();
  if (!driver.isAsync) return now(driver, target, path, wanted);
  const turn = lastOfQueue.then(() => later(driver, target, path, wanted));
  lastOfQueue = turn.catch(() => {});
  return turn;
}

function now(driver, target, path, asked) {
  const db = typeof target === 'function' ? driver.connection(target) : target;
  try {
    const sqlite = nameOf(driver, driver.ask(db, 'SELECT sqlite_source_id()'));
    const wanted = withDefault(sqlite, asked);
    if (isLoaded(sqlite, wanted)) return;
    const restore = setVariables(driver, wanted);
    try {
      driver.load(db, path);
    } catch (error) {
      throw explained(error);
    } finally {
      restore();
    }
    remember(sqlite, wanted);
  } finally {
    if (db !== target) driver.close(db);
  }
}

async function later(driver, target, path, asked) {
  const db = typeof target === 'function' ? await driver.connection(target) : target;
  try {
    const sqlite = nameOf(driver, await driver.ask(db, 'SELECT sqlite_source_id()'));
    const wanted = withDefault(sqlite, asked);
    if (isLoaded(sqlite, wanted)) return;
    const restore = setVariables(driver, wanted);
    isUnderWay = true;
    try {
      await driver.load(db, path);
    } catch (error) {
      throw explained(error);
    } finally {
      isUnderWay = false;
      restore();
    }
    remember(sqlite, wanted);
  } finally {
    if (db !== target) await driver.close(db);
  }
}

// A process may have several SQLites, and each has its own VFSes.
const nameOf = (driver, source) => `${driver.name} ${source}`;

/** A VFS that is the default stays the default, so options that do not name it keep it. */
function withDefault(sqlite, asked) {
  const isDefault = loadedInto(sqlite)?.ONEFLUSH_DEFAULT === '1';
  return isDefault && Object.keys(asked).length > 0 ? { ONEFLUSH_DEFAULT: '1', ...asked } : asked;
}

const loadedInto = (sqlite) => getEnvironmentData(LOADED)?.[sqlite];

/** Whether that SQLite has the extension with these options. Without options any will do. */
function isLoaded(sqlite, wanted) {
  const loaded = loadedInto(sqlite);
  if (!loaded) return false;
  const names = Object.keys(wanted);
  const same = names.length === Object.keys(loaded).length;
  return names.length === 0 || (same && names.every((name) => wanted[name] === loaded[name]));
}

function remember(sqlite, wanted) {
  setEnvironmentData(LOADED, { ...getEnvironmentData(LOADED), [sqlite]: wanted });
}

/** Sets the variables, and returns what puts back those that were there. */
function setVariables(driver, wanted) {
  if (isUnderWay) {
    throw new OneflushError('oneflush: load() of sqlite3 is still under way; await it first');
  }
  const isDefault = wanted.ONEFLUSH_DEFAULT ?? process.env.ONEFLUSH_DEFAULT;
  if (!driver.hasUris && isDefault !== '1') {
    throw new OneflushError(`oneflush: ${driver.name} cannot name a VFS, so Oneflush would not ` +
      'be used; make it the default: load(Database, { default: true })');
  }
  const names = Object.keys(wanted);
  if (names.length > 0 && !(isMainThread && isEnvironmentOurs())) {
    throw new OneflushError('oneflush: load() with options belongs to the main thread, before it ' +
      'starts workers: process.env is not the environment of the process here, as in Jest. Or ' +
      'start the process with ONEFLUSH_DEFAULT=1, and call load(Database) without options');
  }
  const before = names.map((name) => [name, process.env[name]]);
  Object.assign(process.env, wanted);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

/** Whether `process.env` is the process's environment: that takes no name with "=", a copy does. */
function isEnvironmentOurs() {
  const name = 'ONEFLUSH=';
  process.env[name] = '1';
  const isCopy = process.env[name] === '1';
  delete process.env[name];
  return !isCopy;
}

function explained(error) {
  if (error instanceof OneflushError) return error;
  const message = error.message.replace(/^SQLITE_ERROR: /, '').replace(/^oneflush: /, '');
  return new OneflushError(`oneflush: the extension cannot be loaded: ${message}`, {
    cause: error,
  });
}

module.exports = { load };
