package io.github.oneflush;

import org.sqlite.SQLiteConnection;
import org.sqlite.SQLiteDataSource;

import java.sql.SQLException;
import java.util.Properties;

/** Opens its connections with Oneflush. Its settings are sqlite-jdbc's. */
final class OneflushDataSource extends SQLiteDataSource {
    OneflushDataSource(String url) {
        setUrl(url);
    }

    @Override
    public SQLiteConnection getConnection(String user, String password) throws SQLException {
        Properties given = getConfig().toProperties();
        if (user != null) {
            given.put("user", user);
        }
        if (password != null) {
            given.put("pass", password);
        }
        return Opening.open(getUrl(), given);
    }
}
