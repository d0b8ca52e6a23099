'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { folder, run } = require('./common');

// Each process has its own SQLite, so each of these is one.
const HEAD = `
const { Worker, isMainThread } = require('node:worker_threads');
const oneflush = require('oneflush');
const Database = require('better-sqlite3');
`;

function inWorkers(main, worker, environment) {
  return run(`${HEAD}
    ${main}
    const worker = ${JSON.stringify(`${HEAD} try { ${worker} } catch (error) {
      console.log(error.message) }`)};
    for (let n = 0; n < 4; n++) new Worker(worker, { eval: true, env: ${environment} });
  `, { env: { FILE: path.join(folder(), 'app.db') } });
}

const WRITE = `
  const db = new Database(process.env.FILE, { timeout: 5000 });
  for (let n = 0; n < 10; n++) db.exec('INSERT INTO item VALUES (1)');
  console.log(oneflush.strategy(db), db.prepare('SELECT count(*) FROM item').pluck().get() >= 10);
  db.close();`;
const MAKE = `
  const first = new Database(process.env.FILE);
  first.pragma('journal_mode=WAL');
  first.exec('CREATE TABLE item(n)');
  process.on('exit', () => {
    console.log(first.prepare('SELECT count(*) FROM item').pluck().get());
    first.close();
  });`;
const ALL = "{ default: true, strategy: 'eager' }";

test('workers use what the main thread has loaded', () => {
  const said = inWorkers(`oneflush.load(Database, ${ALL}); ${MAKE}`, WRITE, 'undefined');
  assert.equal(said, 'eager true\n'.repeat(4) + 40);
});

test('workers may load with the same options, or without any', () => {
  for (const options of [ALL, '{}']) {
    const said = inWorkers(`oneflush.load(Database, ${ALL}); ${MAKE}`,
      `oneflush.load(Database, ${options}); ${WRITE}`, 'undefined');
    assert.equal(said, 'eager true\n'.repeat(4) + 40);
  }
});

test('a worker cannot load with options of its own, and says so', () => {
  const shared = "require('node:worker_threads').SHARE_ENV";
  const other = "oneflush.load(Database, { default: true, strategy: 'plain' });";
  for (const [main, env] of [['', 'undefined'], ['', shared], [other, 'undefined']]) {
    const lines = inWorkers(main, `oneflush.load(Database, ${ALL}); ${WRITE}`, env).split('\n');
    assert.equal(lines.length, 4);
    for (const line of lines) assert.match(line, /belongs to the main thread/);
  }
});

test('where process.env is a copy, as in Jest, options are refused', () => {
  const said = run(`${HEAD} Object.defineProperty(process, 'env', { value: { ...process.env } });
    try { oneflush.load(Database, ${ALL}) } catch (error) { console.log(error.message) }`);
  assert.match(said, /belongs to the main thread.*ONEFLUSH_DEFAULT=1/);
});

test('options may come from the environment of the process', () => {
  const said = run(`${HEAD} oneflush.load(Database);
    console.log(oneflush.strategy(new Database(process.env.FILE)))`, { env: {
    FILE: path.join(folder(), 'app.db'), ONEFLUSH_DEFAULT: '1', ONEFLUSH_STRATEGY: 'eager' } });
  assert.equal(said, 'eager (inactive: journal_mode=delete)');
});

test('process.exit() with an open database leaves a plain one', () => {
  const data = folder();
  const file = path.join(data, 'app.db');
  run(`${HEAD} oneflush.load(Database, ${ALL}); ${MAKE.replace('first.close();', '')}
    process.exit(0)`, { env: { FILE: file } });
  assert.deepEqual(fs.readdirSync(data), ['app.db']);
  const said = run(`${HEAD} const db = new Database(process.env.FILE);
    console.log(db.pragma('integrity_check', { simple: true }))`, { env: { FILE: file } });
  assert.equal(said, 'ok');
});

test('a child of fork() loads for itself', () => {
  const file = path.join(folder(), 'child.js');
  fs.writeFileSync(file, `${HEAD.replaceAll(/require\('(oneflush|better-sqlite3)'\)/g,
    (_, name) => `require(${JSON.stringify(require.resolve(name))})`)}
    oneflush.load(Database, ${ALL});
    console.log(oneflush.strategy(new Database(process.argv[2])));`);
  const said = run(`${HEAD} oneflush.load(Database, ${ALL});
    require('node:child_process').fork(${JSON.stringify(file)}, [process.env.FILE])`,
  { env: { FILE: path.join(folder(), 'app.db') } });
  assert.equal(said, 'eager (inactive: journal_mode=delete)');
});
