'use strict';

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const { isBuiltin } = require('node:module');
const path = require('node:path');
const { test } = require('node:test');
const { folder, run } = require('./common');
const { programPath, version } = require('oneflush');

const COMMAND = path.resolve('node_modules/.bin/oneflush');

const said = (...words) => spawnSync(words[0], words.slice(1), { encoding: 'utf8' });

test('npx oneflush is the program', () => {
  const { status, stdout } = said('npx', 'oneflush', '--version');
  assert.deepEqual({ status, stdout }, { status: 0, stdout: `oneflush ${version}\n` });
  assert.equal(said('npx', 'oneflush', '--help').stdout, said(programPath(), '--help').stdout);
});

test('the lines of oneflush try are a program that switches it on, with both drivers', () => {
  const { stdout } = said('npx', 'oneflush', 'try', '--language', 'node');
  const [install, ...lines] = stdout.split('\n');
  assert.equal(install, 'npm install oneflush');
  // `eager` is no default.
  const better = lines.join('\n').replaceAll('plain', 'eager');
  const builtin = better.replace("require('better-sqlite3')", "require('node:sqlite').DatabaseSync");
  assert.notEqual(builtin, better);
  for (const program of isBuiltin('node:sqlite') ? [better, builtin] : [better]) {
    const asked = "db.exec('PRAGMA journal_mode = WAL');console.log(require('oneflush').strategy(db))";
    assert.equal(run(program + asked, { cwd: folder() }), 'eager', program);
  }
});

test("the exit status is the program's", () => {
  assert.equal(said(COMMAND, 'nonsense').status, 2);
  assert.equal(said(COMMAND, 'recover', path.join(folder(), 'missing.db')).status, 1);
  assert.equal(said(COMMAND, 'run', '--', 'no-such-program').status, 127);
});

test("the process is the program's, and so are its signals", async () => {
  const child = spawn(COMMAND, ['run', '--', 'sleep', '60'], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  const name = () => fs.readFileSync(`/proc/${child.pid}/comm`, 'utf8').trim();
  for (let n = 0; name() !== 'sleep' && n < 600; n++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(name(), 'sleep');
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [null, 'SIGTERM']);
});

test('the three files lie together', () => {
  const names = fs.readdirSync(path.dirname(programPath()));
  for (const name of ['oneflush', 'liboneflush.so', 'liboneflush_preload.so']) {
    assert.ok(names.includes(name), name);
  }
});
