package io.github.oneflush;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.Test;

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class UrlTest {
    private static String complete(String url, String... given) throws SQLException {
        Properties properties = new Properties();
        for (int at = 0; at < given.length; at += 2) {
            properties.setProperty(given[at], given[at + 1]);
        }
        return Url.complete("jdbc:sqlite:" + url, properties).substring("jdbc:sqlite:".length());
    }

    @Test
    void anAddressHasTheStrategyAndItsJournalMode() {
        assertEquals(
                "jdbc:sqlite:file:app.db?vfs=oneflush&strategy=eager&journal_mode=WAL",
                Oneflush.url("app.db", Strategy.EAGER));
        assertEquals(
                "jdbc:sqlite:file:app.db?vfs=oneflush&strategy=maw&journal_mode=DELETE",
                Oneflush.url("app.db", Strategy.MAW));
        assertEquals(
                "jdbc:sqlite:file:///srv/50%25%23?vfs=oneflush&strategy=auto&durability=full",
                Oneflush.url("/srv/50%#", Strategy.AUTO, Map.of("durability", "full")));
    }

    @Test
    void whatAnAddressLacksIsAddedAndItsOwnWordsStay() throws SQLException {
        assertEquals("file:app.db?vfs=oneflush", complete("app.db"));
        assertEquals(
                "file:app.db?strategy=plain&vfs=oneflush&journal_mode=WAL",
                complete("app.db?strategy=plain"));
        assertEquals(
                "file:///srv/app.db?strategy=maw&busy_timeout=9&vfs=oneflush&journal_mode=DELETE",
                complete("/srv/app.db?strategy=maw&busy_timeout=9"));
        assertEquals(
                "file:app.db?vfs=oneflush&strategy=eager&journal_mode=PERSIST",
                complete("file:app.db?vfs=oneflush&strategy=eager&journal_mode=PERSIST"));
        assertEquals(
                "file:app.db?strategy=eager&vfs=oneflush",
                complete("app.db?strategy=eager", "journal_mode", "TRUNCATE"));
        for (String url :
                List.of("app.db?strategy=eager&mode=ro", "file:a?immutable=1&strategy=eager")) {
            assertFalse(complete(url).contains("journal_mode"), url);
        }
        assertFalse(complete("app.db?strategy=eager", "open_mode", "1").contains("journal_mode"));
    }

    @Test
    void aDatabaseWithoutAFileStaysAsItIs() throws SQLException {
        for (String url :
                List.of("", ":memory:", "file::memory:?cache=shared", "file:x?mode=memory")) {
            assertEquals(url, complete(url));
        }
    }

    @Test
    void whatMeansNothingIsRefusedWithWhatThereIs() {
        Jvm.says(
                assertThrows(
                                SQLException.class,
                                () -> complete("app.db?strategy=fast&password=secret"))
                        .getMessage(),
                "\"fast\"",
                "auto, stock, plain, eager, waldio, maw",
                "app.db)");
        Jvm.says(
                assertThrows(SQLException.class, () -> complete("file:app.db?vfs=unix"))
                        .getMessage(),
                "file:app.db",
                "vfs=unix",
                "org.sqlite.JDBC");
        Jvm.says(refused(Map.of("log_siz", "1")), "\"log_siz\"", "log_size");
        Jvm.says(refused(Map.of("durability", "")), "durability");
        Jvm.says(refused(Map.of("durability", "full&vfs=unix")), "durability");
        assertThrows(IllegalArgumentException.class, () -> Strategy.of("EAGER"));
    }

    private static String refused(Map<String, String> parameters) {
        return assertThrows(
                        IllegalArgumentException.class,
                        () -> Oneflush.url("app.db", Strategy.EAGER, parameters))
                .getMessage();
    }

    /** The project's table of options is the source of the names here. */
    @Test
    void theNamesOfParametersAreThoseOfTheManual() throws Exception {
        String manual = System.getenv("ONEFLUSH_TEST_MANUAL");
        assumeTrue(manual != null, "ONEFLUSH_TEST_MANUAL does not name docs/use.md of the project");
        Set<String> names = new TreeSet<>();
        Matcher row =
                Pattern.compile("(?m)^\\| (`[a-z_`, ]+`) \\| `ONEFLUSH_")
                        .matcher(Files.readString(Path.of(manual)));
        while (row.find()) {
            names.addAll(List.of(row.group(1).replace("`", "").split(", ")));
        }
        names.remove("strategy");
        assertEquals(names, Url.PARAMETERS);
    }
}
