'use strict';

// Oneflush's options, by the names that JavaScript gives them: as environment variables and as
// parameters of a URI. The tests hold the words against those that the library allows.

const { fileURLToPath } = require('node:url');
const { OneflushError } = require('./error');

const SWITCH = ['on', 'off'];

// Words that are allowed; null where the library knows the bounds of a number.
const OPTIONS = {
  strategy: ['auto', 'stock', 'plain', 'eager', 'waldio', 'maw'],
  durability: ['pragma', 'full'],
  groupCommit: SWITCH,
  prealloc: null,
  keepWal: SWITCH,
  checkpoints: ['background', 'sqlite'],
  unsafeGround: ['refuse', 'allow'],
  logSize: null,
  atomic: ['auto', 'f2fs', 'xfs', 'log'],
  layout: ['embed', 'pad512', 'pad4k', 'pad8k'],
  sync: ['fs', 'pd', 'ns'],
  group: null,
  interval: null,
};

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Pairs of an option, `group_commit`, and its value as a text. What is undefined is left out. */
function pairs(options) {
  return Object.entries(options).filter(([, value]) => value !== undefined).map(([name, value]) => {
    if (!Object.hasOwn(OPTIONS, name)) {
      const there = Object.keys(OPTIONS).join(', ');
      throw new OneflushError(`oneflush: option ${name} is not known; there are: ${there}`);
    }
    const allowed = OPTIONS[name];
    const word = allowed === SWITCH && typeof value === 'boolean' ? SWITCH[value ? 0 : 1] : value;
    const fits = allowed ? allowed.includes(word) : /^[0-9]+(ms)?$/.test(word);
    if (!fits) {
      const words = allowed ? allowed.join(', ') : 'a number';
      throw new OneflushError(
        `oneflush: option ${name}: ${JSON.stringify(value)} is not known; allowed: ${words}`);
    }
    return [snake(name), String(word)];
  });
}

/** The environment variables that stand for the options of `load`. */
function variables({ default: isDefault, ...options }) {
  const all = pairs(options).map(([name, word]) => [`ONEFLUSH_${name.toUpperCase()}`, word]);
  if (isDefault === undefined) return Object.fromEntries(all);
  if (typeof isDefault !== 'boolean') {
    throw new OneflushError(
      `oneflush: option default: ${JSON.stringify(isDefault)} is not known; allowed: true, false`);
  }
  return Object.fromEntries([['ONEFLUSH_DEFAULT', isDefault ? '1' : '0'], ...all]);
}

/** A URI by which SQLite opens the file with Oneflush. */
function uri(file, options = {}) {
  const path = file instanceof URL || String(file).startsWith('file:') ? fileURLToPath(file) : file;
  if (typeof path !== 'string' || path === '' || path === ':memory:') {
    throw new OneflushError(`oneflush: uri(${JSON.stringify(file)}): name a database file`);
  }
  // Two slashes at the front would name a host.
  const name = encodeURI(path.replace(/^\/+/, '/')).replace(/[?#]/g, encodeURIComponent);
  const words = pairs(options).map(([option, word]) => `&${option}=${word}`);
  return `file:${name}?vfs=oneflush${words.join('')}`;
}

module.exports = { OPTIONS, uri, variables };
