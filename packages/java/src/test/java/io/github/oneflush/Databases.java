package io.github.oneflush;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** What tests do with databases. */
final class Databases {
    private Databases() {}

    static void run(Connection db, String... statements) throws SQLException {
        try (Statement statement = db.createStatement()) {
            for (String sql : statements) {
                statement.execute(sql);
            }
        }
    }

    static String value(Connection db, String query) throws SQLException {
        try (Statement statement = db.createStatement();
                ResultSet row = statement.executeQuery(query)) {
            row.next();
            return row.getString(1);
        }
    }

    /** The same for SQLite alone. */
    static String alone(Object file, String query) throws SQLException {
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + file)) {
            return value(db, query);
        }
    }

    /** A number in a JSON object. */
    static long number(Connection db, String json, String path) throws SQLException {
        return Long.parseLong(
                value(
                        db,
                        "SELECT json_extract('"
                                + json.replace("'", "''")
                                + "', '$."
                                + path
                                + "')"));
    }
}
