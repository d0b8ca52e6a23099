'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { folder, run } = require('./common');
const { drivers } = require('./session');
const { OneflushError, libraryPath, load, recover, uri } = require('oneflush');
const { OPTIONS } = require(path.join(path.dirname(require.resolve('oneflush')), 'lib/options'));

const { Database } = drivers['better-sqlite3'];
const PLATFORM = path.basename(path.dirname(libraryPath()));

/** The refusal of `action`: an OneflushError with these words. */
function refused(action, ...words) {
  assert.throws(action, (error) => {
    assert.ok(error instanceof OneflushError, error.stack);
    for (const word of words) assert.ok(error.message.includes(word), error.message);
    return true;
  });
}

test('an unknown strategy, option or value is named, with those that are allowed', () => {
  const strategies = 'allowed: auto, stock, plain, eager, waldio, maw';
  refused(() => load(Database, { default: true, strategy: 'fast' }), '"fast"', strategies);
  refused(() => uri('app.db', { strategy: 'fast' }), 'option strategy', '"fast"', strategies);
  refused(() => uri('app.db', { stratgy: 'plain' }), 'option stratgy', 'there are: strategy, ');
  refused(() => uri('app.db', { logSize: 'big' }), 'option logSize', 'a number');
  refused(() => load(Database, { default: 'yes' }), 'option default', 'true, false');
});

test('where the library knows the bounds, its words are shown', () => {
  refused(() => load(Database, { default: true, logSize: 12 }),
    'cannot be loaded', 'ONEFLUSH_LOG_SIZE', '"12"', '1048576', 'OF-401');
  assert.equal(process.env.ONEFLUSH_LOG_SIZE, undefined);
});

test('the words that are allowed are those of the library', () => {
  const db = new Database(':memory:');
  for (const [name, words] of Object.entries(OPTIONS)) {
    const variable = `ONEFLUSH_${name.replace(/[A-Z]/g, '_$&').toUpperCase()}`;
    process.env[variable] = 'nonsense';
    assert.throws(() => db.loadExtension(libraryPath()), (error) => {
      assert.ok(error.message.includes(variable), error.message);
      const allowed = error.message.match(/allowed: (.*) \[OF-401\]/)[1];
      if (words) assert.equal(allowed, words.join(', '));
      else assert.match(allowed, /number|milliseconds/);
      return true;
    });
    delete process.env[variable];
  }
});

test('better-sqlite3 without `default` would not use Oneflush, and that is refused', () => {
  const said = run(`const { load } = require('oneflush');
    for (const options of [undefined, { strategy: 'eager' }, { default: false }]) {
      try { load(require('better-sqlite3'), options) } catch (error) { console.log(error.message) }
    }`);
  assert.equal(said.split('\n').length, 3);
  for (const line of said.split('\n')) assert.match(line, /cannot name a VFS.*default: true/);
});

test('node:sqlite without allowExtension names the way out', { skip:
  !drivers['node:sqlite'] && 'no node:sqlite with URIs' }, () => {
  const DatabaseSync = drivers['node:sqlite'].Database;
  refused(() => load(new DatabaseSync(':memory:')), 'allowExtension: true', 'load(DatabaseSync)');
  load(new DatabaseSync(':memory:', { allowExtension: true }));
});

test('what is no database is refused', () => {
  for (const target of [undefined, null, 1, 'app.db', {}, class {}, () => {}]) {
    refused(() => load(target), 'no database', 'better-sqlite3, node:sqlite or sqlite3');
  }
});

test('uri() quotes what a path may have, and takes a URL', () => {
  assert.equal(uri('app.db'), 'file:app.db?vfs=oneflush');
  assert.equal(uri('/srv/a b?#%.db', { strategy: 'eager', groupCommit: false, logSize: 1 << 20 }),
    'file:/srv/a%20b%3F%23%25.db?vfs=oneflush&strategy=eager&group_commit=off&log_size=1048576');
  assert.equal(uri(new URL('file:///srv/app.db'), { interval: '2ms' }),
    'file:/srv/app.db?vfs=oneflush&interval=2ms');
  assert.equal(uri('//srv/app.db'), 'file:/srv/app.db?vfs=oneflush');
  for (const name of [':memory:', '', undefined]) refused(() => uri(name), 'name a database file');
});

