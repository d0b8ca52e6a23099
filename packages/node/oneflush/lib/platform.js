'use strict';

// Which platform package this Node needs, and where its files are.

const fs = require('node:fs');
const path = require('node:path');
const { OneflushError } = require('./error');
const { optionalDependencies, version } = require('../package.json');

/** The name of the platform package of this Node: `@oneflush/linux-x64-glibc`. */
function packageName() {
  const libc = process.platform === 'linux' ? `-${require('detect-libc').familySync()}` : '';
  return `@oneflush/${process.platform}-${process.arch}${libc}`;
}

/** Path of a file of the platform package. */
function fileOf(name) {
  const wanted = packageName();
  const there = Object.keys(optionalDependencies);
  if (!there.includes(wanted)) {
    throw new OneflushError(`oneflush: there is no ${wanted}; there are: ${there.join(', ')}`);
  }
  const description = find(`${wanted}/package.json`);
  const install = `npm install ${wanted}@${version}`;
  if (!description) {
    const others = there.filter((other) => find(`${other}/package.json`)).join(', ');
    const found = others ? `; there is only ${others}, so node_modules is of another system` : '';
    throw new OneflushError(`oneflush: the package ${wanted} is not installed${found}. ` +
      `Install it: ${install} (npm leaves it out with --omit=optional)`);
  }
  const found = JSON.parse(fs.readFileSync(description, 'utf8')).version;
  if (found !== version) {
    throw new OneflushError(`oneflush: oneflush is ${version}, and ${wanted} is ${found}. ` +
      `Install both in one version: ${install}`);
  }
  return path.join(path.dirname(description), name);
}

function find(file) {
  try {
    return require.resolve(file);
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

const libraryPath = () => fileOf('liboneflush.so');
const programPath = () => fileOf('oneflush');

module.exports = { libraryPath, programPath, version };
