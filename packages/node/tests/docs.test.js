'use strict';

// Each block of code of README.md and book.md, as it stands. A page has a project of its own.
//
// `js file=NAME` is written to a file. The `sh` blocks of a section (`## …`) are one script, and
// its output is what the section's `text` blocks say.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');

const BLOCK = /^```(\w+)(?: file=(\S+))?\n(.*?)^```$/gms;

for (const page of ['README.md', 'book.md']) {
  const place = fs.mkdtempSync(path.resolve('../page-'));
  fs.writeFileSync(path.join(place, 'package.json'), '{ "private": true }');
  const sections = fs.readFileSync(page, 'utf8').split(/^## (?=.)/m).slice(1);
  assert.ok(sections.length > 0, page);
  for (const section of sections) {
    const [title] = section.split('\n', 1);
    const blocks = [...section.matchAll(BLOCK)].map(([, language, file, body]) =>
      ({ language, file, body }));
    for (const { file, body } of blocks) {
      if (file) fs.writeFileSync(path.join(place, file), body);
    }
    const all = (wanted) => blocks.filter(({ language }) => language === wanted)
      .map(({ body }) => body).join('');
    const script = all('sh');
    if (!script) continue;
    test(`${page}, ${title}`, () => {
      const expected = all('text');
      const child = spawnSync('bash', ['-euo', 'pipefail', '-c', script],
        { cwd: place, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
      assert.equal(child.status, 0, child.stderr);
      if (expected) assert.equal(child.stdout, expected);
    });
  }
  test(`${page} has no block that is not run`, () => {
    for (const [, language, file] of fs.readFileSync(page, 'utf8').matchAll(BLOCK)) {
      assert.ok(file || ['sh', 'text'].includes(language), `a block of ${language} without file=`);
    }
  });
}
