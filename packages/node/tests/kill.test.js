'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const readline = require('node:readline');
const { test } = require('node:test');
const { folder } = require('./common');
const { drivers } = require('./session');
const { recover } = require('oneflush');

const WRITER = path.join(__dirname, 'writer.js');
const COMMITS = 60;

/** Kills a writer in the middle. Returns the last number that it has said. */
async function killed(driver, strategy, file) {
  const words = ['--no-warnings', WRITER, driver, strategy, file, '1000000'];
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  let last = 0;
  for await (const line of readline.createInterface({ input: child.stdout })) {
    last = Number(line);
    if (last === COMMITS) child.kill('SIGKILL');
  }
  assert.deepEqual(await ended, [null, 'SIGKILL']);
  assert.ok(last >= COMMITS);
  return last;
}

async function check(driver, db, acknowledged) {
  const [{ rows, last }] =
    await driver.all(db, 'SELECT count(*) AS rows, max(n) AS last FROM item');
  assert.ok(last >= acknowledged, `${last} rows, and ${acknowledged} were acknowledged`);
  assert.equal(rows, last);
  const [{ integrity_check: found }] = await driver.all(db, 'PRAGMA integrity_check');
  assert.equal(found, 'ok');
  await driver.close(db);
}

for (const [name, driver] of Object.entries(drivers)) {
  test(`${name}: kill -9 with plain: SQLite alone has all commits`, async () => {
    const file = path.join(folder(), 'app.db');
    const acknowledged = await killed(name, 'plain', file);
    await check(driver, await driver.open(file), acknowledged);
  });

  test(`${name}: kill -9 with eager: guarded, recovered, all commits are there`, async () => {
    const file = path.join(folder(), 'app.db');
    const acknowledged = await killed(name, 'eager', file);
    await assert.rejects(async () => {
      const db = await driver.open(file);
      await driver.all(db, 'SELECT * FROM item');
    }, /file is not a database/);
    const dry = recover(file, { dryRun: true });
    assert.equal(dry.recovered, false);
    assert.ok(dry.log.records >= COMMITS, JSON.stringify(dry));
    assert.equal(recover(file).recovered, true);
    assert.equal(recover(file).log, null);
    await check(driver, await driver.open(file), acknowledged);
  });

  test(`${name}: kill -9 with eager: the next open has all commits`, async () => {
    const file = path.join(folder(), 'app.db');
    const acknowledged = await killed(name, 'eager', file);
    await check(driver, await driver.open(file, 'eager'), acknowledged);
  });
}
