'use strict';

// What the program `oneflush` does for this module.

const { spawnSync } = require('node:child_process');
const { OneflushError } = require('./error');
const { programPath } = require('./platform');

/** `oneflush recover`, and what it has done. */
function recover(path, { dryRun = false, acceptLoss = false } = {}) {
  const options = [...(dryRun ? ['--dry-run'] : []), ...(acceptLoss ? ['--accept-loss'] : [])];
  const words = ['recover', '--json', ...options, '--', path];
  const { error, status, signal, stdout, stderr } = spawnSync(programPath(), words, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (error) throw new OneflushError(`oneflush: ${error.message}`, { cause: error });
  if (status !== 0) {
    throw new OneflushError(stderr.trim() || `oneflush: recover ended by ${signal}`);
  }
  return JSON.parse(stdout);
}

module.exports = { recover };
