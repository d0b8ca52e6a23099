'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { before, test } = require('node:test');

const place = fs.mkdtempSync(path.resolve('../types-'));

before(() => {
  fs.writeFileSync(path.join(place, 'package.json'), '{ "private": true }');
  const words = ['install', '--silent', 'oneflush', 'sqlite3', 'typescript', '@types/node',
    '@types/better-sqlite3'];
  assert.equal(spawnSync('npm', words, { cwd: place, stdio: 'inherit' }).status, 0);
});

function tsc(source) {
  fs.writeFileSync(path.join(place, 'program.mts'), source);
  const words = ['tsc', '--strict', '--noEmit', '--target', 'es2022', '--module', 'nodenext',
    '--types', 'node', 'program.mts'];
  const { status, stdout, stderr } = spawnSync('npx', words, { cwd: place, encoding: 'utf8' });
  return { status, said: stdout + stderr };
}

const HEAD = `
import Database from 'better-sqlite3';
import { DatabaseSync } from 'node:sqlite';
import sqlite3 from 'sqlite3';
import * as oneflush from 'oneflush';
`;

test('tsc --strict accepts what all drivers do', () => {
  const { status, said } = tsc(`${HEAD}
    const db = new Database('app.db');
    oneflush.load(Database, { default: true, strategy: 'eager', groupCommit: false });
    oneflush.load(db, { default: true });
    oneflush.load(DatabaseSync, { durability: 'full' });
    oneflush.load(new DatabaseSync(':memory:', { allowExtension: true }));
    const later: Promise<void> = oneflush.load(sqlite3.Database);
    const other = new DatabaseSync(oneflush.uri('app.db', { strategy: 'plain', logSize: 1 << 20 }));
    const name: string | null = oneflush.strategy(other);
    const commits: number | undefined = oneflush.stats(db)?.commits.count;
    const bytes: number | undefined = oneflush.stats(other)?.files.wal.write_bytes;
    const frames: number | undefined = oneflush.checkpoint(db)?.copied_frames;
    const answer: Promise<string | null> = oneflush.strategy(new sqlite3.Database('app.db'));
    const recovered: boolean = oneflush.recover('app.db', { dryRun: true }).recovered;
    const texts: string[] = [oneflush.libraryPath(), oneflush.programPath(), oneflush.version];
    console.log(later, name, commits, bytes, frames, answer, recovered, texts);
    try { oneflush.load(Database) } catch (error) {
      if (error instanceof oneflush.OneflushError) console.log(error.message);
    }
  `);
  assert.deepEqual({ status, said }, { status: 0, said: '' });
});

for (const [what, wrong] of [
  ['an unknown strategy', "oneflush.load(Database, { strategy: 'fast' })"],
  ['an unknown option', "oneflush.uri('app.db', { stratgy: 'plain' })"],
  ['what is no database', 'oneflush.load(new Map())'],
  ['a promise taken for a text', 'oneflush.strategy(new sqlite3.Database("a")).length'],
  ['an answer that may be null', 'oneflush.stats(new Database("a")).commits'],
]) {
  test(`tsc --strict refuses ${what}`, () => {
    const { status, said } = tsc(`${HEAD}\n${wrong}`);
    assert.notEqual(status, 0);
    assert.equal(said.match(/error TS/g).length, 1, said);
    assert.match(said, /program\.mts[(:]7/);
  });
}
