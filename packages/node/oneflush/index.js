'use strict';

// What a program can call; index.d.ts says what each is for.

const { checkpoint, stats, strategy } = require('./lib/asking');
const { OneflushError } = require('./lib/error');
const { load } = require('./lib/loading');
const { uri } = require('./lib/options');
const { libraryPath, programPath, version } = require('./lib/platform');
const { recover } = require('./lib/program');

// Names that stand here one by one are found by `import` as well.
module.exports = {
  OneflushError,
  checkpoint,
  libraryPath,
  load,
  programPath,
  recover,
  stats,
  strategy,
  uri,
  version,
};
