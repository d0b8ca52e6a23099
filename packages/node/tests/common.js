'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

/** A new folder in the current one, which is on a file system that keeps what a sync promises. */
const folder = () => fs.mkdtempSync(path.resolve('data-'));

/** Runs JavaScript in a process of its own, in the current folder; returns what it printed. */
function run(source, { env = {}, cwd, type = 'commonjs' } = {}) {
  const child = spawnSync(process.execPath, ['--no-warnings', `--input-type=${type}`, '-e', source],
    { cwd, env: { ...process.env, ...env }, encoding: 'utf8' });
  assert.equal(child.status, 0, child.stderr);
  return child.stdout.trim();
}

module.exports = { folder, run };
