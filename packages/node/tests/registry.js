'use strict';

// registry.js PORT_FILE FOLDER…: an npm registry on this machine, for a place without a network.
//
// It offers the tgz files in the folders, and each package below a `node_modules` in them, packed
// when it is asked for. So `npm install` does what it does with the real one: it reads the
// descriptions, chooses versions and platforms, and fetches.

const { execFileSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

const [portFile, ...folders] = process.argv.slice(2);

// name → version → { description, read }
const packages = new Map();

function offer(description, read) {
  const { name, version } = description;
  if (!packages.has(name)) packages.set(name, new Map());
  packages.get(name).set(version, { description, read });
}

function offerFile(file) {
  const text = execFileSync('tar', ['xzOf', file, 'package/package.json'], { encoding: 'utf8' });
  offer(JSON.parse(text), () => fs.readFileSync(file));
}

// `node_modules` has packages, and folders `@scope` of packages; each may have its own.
function offerModules(folder) {
  for (const name of fs.readdirSync(folder)) {
    const module = path.join(folder, name);
    const file = path.join(module, 'package.json');
    if (name.startsWith('@')) offerModules(module);
    else if (fs.existsSync(file)) {
      // npm drops links, and what was compiled is one.
      const words = ['czf', '-', '--hard-dereference', '--exclude=./node_modules',
        '--transform=s,^\\.,package,', '.'];
      const read = () => execFileSync('tar', words, { cwd: module, maxBuffer: 1 << 30 });
      offer(JSON.parse(fs.readFileSync(file, 'utf8')), read);
      if (fs.existsSync(`${module}/node_modules`)) offerModules(`${module}/node_modules`);
    }
  }
}

function newest(versions) {
  const order = new Intl.Collator('en', { numeric: true });
  return [...versions].sort(order.compare).at(-1);
}

function describe(name, host) {
  const versions = packages.get(name);
  const entries = [...versions].map(([version, { description, read }]) => {
    const tarball = `http://${host}/-/${encodeURIComponent(name)}/${version}.tgz`;
    const bytes = name.includes('oneflush') ? read() : undefined;
    const integrity = bytes && `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
    return [version, { ...description, dist: { tarball, integrity } }];
  });
  // Managers may refuse what was published just now.
  const time = Object.fromEntries([...versions.keys()].map((key) => [key, '2020-01-01T00:00:00Z']));
  return {
    name,
    'dist-tags': { latest: newest(versions.keys()) },
    versions: Object.fromEntries(entries),
    time,
  };
}

function answer(request) {
  const words = request.url.split('?')[0].split('/').filter(Boolean).map(decodeURIComponent);
  if (words[0] === '-') {
    const found = packages.get(words[1])?.get(words[2]?.replace(/\.tgz$/, ''));
    return found?.read();
  }
  const name = words.join('/');
  return packages.has(name) ? JSON.stringify(describe(name, request.headers.host)) : undefined;
}

for (const folder of folders) {
  for (const name of fs.readdirSync(folder)) {
    if (name.endsWith('.tgz')) offerFile(path.join(folder, name));
    if (name === 'node_modules') offerModules(path.join(folder, name));
  }
}

const server = http.createServer((request, response) => {
  const body = answer(request);
  response.writeHead(body === undefined ? 404 : 200);
  response.end(body ?? '{"error":"not found"}');
});
server.listen(0, '127.0.0.1', () => {
  fs.writeFileSync(`${portFile}.new`, String(server.address().port));
  fs.renameSync(`${portFile}.new`, portFile);
});
