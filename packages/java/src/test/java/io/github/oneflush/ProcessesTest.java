package io.github.oneflush;

import static io.github.oneflush.Databases.alone;
import static io.github.oneflush.Databases.value;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;

final class ProcessesTest {
    private static final int PROCESSES = 4;
    private static final int ROWS = 40;

    @TempDir Path folder;

    /** All make the database, its journal mode and its table at the same time. */
    @ParameterizedTest
    @EnumSource(names = {"PLAIN", "EAGER", "WALDIO", "MAW"})
    void processesShareADatabaseFromItsFirstMoment(Strategy strategy) throws Exception {
        String file = folder.resolve("app.db").toString();
        List<Jvm> jvms = new ArrayList<>();
        List<Process> started = new ArrayList<>();
        for (int n = 0; n < PROCESSES; n++) {
            Jvm jvm = new Jvm("commit", file, strategy.word(), String.valueOf(ROWS));
            jvms.add(jvm);
            started.add(jvm.start());
        }
        for (int n = 0; n < PROCESSES; n++) {
            assertEquals(0, started.get(n).waitFor(), jvms.get(n).messages());
        }
        assertEquals(String.valueOf(PROCESSES * ROWS), alone(file, "SELECT count(*) FROM item"));
        assertEquals("ok", alone(file, "PRAGMA integrity_check"));
    }

    @ParameterizedTest
    @EnumSource(names = {"PLAIN", "EAGER", "WALDIO", "MAW"})
    void afterAKillEveryAcknowledgedCommitIsThere(Strategy strategy) throws Exception {
        String file = folder.resolve("app.db").toString();
        for (int commits : new int[] {1, 150}) {
            int acknowledged = killedAfter(file, strategy, commits);
            try (Connection db = Oneflush.dataSource(file, strategy).getConnection()) {
                String last = value(db, "SELECT max(id) FROM item");
                assertEquals(last, value(db, "SELECT count(*) FROM item"), "gaps");
                assertTrue(Integer.parseInt(last) >= acknowledged, last + " < " + acknowledged);
                assertEquals("ok", value(db, "PRAGMA integrity_check"));
            }
        }
    }

    /** Kills a process that commits, and returns the last row that it had acknowledged. */
    private static int killedAfter(String file, Strategy strategy, int commits) throws Exception {
        Jvm jvm = new Jvm("commit", file, strategy.word(), "0");
        Process process = jvm.start();
        int last = 0;
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            int read = 0;
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                last = Integer.parseInt(line);
                if (++read == commits) {
                    process.toHandle().destroyForcibly(); // the process's own closes its output
                }
            }
            assertEquals(128 + 9, process.waitFor(), jvm.messages());
        } finally {
            process.destroyForcibly();
        }
        return last;
    }

    /** An end of the JVM closes the database, too, with a connection left open. */
    @Test
    void anEndInOrderLeavesAPlainFile() throws Exception {
        for (String how : List.of("exit", "return")) {
            Path file = folder.resolve(how + ".db");
            assertEquals("ready", new Jvm("exit", file.toString(), how).output());
            assertEquals("1", alone(file, "SELECT count(*) FROM item"), how);
        }
        Path file = folder.resolve("terminated.db");
        Process process = new Jvm("exit", file.toString(), "wait").start();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            assertEquals("ready", lines.readLine());
            process.destroy();
            process.waitFor();
        }
        assertEquals("1", alone(file, "SELECT count(*) FROM item"));
    }
}
