package io.github.oneflush;

import org.sqlite.JDBC;
import org.sqlite.SQLiteConnection;
import org.sqlite.SQLiteErrorCode;
import org.sqlite.SQLiteException;

import java.sql.SQLException;
import java.util.Properties;

/** Opens connections of sqlite-jdbc with Oneflush. */
final class Opening {
    private static final int BUSY_TIMEOUT_MS = 3000; // sqlite-jdbc's own
    private static final int PAUSE_MS = 5;

    private Opening() {}

    /**
     * A change of the journal mode is busy while another process makes the database: SQLite calls
     * no busy handler for that lock. So the open is tried again, for as long as the busy timeout
     * is.
     */
    static SQLiteConnection open(String url, Properties given) throws SQLException {
        Oneflush.load();
        String complete = Url.complete(url, given);
        String timeout = given.getProperty("busy_timeout");
        long patience = timeout == null ? BUSY_TIMEOUT_MS : Long.parseLong(timeout);
        long began = System.nanoTime();
        while (true) {
            try {
                return JDBC.createConnection(complete, given);
            } catch (SQLiteException error) {
                long waited = (System.nanoTime() - began) / 1_000_000;
                if (baseCode(error) != SQLiteErrorCode.SQLITE_BUSY.code || waited >= patience) {
                    throw explained(url, error);
                }
            }
            try {
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new SQLException("oneflush: interrupted while opening " + url, interrupted);
            }
        }
    }

    private static int baseCode(SQLiteException error) {
        return error.getResultCode().code & 0xff;
    }

    /** SQLite's words for an open that the VFS refuses are always the same. */
    private static SQLException explained(String url, SQLiteException error) {
        String message = "oneflush: " + name(url) + ": " + error.getMessage();
        if (baseCode(error) == SQLiteErrorCode.SQLITE_CANTOPEN.code) {
            String log = System.getenv("ONEFLUSH_LOG");
            message +=
                    log == null || log.isEmpty() || log.equals("off")
                            ? "; run the program with ONEFLUSH_LOG=stderr to see the reason"
                            : "; the reason is in the messages, for which ONEFLUSH_LOG says " + log;
            message += " (docs/errors.md has them all)";
        }
        SQLiteException explained = new SQLiteException(message, error.getResultCode());
        explained.initCause(error);
        return explained;
    }

    /** Without the query, in which a password may be. */
    private static String name(String url) {
        String name = url.substring(Url.PREFIX.length());
        return name.contains("?") ? name.substring(0, name.indexOf('?')) : name;
    }
}