test('a path with all that needs quotes is opened as that file', { skip:
  !drivers['node:sqlite'] && 'no node:sqlite with URIs' }, async () => {
  const data = folder();
  const db = drivers['node:sqlite'].open(path.join(data, 'a b?#%&=é.db'), 'plain');
  db.exec('CREATE TABLE item(n)');
  assert.deepEqual(fs.readdirSync(data), ['a b?#%&=é.db']);
  db.close();
});

test('recover() says what the program says', () => {
  refused(() => recover(path.join(folder(), 'missing.db')), 'missing.db', 'OF-331');
  refused(() => recover(folder()), 'not a regular file', 'OF-319');
});

/** What `load` says in a copy of the installed packages that `change` has changed. */
function inChangedCopy(change) {
  // Not below this project, where Node would find what is not in the copy.
  const place = fs.mkdtempSync(path.resolve('../copy-'));
  fs.cpSync('node_modules', path.join(place, 'node_modules'), { recursive: true,
    filter: (source) => !source.includes('sqlite3') });
  change(path.join(place, 'node_modules'));
  return run(`const { load } = require('oneflush');
    try { load(require(${JSON.stringify(require.resolve('better-sqlite3'))}), { default: true }) }
    catch (error) { console.log(error.name, error.message) }`, { cwd: place });
}

test('a missing platform package is named, and how it is installed', () => {
  const said = inChangedCopy((modules) => fs.rmSync(`${modules}/@oneflush`, { recursive: true }));
  const version = require('oneflush').version;
  assert.equal(said, 'OneflushError oneflush: ' +
    `the package @oneflush/${PLATFORM} is not installed. ` +
    `Install it: npm install @oneflush/${PLATFORM}@${version} ` +
    '(npm leaves it out with --omit=optional)');
});

test("another system's package is named where it lies in place of ours", () => {
  const said = inChangedCopy((modules) => {
    const file = `${modules}/oneflush/package.json`;
    const description = JSON.parse(fs.readFileSync(file, 'utf8'));
    description.optionalDependencies['@oneflush/linux-riscv64-glibc'] = description.version;
    fs.writeFileSync(file, JSON.stringify(description));
    fs.renameSync(`${modules}/@oneflush/${PLATFORM}`, `${modules}/@oneflush/linux-riscv64-glibc`);
  });
  assert.match(said, /there is only @oneflush\/linux-riscv64-glibc, so node_modules is of another/);
});

test('a platform package of another version is refused', () => {
  const said = inChangedCopy((modules) => {
    const file = `${modules}/@oneflush/${PLATFORM}/package.json`;
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(/"version": ".*"/,
      '"version": "0.0.9"'));
  });
  assert.match(said, /and @oneflush\/.* is 0\.0\.9\. Install both in one version: npm install/);
});

test('a system without a package is named, with those that there are', () => {
  const said = run(`Object.defineProperty(process, 'platform', { value: 'darwin' });
    try { require('oneflush').libraryPath() } catch (error) { console.log(error.message) }`);
  assert.match(said, /^oneflush: there is no @oneflush\/darwin-\w+; there are: @oneflush\/linux-/);
});

test('a library for another processor is refused by name', () => {
  const said = inChangedCopy((modules) => {
    const file = `${modules}/@oneflush/${PLATFORM}/liboneflush.so`;
    const image = fs.readFileSync(file);
    // The machine of an ELF header: RISC-V.
    image.writeUInt16LE(243, 18);
    fs.writeFileSync(file, image);
  });
  assert.match(said, /cannot be loaded: .*liboneflush\.so/);
});
