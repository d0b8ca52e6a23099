package io.github.oneflush;

import org.sqlite.SQLiteConfig;
import org.sqlite.SQLiteConnection;
import org.sqlite.SQLiteDataSource;
import org.sqlite.core.DB;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;

/**
 * Oneflush for sqlite-jdbc.
 *
 * <pre>{@code
 * SQLiteDataSource source = Oneflush.dataSource("app.db", Strategy.PLAIN);
 * try (Connection db = source.getConnection()) {
 *     System.out.println(Oneflush.strategy(db)); // plain
 * }
 * }</pre>
 *
 * <p>A database is opened with Oneflush by its address, as {@link #url} makes it. A process of Java
 * cannot change its own environment, so the strategy stands there. The variables of Oneflush, such
 * as {@code ONEFLUSH_LOG}, work if they are set when the JVM starts.
 *
 * <p>The library is in this jar. {@link #load()} loads it into SQLite once in a process. It then
 * serves the databases that are opened afterwards. A connection that is open stays as it is.
 */
public final class Oneflush {
    /** SQLite derives the entry point's name from the file's, and a file may have any name. */
    private static final String ENTRY_POINT = "sqlite3_oneflush_init";

    private static boolean isLoaded;

    private Oneflush() {}

    /**
     * Loads Oneflush into sqlite-jdbc's SQLite, by a connection of its own. Calls after the first
     * do nothing. {@link #dataSource} and {@link OneflushDriver} call it themselves.
     *
     * @throws SQLException where the library cannot be loaded, with the reason and the way out
     */
    public static synchronized void load() throws SQLException {
        if (isLoaded) {
            return;
        }
        try (Connection db = new SQLiteConfig().createConnection("jdbc:sqlite::memory:")) {
            load(db);
        }
    }

    /**
     * The same, by a connection that is open. That connection itself stays on the VFS that it has.
     *
     * @param connection one of sqlite-jdbc, or of a pool over it
     * @throws SQLException where the library cannot be loaded, with the reason and the way out
     */
    public static synchronized void load(Connection connection) throws SQLException {
        if (isLoaded) {
            return;
        }
        DB db = connection.unwrap(SQLiteConnection.class).getDatabase();
        Library.with(
                path -> {
                    db.enable_load_extension(true);
                    try (PreparedStatement statement =
                            connection.prepareStatement("SELECT load_extension(?, ?)")) {
                        statement.setString(1, path);
                        statement.setString(2, ENTRY_POINT);
                        statement.execute();
                    } finally {
                        db.enable_load_extension(db.getConfig().isEnabledLoadExtension());
                    }
                });
        isLoaded = true;
    }

    /**
     * Lets the connections of a configuration load extensions, for programs that load the library
     * themselves. {@link #load()} does not need it.
     *
     * @return the same configuration
     */
    public static SQLiteConfig config(SQLiteConfig config) {
        config.enableLoadExtension(true);
        return config;
    }

    /**
     * The JDBC address of a file. It needs {@link #load()} before its first use.
     *
     * <p>It has {@code journal_mode=WAL} for PLAIN, EAGER and WALDIO, {@code journal_mode=DELETE}
     * for MAW, and nothing of the kind for AUTO and STOCK.
     */
    public static String url(String path, Strategy strategy) {
        return url(path, strategy, Map.of());
    }

    /**
     * The same with parameters of Oneflush, such as {@code durability=full}. The project's page
     * docs/use.md has them all.
     *
     * @throws IllegalArgumentException for a parameter that means nothing to Oneflush
     */
    public static String url(String path, Strategy strategy, Map<String, String> parameters) {
        String mode = strategy.journalMode();
        String url = Url.of(path, strategy, parameters);
        return mode == null ? url : url + "&journal_mode=" + mode;
    }

    /**
     * A source of connections to a file, for pools or by itself. It loads Oneflush, and its
     * settings are those of sqlite-jdbc: {@code setBusyTimeout}, {@code setReadOnly} and the
     * others. A journal mode that is set there is kept.
     *
     * @throws SQLException where the library cannot be loaded, with the reason and the way out
     */
    public static SQLiteDataSource dataSource(String path, Strategy strategy) throws SQLException {
        return dataSource(path, strategy, Map.of());
    }

    /**
     * The same with parameters of Oneflush.
     *
     * @throws IllegalArgumentException for a parameter that means nothing to Oneflush
     * @throws SQLException where the library cannot be loaded, with the reason and the way out
     */
    public static SQLiteDataSource dataSource(
            String path, Strategy strategy, Map<String, String> parameters) throws SQLException {
        SQLiteDataSource source = new OneflushDataSource(Url.of(path, strategy, parameters));
        load();
        return source;
    }

    /**
     * The strategy of a database, and the reason where it is inactive: {@code eager (inactive:
     * journal_mode=delete)}.
     *
     * @throws SQLException also where the database is open without Oneflush, or has no file
     */
    public static String strategy(Connection connection) throws SQLException {
        return ask(connection, "oneflush_strategy");
    }

    /**
     * What SQLite asked for and what the strategy did, over all connections of the process: one
     * JSON object.
     *
     * @throws SQLException also where the database is open without Oneflush, or has no file
     */
    public static String stats(Connection connection) throws SQLException {
        return ask(connection, "oneflush_stats");
    }

    /**
     * Runs a checkpoint now, as Oneflush's own thread does.
     *
     * @return a JSON object with {@code held_up}, {@code wal_frames} and {@code copied_frames}
     * @throws SQLException also where the database is open without Oneflush, or has no file
     */
    public static String checkpoint(Connection connection) throws SQLException {
        return ask(connection, "oneflush_checkpoint");
    }

    private static String ask(Connection connection, String pragma) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            if (statement.execute("PRAGMA " + pragma)) {
                try (ResultSet row = statement.getResultSet()) {
                    if (row.next()) {
                        return row.getString(1);
                    }
                }
            }
        }
        throw new SQLException("oneflush: this database is not open with Oneflush");
    }
}
