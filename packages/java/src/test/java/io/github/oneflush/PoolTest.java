package io.github.oneflush;

import static io.github.oneflush.Databases.alone;
import static io.github.oneflush.Databases.number;
import static io.github.oneflush.Databases.run;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.sqlite.SQLiteDataSource;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

final class PoolTest {
    private static final int WRITERS = 6;
    private static final int ROWS = 50;

    @TempDir Path folder;

    @ParameterizedTest
    @EnumSource(names = {"PLAIN", "EAGER", "WALDIO", "MAW"})
    void threadsOfAHikariPoolCommitAtOnceAndNothingIsMissing(Strategy strategy) throws Exception {
        String file = folder.resolve("app.db").toString();
        SQLiteDataSource source = Oneflush.dataSource(file, strategy);
        source.setBusyTimeout(30_000);
        source.setTransactionMode("IMMEDIATE");
        HikariConfig config = new HikariConfig();
        config.setDataSource(source);
        config.setMaximumPoolSize(WRITERS);
        writeFromAll(config, strategy);
        String rows = alone(file, "SELECT count(DISTINCT writer || '-' || n) FROM item");
        assertEquals(String.valueOf(WRITERS * ROWS), rows);
        assertEquals("ok", alone(file, "PRAGMA integrity_check"));
    }

    /** As Spring Boot sets a pool up: by the name of a class and an address. */
    @Test
    void aPoolThatTakesADriversNameWorksAsWell() throws Exception {
        String file = folder.resolve("app.db").toString();
        HikariConfig config = new HikariConfig();
        config.setDriverClassName("io.github.oneflush.OneflushDriver");
        config.setJdbcUrl(
                "jdbc:sqlite:"
                        + file
                        + "?strategy=eager&busy_timeout=30000&transaction_mode=IMMEDIATE");
        config.setMaximumPoolSize(WRITERS);
        writeFromAll(config, Strategy.EAGER);
        assertEquals(String.valueOf(WRITERS * ROWS), alone(file, "SELECT count(*) FROM item"));
    }

    private static void writeFromAll(HikariConfig config, Strategy strategy) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(WRITERS);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            try (Connection db = pool.getConnection()) {
                run(db, "CREATE TABLE item(writer, n)");
            }
            List<Future<Void>> all = new ArrayList<>();
            for (int writer = 0; writer < WRITERS; writer++) {
                int of = writer;
                all.add(threads.submit(() -> write(pool, of)));
            }
            for (Future<Void> one : all) {
                one.get();
            }
            try (Connection db = pool.getConnection()) {
                assertEquals(strategy.word(), Oneflush.strategy(db));
                assertTrue(number(db, Oneflush.stats(db), "connections") > 1);
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private static Void write(HikariDataSource pool, int writer) throws Exception {
        for (int n = 0; n < ROWS; n++) {
            try (Connection db = pool.getConnection()) {
                db.setAutoCommit(false);
                try (PreparedStatement insert =
                        db.prepareStatement("INSERT INTO item VALUES (?, ?)")) {
                    insert.setInt(1, writer);
                    insert.setInt(2, n);
                    insert.executeUpdate();
                }
                db.commit();
            }
        }
        return null;
    }
}
