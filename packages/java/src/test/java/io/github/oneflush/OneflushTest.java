package io.github.oneflush;

import static io.github.oneflush.Databases.alone;
import static io.github.oneflush.Databases.number;
import static io.github.oneflush.Databases.run;
import static io.github.oneflush.Databases.value;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.sqlite.SQLiteConfig;
import org.sqlite.SQLiteDataSource;
import org.sqlite.SQLiteErrorCode;
import org.sqlite.SQLiteException;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;

final class OneflushTest {
    @TempDir Path folder;

    private String file() {
        return folder.resolve("app.db").toString();
    }

    @ParameterizedTest
    @EnumSource
    void eachStrategyIsInForceAndItsCommitsAreThere(Strategy strategy) throws SQLException {
        try (Connection db = Oneflush.dataSource(file(), strategy).getConnection()) {
            String mode = strategy.journalMode() == null ? "delete" : strategy.journalMode();
            assertEquals(mode.toLowerCase(), value(db, "PRAGMA journal_mode"));
            assertEquals("2", value(db, "PRAGMA synchronous"));
            if (strategy != Strategy.AUTO) {
                assertEquals(strategy.word(), Oneflush.strategy(db));
            }
            run(db, "CREATE TABLE item(n)");
            String before = Oneflush.stats(db);
            for (int n = 0; n < 100; n++) {
                run(db, "INSERT INTO item VALUES (" + n + ")");
            }
            String after = Oneflush.stats(db);
            assertEquals(
                    100, number(db, after, "commits.count") - number(db, before, "commits.count"));
        }
        assertEquals("100", alone(file(), "SELECT count(*) FROM item"));
        assertEquals("ok", alone(file(), "PRAGMA integrity_check"));
    }

    @Test
    void anAddressServesTheDriverManagerOnceOneflushIsLoaded() throws SQLException {
        Oneflush.load();
        String url = Oneflush.url(file(), Strategy.EAGER, Map.of("durability", "full"));
        try (Connection db = DriverManager.getConnection(url)) {
            assertEquals("eager", Oneflush.strategy(db));
            Jvm.says(Oneflush.stats(db), "\"durability\":\"full\"");
        }
    }

    @Test
    void settingsOfTheDataSourceAreKept() throws SQLException {
        SQLiteDataSource source = Oneflush.dataSource(file(), Strategy.EAGER);
        source.setJournalMode("PERSIST");
        source.setSynchronous("NORMAL");
        source.setBusyTimeout(4321);
        try (Connection db = source.getConnection("user", "password")) {
            assertEquals("eager (inactive: journal_mode=persist)", Oneflush.strategy(db));
            assertEquals("1", value(db, "PRAGMA synchronous"));
            assertEquals("4321", value(db, "PRAGMA busy_timeout"));
        }
    }

