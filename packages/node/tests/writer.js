'use strict';

// writer.js DRIVER STRATEGY FILE COUNT: commits numbers from where the table ends, and says each
// when the commit is acknowledged. At the end it says what the database tells of itself.

const fs = require('node:fs');
const { stats, strategy } = require('oneflush');
const { drivers } = require('./session');

const [name, wanted, file, count] = process.argv.slice(2);
const driver = drivers[name];

async function main() {
  const db = await driver.open(file, wanted);
  await driver.exec(db, 'PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL');
  await driver.exec(db, 'CREATE TABLE IF NOT EXISTS item(n INTEGER PRIMARY KEY)');
  const [{ last }] = await driver.all(db, 'SELECT coalesce(max(n), 0) AS last FROM item');
  const before = (await stats(db)).commits.count;
  for (let n = last + 1; n <= last + Number(count); n++) {
    await driver.exec(db, `INSERT INTO item VALUES (${n})`);
    // At once: a kill must not take what was said.
    fs.writeSync(1, `${n}\n`);
  }
  const commits = (await stats(db)).commits.count - before;
  fs.writeSync(1, `${JSON.stringify({ last, commits, strategy: await strategy(db) })}\n`);
  await driver.close(db);
}

main();
