'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');
const { folder, run } = require('./common');
const { drivers } = require('./session');
const oneflush = require('oneflush');

const WRITER = path.join(__dirname, 'writer.js');

function write(driver, strategy, file) {
  const words = ['--no-warnings', WRITER, driver, strategy, file, '100'];
  const child = spawnSync(process.execPath, words, { encoding: 'utf8' });
  assert.equal(child.status, 0, child.stderr);
  return JSON.parse(child.stdout.trim().split('\n').at(-1));
}

for (const [name, driver] of Object.entries(drivers)) {
  for (const strategy of ['plain', 'eager']) {
    test(`${name}: 100 commits with ${strategy}, twice, and SQLite alone reads them`, async () => {
      const file = path.join(folder(), 'app.db');
      assert.deepEqual(write(name, strategy, file), { last: 0, commits: 100, strategy });
      assert.deepEqual(write(name, strategy, file), { last: 100, commits: 100, strategy });
      const db = await driver.open(file);
      assert.equal(await oneflush.strategy(db), null);
      const [{ rows }] = await driver.all(db, 'SELECT count(*) AS rows FROM item');
      assert.equal(rows, 200);
      const [{ integrity_check: check }] = await driver.all(db, 'PRAGMA integrity_check');
      assert.equal(check, 'ok');
      await driver.close(db);
    });
  }

  test(`${name}: stats and checkpoint are objects, and null without Oneflush`, async () => {
    const before = await driver.open(path.join(folder(), 'app.db'));
    assert.equal(await oneflush.stats(before), null);
    assert.equal(await oneflush.checkpoint(before), null);
    await driver.close(before);
    const db = await driver.open(path.join(folder(), 'app.db'), 'plain');
    await driver.exec(db, 'CREATE TABLE item(n)');
    assert.equal(await oneflush.strategy(db), 'plain (inactive: journal_mode=delete)');
    await driver.exec(db, 'PRAGMA journal_mode=WAL; INSERT INTO item VALUES (1)');
    assert.equal((await oneflush.stats(db)).version, oneflush.version);
    assert.equal((await oneflush.checkpoint(db)).held_up, false);
    await driver.close(db);
  });

  test(`${name}: a database that was open stays as it is`, () => {
    const said = run(`
      const { strategy } = require('oneflush');
      const driver = require('./tests/session').drivers['${name}'];
      (async () => {
        const before = await driver.open('${folder()}/app.db');
        const after = await driver.open('${folder()}/app.db', 'plain');
        console.log(await strategy(before), await strategy(after));
        await driver.close(before);
        await driver.close(after);
      })()`);
    assert.equal(said, 'null plain (inactive: journal_mode=delete)');
  });
}

test('each load() with options is for the databases opened after it', { skip:
  !drivers['better-sqlite3'] && 'no better-sqlite3' }, () => {
  const { Database } = drivers['better-sqlite3'];
  const open = (strategy) => {
    oneflush.load(Database, { default: true, strategy });
    const db = new Database(path.join(folder(), 'app.db'));
    db.pragma('journal_mode=WAL');
    return db;
  };
  const first = open('eager');
  const second = open('plain');
  assert.equal(oneflush.strategy(first), 'eager');
  assert.equal(oneflush.strategy(second), 'plain');
  oneflush.load(first);
  assert.equal(oneflush.strategy(open('eager')), 'eager');
  assert.equal(process.env.ONEFLUSH_STRATEGY, undefined);
  // The default stays, also where a later call does not name it.
  oneflush.load(Database, { strategy: 'plain' });
  const last = new Database(path.join(folder(), 'app.db'));
  assert.match(oneflush.strategy(last), /^plain/);
});

test('sqlite3: loads that are not awaited wait for each other', { skip:
  !drivers.sqlite3 && 'no sqlite3' }, () => {
  const said = run(`
    const { load, strategy } = require('oneflush');
    const { Database } = require('sqlite3');
    const all = ['eager', 'waldio', 'plain'].map((word) =>
      load(Database, { default: true, strategy: word }));
    Promise.all(all).then(() => {
      const db = new Database('${folder()}/app.db', async () => {
        console.log(await strategy(db), process.env.ONEFLUSH_STRATEGY);
        db.close();
      });
    });`);
  assert.equal(said, 'plain (inactive: journal_mode=delete) undefined');
});

test('sqlite3: while it loads, a load of another driver is refused', { skip:
  !(drivers.sqlite3 && drivers['better-sqlite3']) && 'no sqlite3' }, () => {
  const said = run(`
    const { load } = require('oneflush');
    const { Database } = require('sqlite3');
    const other = () => load(require('better-sqlite3'), { default: true });
    const db = new Database(':memory:', async () => {
      const { loadExtension } = db;
      db.loadExtension = (...words) => {
        try { other() } catch (error) { console.log(error.message) }
        loadExtension.apply(db, words);
      };
      await load(db, { default: true });
      other();
    });`);
  assert.equal(said, 'oneflush: load() of sqlite3 is still under way; await it first');
});
