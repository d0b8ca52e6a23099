import java.io.File;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.sqlite.SQLiteConfig;

/** JDBC with org.xerial:sqlite-jdbc: load_extension() on one connection, then a URI in the JDBC address. */
public final class Client {
    private static final int ROWS = 20;
    private static final String EXPECTED = ROWS + ":"
            + IntStream.rangeClosed(1, ROWS).mapToObj(n -> "word " + n).collect(Collectors.joining(","));
    private static final String SUMMARY =
            "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)";
    /** Numbers of PRAGMA oneflush_stats. `files` counts what SQLite writes, wherever the strategy puts it. */
    private static final String WAL = "files.wal.write_bytes";
    private static final String JOURNAL = "files.rollback_journal.write_bytes";

    /** Strategy, journal mode, a number that grows, one that stays, the files beside it, the provider of maw. */
    private static final String[][] ROUNDS = {
        {"stock", "wal", WAL, JOURNAL, "-shm -wal", "log"},
        {"stock", "delete", JOURNAL, WAL, "-journal", "log"},
        {"eager", "wal", "eager.log.logged_bytes", JOURNAL, "-oneflush -oneflush-shm -oneflush-wal -shm", "log"},
        {"waldio", "wal", WAL, JOURNAL, "-oneflush-shm -shm -waldio", "log"},
        {"maw", "delete", "maw.log.logged_bytes", "maw.ordinary", "-maw -oneflush-shm", "log"},
    };

    /** The same with F2FS's atomic write, where CLIENT_F2FS says that the folder is on F2FS. Two numbers stay. */
    private static final String[] F2FS_ROUND =
            {"maw", "delete", "maw.atomic", "maw.ordinary maw.log.logged_bytes", "", "f2fs"};

    private static void check(String what, Object found, Object expected) {
        if (!found.equals(expected)) {
            System.err.println("java: " + what + ": \"" + found + "\" instead of \"" + expected + "\"");
            System.exit(1);
        }
    }

    /** Without `atomic=log` there would be no log on F2FS. The other strategies do not care. */
    private static Connection open(String file, String strategy, String atomic) throws SQLException {
        String options = "vfs=oneflush&atomic=" + atomic + "&strategy=" + strategy;
        return DriverManager.getConnection("jdbc:sqlite:file:" + file + "?" + options);
    }

