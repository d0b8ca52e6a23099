'use strict';

// The PRAGMAs of Oneflush on an open database.

const { driverOf } = require('./drivers');

// `use` of the answer, at once or when it comes.
function asked(db, name, use) {
  const driver = driverOf(db);
  const answer = driver.ask(db, `PRAGMA oneflush_${name}`);
  const used = (text) => (text === undefined ? null : use(text));
  return driver.isAsync ? answer.then(used) : used(answer);
}

const strategy = (db) => asked(db, 'strategy', String);
const stats = (db) => asked(db, 'stats', JSON.parse);
const checkpoint = (db) => asked(db, 'checkpoint', JSON.parse);

module.exports = { checkpoint, stats, strategy };
