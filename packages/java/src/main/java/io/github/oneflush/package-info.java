/**
 * Durable SQLite commits for one aligned write and one flush, with xerial's sqlite-jdbc. Begin with
 * {@link io.github.oneflush.Oneflush}.
 */
package io.github.oneflush;