    private static String value(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement(); ResultSet row = statement.executeQuery(sql)) {
            row.next();
            return row.getString(1);
        }
    }

    /** By how much a number in PRAGMA oneflush_stats grew; Java has no JSON, SQLite has. */
    private static long growth(Connection db, String before, String after, String path) throws SQLException {
        String sql = "SELECT json_extract(?2, ?3) - json_extract(?1, ?3)";
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            statement.setString(1, before);
            statement.setString(2, after);
            statement.setString(3, "$." + path);
            try (ResultSet row = statement.executeQuery()) {
                row.next();
                long grown = row.getLong(1);
                check("no number " + path, row.wasNull(), false);
                return grown;
            }
        }
    }

    private static void load() throws SQLException {
        SQLiteConfig config = new SQLiteConfig();
        config.enableLoadExtension(true);
        try (Connection db = config.createConnection("jdbc:sqlite::memory:");
                PreparedStatement statement = db.prepareStatement("SELECT load_extension(?)")) {
            statement.setString(1, System.getenv("ONEFLUSH_EXTENSION_PATH"));
            statement.execute();
        }
    }

    private static String beside(String file) {
        return Stream.of(new File(".").list()).filter(name -> name.startsWith(file + "-"))
                .map(name -> name.substring(file.length())).sorted().collect(Collectors.joining(" "));
    }

    /** Another process, which never heard of Oneflush. */
    private static String plainSqlite(String file) throws IOException {
        String sql = "PRAGMA oneflush_strategy; " + SUMMARY + "; PRAGMA integrity_check";
        ProcessBuilder shell = new ProcessBuilder(System.getenv("SQLITE3"), "-batch", file, sql);
        return new String(shell.redirectErrorStream(true).start().getInputStream().readAllBytes());
    }

    private static void writeAndRead(String strategy, String mode, String grows, String stays, String files,
            String atomic) throws Exception {
        System.out.println(strategy + ", journal_mode=" + mode + ", atomic=" + atomic);
        String file = strategy + "-" + mode + "-" + atomic + ".db";
        try (Connection db = open(file, strategy, atomic)) {
            check("PRAGMA journal_mode", value(db, "PRAGMA journal_mode=" + mode), mode);
            check("PRAGMA oneflush_strategy", value(db, "PRAGMA oneflush_strategy"), strategy);
            try (Statement statement = db.createStatement()) {
                statement.execute("PRAGMA synchronous=FULL");
                statement.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)");
            }

            String before = value(db, "PRAGMA oneflush_stats");
            try (PreparedStatement insert = db.prepareStatement("INSERT INTO item VALUES(?, ?)")) {
                for (int n = 1; n <= ROWS; n++) {
                    insert.setInt(1, n);
                    insert.setString(2, "word " + n);
                    insert.executeUpdate();
                }
                db.setAutoCommit(false);
                insert.setInt(1, 99);
                insert.setString(2, "rolled back");
                insert.executeUpdate();
            }
            check("rows before the rollback", value(db, "SELECT count(*) FROM item"), "" + (ROWS + 1));
            check("files beside the open database", beside(file), files);
            boolean isPlain = strategy.equals("stock") || atomic.equals("f2fs");
            String meanwhile = isPlain ? EXPECTED : "file is not a database";
            String answer = plainSqlite(file);
            check(meanwhile + " from plain SQLite meanwhile: " + answer, answer.contains(meanwhile), true);
            db.rollback();
            db.setAutoCommit(true);
            String after = value(db, "PRAGMA oneflush_stats");
            check("commits counted", growth(db, before, after, "commits.count"), (long) ROWS);
            for (String number : (grows + " " + stays).split(" ")) {
                check("growth of " + number, growth(db, before, after, number) > 0, number.equals(grows));
            }
            check("rows", value(db, SUMMARY), EXPECTED);
        }

        try (Connection db = open(file, strategy, atomic)) {
            check("strategy after the reopen", value(db, "PRAGMA oneflush_strategy"), strategy);
            check("journal mode after the reopen", value(db, "PRAGMA journal_mode"), mode);
            check("rows after the reopen", value(db, SUMMARY), EXPECTED);
            check("PRAGMA integrity_check", value(db, "PRAGMA integrity_check"), "ok");
        }

        check("files beside the closed database", beside(file), "");
        check("plain SQLite", plainSqlite(file), EXPECTED + "\nok\n");
    }

    private static void refuseUnknownStrategy() {
        try (Connection db = open("refused.db", "nonsense", "log")) {
            check("an unknown strategy", "accepted", "refused");
        } catch (SQLException error) {
            check("the error for an unknown strategy: " + error.getMessage(),
                    error.getMessage().contains("unable to open database file")
                            || error.getMessage().contains("Unable to open the database file"), true);
        }
        check("files left by the refused open", new File("refused.db").exists(), false);
    }

    public static void main(String[] arguments) throws Exception {
        load();
        for (String[] of : ROUNDS) {
            writeAndRead(of[0], of[1], of[2], of[3], of[4], of[5]);
        }
        if (System.getenv("CLIENT_F2FS") != null) {
            String[] of = F2FS_ROUND;
            writeAndRead(of[0], of[1], of[2], of[3], of[4], of[5]);
        }
        refuseUnknownStrategy();
        try (Connection db = DriverManager.getConnection("jdbc:sqlite::memory:")) {
            System.out.println("java: ok (SQLite " + value(db, "SELECT sqlite_version()") + ", sqlite-jdbc "
                    + org.sqlite.SQLiteJDBCLoader.getVersion() + ")");
        }
    }
}
