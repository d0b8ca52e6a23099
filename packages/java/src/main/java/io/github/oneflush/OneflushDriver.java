package io.github.oneflush;

import org.sqlite.JDBC;

import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.util.Properties;
import java.util.logging.Logger;

/**
 * A driver for pools and frameworks that take the name of a class:
 *
 * <pre>{@code
 * spring.datasource.driver-class-name=io.github.oneflush.OneflushDriver
 * spring.datasource.url=jdbc:sqlite:app.db?strategy=plain
 * }</pre>
 *
 * <p>Its addresses are those of sqlite-jdbc, with the parameters of Oneflush. It loads Oneflush,
 * adds {@code vfs=oneflush} and the journal mode in which the strategy acts, and opens by
 * sqlite-jdbc. It does not register itself with {@link java.sql.DriverManager}: an address without
 * this driver is sqlite-jdbc's alone.
 */
public final class OneflushDriver implements Driver {
    private final JDBC jdbc = new JDBC();

    /** Does nothing yet: the first connection loads Oneflush. */
    public OneflushDriver() {}

    @Override
    public Connection connect(String url, Properties info) throws SQLException {
        return acceptsURL(url) ? Opening.open(url, info == null ? new Properties() : info) : null;
    }

    @Override
    public boolean acceptsURL(String url) {
        return jdbc.acceptsURL(url);
    }

    @Override
    public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) throws SQLException {
        return jdbc.getPropertyInfo(url, info);
    }

    @Override
    public int getMajorVersion() {
        return jdbc.getMajorVersion();
    }

    @Override
    public int getMinorVersion() {
        return jdbc.getMinorVersion();
    }

    @Override
    public boolean jdbcCompliant() {
        return jdbc.jdbcCompliant();
    }

    @Override
    public Logger getParentLogger() {
        return Logger.getLogger("io.github.oneflush");
    }
}