    @Test
    void aDatabaseThatMayOnlyBeReadStaysAsItIs() throws SQLException {
        alone(file(), "PRAGMA user_version");
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + file())) {
            run(db, "CREATE TABLE item(n)");
        }
        SQLiteDataSource source = Oneflush.dataSource(file(), Strategy.PLAIN);
        source.setReadOnly(true);
        try (Connection db = source.getConnection()) {
            assertEquals("0", value(db, "SELECT count(*) FROM item"));
            assertEquals("delete", value(db, "PRAGMA journal_mode"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"50%", "a b", "a#b", "a&b", "a?b", "ü.db", "a%20b", "a=b"})
    void namesAreTakenAsTheyAre(String name) throws SQLException {
        Path named = folder.resolve(name);
        try (Connection db =
                Oneflush.dataSource(named.toString(), Strategy.PLAIN).getConnection()) {
            run(db, "CREATE TABLE item(n)");
        }
        assertTrue(Files.exists(named), name);
    }

    @Test
    void aDatabaseWithoutOneflushHasNoStrategy() throws SQLException {
        try (Connection db = DriverManager.getConnection("jdbc:sqlite::memory:")) {
            SQLException error = assertThrows(SQLException.class, () -> Oneflush.strategy(db));
            Jvm.says(error.getMessage(), "not open with Oneflush");
        }
        try (Connection db =
                new OneflushDriver().connect("jdbc:sqlite::memory:", new Properties())) {
            assertThrows(SQLException.class, () -> Oneflush.stats(db));
        }
    }

    @Test
    void theDriverTakesPlainAddressesAndNoOthers() throws SQLException {
        OneflushDriver driver = new OneflushDriver();
        String url = "jdbc:sqlite:" + file() + "?strategy=eager&busy_timeout=1234";
        try (Connection db = driver.connect(url, null)) {
            assertEquals("eager", Oneflush.strategy(db));
            assertEquals("1234", value(db, "PRAGMA busy_timeout"));
        }
        assertEquals(null, driver.connect("jdbc:postgresql:app", null));
        assertFalse(driver.acceptsURL("jdbc:h2:mem:"));
        assertTrue(driver.getMajorVersion() >= 3);
    }

    @Test
    void aConnectionLoadsAndLosesTheRightToLoadAgain() throws SQLException {
        try (Connection db = DriverManager.getConnection("jdbc:sqlite::memory:")) {
            Oneflush.load(db);
            assertThrows(SQLException.class, () -> value(db, "SELECT load_extension('x')"));
        }
        SQLiteConfig config = Oneflush.config(new SQLiteConfig());
        try (Connection db = config.createConnection("jdbc:sqlite::memory:")) {
            SQLException error =
                    assertThrows(SQLException.class, () -> value(db, "SELECT load_extension('x')"));
            Jvm.says(error.getMessage(), "cannot open shared object file");
        }
    }

    @Test
    void aRefusedOpenNamesTheFileAndWhereTheReasonIs() throws SQLException {
        SQLiteDataSource source =
                Oneflush.dataSource(file(), Strategy.PLAIN, Map.of("durability", "most"));
        SQLException error = assertThrows(SQLException.class, source::getConnection);
        Jvm.says(error.getMessage(), file(), "unable to open", "ONEFLUSH_LOG=stderr");
        assertEquals(
                SQLiteErrorCode.SQLITE_CANTOPEN,
                assertInstanceOf(SQLiteException.class, error).getResultCode());
        assertFalse(Files.exists(Path.of(file())), "the refused open left a file");

        String missing = folder.resolve("missing/app.db").toString();
        SQLiteDataSource nowhere = Oneflush.dataSource(missing, Strategy.PLAIN);
        Jvm.says(assertThrows(SQLException.class, nowhere::getConnection).getMessage(), missing);
    }

    @Test
    void aJournalModeThatOthersHoldIsWaitedForAsLongAsTheBusyTimeoutIs() throws Exception {
        try (Connection alone = DriverManager.getConnection("jdbc:sqlite:" + file())) {
            run(alone, "CREATE TABLE item(n)", "BEGIN", "INSERT INTO item VALUES (1)");
            SQLiteDataSource source = Oneflush.dataSource(file(), Strategy.PLAIN);
            source.setBusyTimeout(100);
            SQLException error = assertThrows(SQLException.class, source::getConnection);
            Jvm.says(error.getMessage(), file(), "locked");

            source.setBusyTimeout(20_000);
            Thread later =
                    new Thread(
                            () -> {
                                try {
                                    Thread.sleep(300);
                                    run(alone, "COMMIT");
                                } catch (Exception problem) {
                                    throw new IllegalStateException(problem);
                                }
                            });
            later.start();
            try (Connection db = source.getConnection()) {
                assertEquals("wal", value(db, "PRAGMA journal_mode"));
            }
            later.join();
        }
    }

    @Test
    void aCheckpointCopiesTheWal() throws SQLException {
        try (Connection db = Oneflush.dataSource(file(), Strategy.PLAIN).getConnection()) {
            run(db, "CREATE TABLE item(n)");
            String done = Oneflush.checkpoint(db);
            assertTrue(number(db, done, "wal_frames") > 0, done);
            assertEquals(number(db, done, "wal_frames"), number(db, done, "copied_frames"));
        }
    }

    /** Servers load each application with a class loader of its own, so each has its own SQLite. */
    @Test
    void twoClassLoadersEachLoadOneflushIntoTheirOwnSqlite() throws Exception {
        List<URL> classPath = new ArrayList<>();
        for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
            classPath.add(Path.of(part).toUri().toURL());
        }
        URL[] urls = classPath.toArray(new URL[0]);
        for (int n = 0; n < 2; n++) {
            ClassLoader parent = ClassLoader.getPlatformClassLoader();
            try (URLClassLoader application = new URLClassLoader(urls, parent)) {
                Class<?> driver = application.loadClass("io.github.oneflush.OneflushDriver");
                Object made = driver.getDeclaredConstructor().newInstance();
                String url = "jdbc:sqlite:" + file() + n + "?strategy=eager";
                try (Connection db =
                        (Connection)
                                driver.getMethod("connect", String.class, Properties.class)
                                        .invoke(made, url, new Properties())) {
                    run(db, "CREATE TABLE item(n)", "INSERT INTO item VALUES (1)");
                    assertEquals("eager", value(db, "PRAGMA oneflush_strategy"));
                }
            }
            assertEquals("1", alone(file() + n, "SELECT count(*) FROM item"));
        }
    }
}
