'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { before, test } = require('node:test');

const HEAD = `
import Database from 'better-sqlite3';
import { DatabaseSync } from 'node:sqlite';
import sqlite3 from 'sqlite3';
import * as oneflush from 'oneflush';
`;

const GOOD = `${HEAD}
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
`;

const WRONG = [
  ['an unknown strategy', "oneflush.load(Database, { strategy: 'fast' })"],
  ['an unknown option', "oneflush.uri('app.db', { stratgy: 'plain' })"],
  ['what is no database', 'oneflush.load(new Map())'],
  ['a promise taken for a text', 'oneflush.strategy(new sqlite3.Database("a")).length'],
  ['an answer that may be null', 'oneflush.stats(new Database("a")).commits'],
];

// One call for all files: `said` has the errors of each.
const said = {};

before(() => {
  const place = fs.mkdtempSync(path.resolve('../types-'));
  fs.writeFileSync(path.join(place, 'package.json'), '{ "private": true }');
  const install = ['install', '--silent', 'oneflush', 'sqlite3', 'typescript', '@types/node',
    '@types/better-sqlite3'];
  assert.equal(spawnSync('npm', install, { cwd: place, stdio: 'inherit' }).status, 0);

  const sources = { 'good.mts': GOOD };
  WRONG.forEach(([, wrong], at) => { sources[`wrong${at}.mts`] = `${HEAD}\n${wrong}`; });
  for (const [name, text] of Object.entries(sources)) {
    fs.writeFileSync(path.join(place, name), text);
    said[name] = [];
  }
  const words = ['tsc', '--strict', '--noEmit', '--target', 'es2022', '--module', 'nodenext',
    '--types', 'node', ...Object.keys(sources)];
  const { stdout } = spawnSync('npx', words, { cwd: place, encoding: 'utf8' });
  for (const line of stdout.split('\n').filter((text) => text.includes('error TS'))) {
    (said[line.split('(')[0]] ??= []).push(line);
  }
});

test('tsc --strict accepts what all drivers do', () => {
  assert.deepEqual(said['good.mts'], []);
});

WRONG.forEach(([what], at) => {
  test(`tsc --strict refuses ${what}`, () => {
    const lines = said[`wrong${at}.mts`];
    assert.equal(lines.length, 1, lines.join('\n'));
    assert.match(lines[0], /\(7,/);
  });
});

test('tsc finds no errors elsewhere', () => {
  assert.equal(Object.keys(said).length, WRONG.length + 1, JSON.stringify(said));
});
