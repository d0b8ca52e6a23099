'use strict';

/** What was refused, and the way out. */
class OneflushError extends Error {
  name = 'OneflushError';
}

module.exports = { OneflushError };
