'use strict';

// npm, pnpm and Yarn: which platform package each installs, and that it works from there.

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { libraryPath, version } = require('oneflush');

const PLATFORM = path.basename(path.dirname(libraryPath()));
const REGISTRY = process.env.npm_config_registry;
const OTHERS = ['linux-x64-musl', 'linux-arm64-glibc', 'linux-arm64-musl'];
const PROGRAM = "const o = require('oneflush'); const D = require('better-sqlite3');" +
  "o.load(D, { default: true }); console.log(o.strategy(new D('app.db')))";
const INACTIVE = 'plain (inactive: journal_mode=delete)\n';

function project() {
  const place = fs.mkdtempSync(path.resolve('../managed-'));
  fs.writeFileSync(path.join(place, 'package.json'), '{ "private": true }');
  return place;
}

function run(cwd, command, ...words) {
  const { status, stdout, stderr } = spawnSync(command, words, { cwd, encoding: 'utf8', env: {
    ...process.env,
    YARN_NPM_REGISTRY_SERVER: REGISTRY,
    YARN_UNSAFE_HTTP_WHITELIST: '127.0.0.1',
    YARN_ENABLE_TELEMETRY: '0',
    YARN_ENABLE_IMMUTABLE_INSTALLS: '0',
    YARN_ENABLE_SCRIPTS: '0',
    YARN_GLOBAL_FOLDER: path.resolve('../yarn'),
  } });
  assert.equal(status, 0, `${command} ${words.join(' ')}: ${stdout}${stderr}`);
  return stdout;
}

const installed = (place) => fs.readdirSync(path.join(place, 'node_modules/@oneflush'));

test('npm installs one platform package, that of this system', () => {
  assert.deepEqual(installed('.'), [PLATFORM]);
});

for (const name of OTHERS) {
  const archive = `${process.env.DIST}/oneflush-${name}-${version}.tgz`;
  const skip = !fs.existsSync(archive) && `DIST has no package for ${name}`;
  test(`npm installs the package of ${name} where it is asked for`, { skip }, () => {
    const place = project();
    const [os, cpu, libc] = name.split('-');
    run(place, 'npm', 'install', `--os=${os}`, `--cpu=${cpu}`, `--libc=${libc}`, 'oneflush');
    assert.deepEqual(installed(place), [name]);
    const child = spawnSync(process.execPath, ['-e', "require('oneflush').libraryPath()"],
      { cwd: place, encoding: 'utf8' });
    assert.match(child.stderr, new RegExp(`@oneflush/${PLATFORM} is not installed; there is only ` +
      `@oneflush/${name}, so node_modules is of another system. Install it: npm install`));
  });
}

test('npm with --omit=optional leaves the platform package out, and that is said', () => {
  const place = project();
  run(place, 'npm', 'install', '--omit=optional', 'oneflush');
  const child = spawnSync('npx', ['oneflush', '--help'], { cwd: place, encoding: 'utf8' });
  assert.equal(child.status, 1);
  assert.equal(child.stderr, `oneflush: the package @oneflush/${PLATFORM} is not installed. ` +
    `Install it: npm install @oneflush/${PLATFORM}@${version} ` +
    '(npm leaves it out with --omit=optional)\n');
  run(place, 'npm', 'install', `@oneflush/${PLATFORM}@${version}`);
  assert.equal(run(place, 'npx', 'oneflush', '--version'), `oneflush ${version}\n`);
});

test('pnpm: its folders of links', () => {
  const place = project();
  const pnpm = path.join(tool('pnpm@10.24.0'), 'pnpm/bin/pnpm.cjs');
  const store = ['--registry', REGISTRY, '--store-dir', path.resolve('../pnpm')];
  run(place, 'node', pnpm, 'add', 'oneflush', 'better-sqlite3', ...store);
  assert.equal(run(place, 'node', '-e', PROGRAM), INACTIVE);
  assert.equal(run(place, 'node_modules/.bin/oneflush', '--version'), `oneflush ${version}\n`);
});

for (const linker of ['node-modules', 'pnp']) {
  test(`Yarn with nodeLinker: ${linker}`, () => {
    const place = project();
    const yarn = path.join(tool('@yarnpkg/cli-dist'), '@yarnpkg/cli-dist/bin/yarn.js');
    fs.writeFileSync(path.join(place, 'yarn.lock'), '');
    fs.writeFileSync(path.join(place, '.yarnrc.yml'), `nodeLinker: ${linker}\n`);
    run(place, 'node', yarn, 'add', 'oneflush', 'better-sqlite3');
    assert.equal(run(place, 'node', yarn, 'node', '-e', PROGRAM), INACTIVE);
    assert.equal(run(place, 'node', yarn, 'oneflush', '--version'), `oneflush ${version}\n`);
  });
}

/** The node_modules of a place that has the tool. */
function tool(name) {
  const place = project();
  execFileSync('npm', ['install', '--silent', name], { cwd: place });
  return path.join(place, 'node_modules');
}
