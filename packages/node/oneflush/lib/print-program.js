'use strict';

// Prints the path of the program for bin/oneflush.

try {
  process.stdout.write(require('./platform').programPath());
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
