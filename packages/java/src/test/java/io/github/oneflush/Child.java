package io.github.oneflush;

import org.sqlite.SQLiteDataSource;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;

/** What happens once in a JVM, or ends one, is done by a JVM of its own: TASK ARGUMENTS…. */
final class Child {
    private Child() {}

    public static void main(String[] arguments) throws Exception {
        try {
            switch (arguments[0]) {
                case "load":
                    load();
                    break;
                case "commit":
                    commit(arguments[1], Strategy.of(arguments[2]), Integer.parseInt(arguments[3]));
                    break;
                case "exit":
                    exit(arguments[1], arguments[2]);
                    break;
                default:
                    throw new IllegalArgumentException(arguments[0]);
            }
        } catch (Exception error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
    }

    /** Prints the file from which the library is mapped. */
    private static void load() throws Exception {
        Oneflush.load();
        for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
            int slash = line.indexOf('/');
            if (slash > 0 && new File(line.substring(slash)).getName().startsWith("liboneflush")) {
                System.out.println(line.substring(slash));
                return;
            }
        }
        throw new IllegalStateException("the library is not mapped");
    }

    /** Commits rows, for ever if there are 0, and prints each number when it is acknowledged. */
    private static void commit(String file, Strategy strategy, int rows) throws Exception {
        SQLiteDataSource source = Oneflush.dataSource(file, strategy);
        source.setBusyTimeout(30_000);
        try (Connection db = source.getConnection();
                Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE IF NOT EXISTS item(id INTEGER PRIMARY KEY)");
            for (int n = 0; rows == 0 || n < rows; n++) {
                int id;
                try (ResultSet row =
                        statement.executeQuery("INSERT INTO item DEFAULT VALUES RETURNING id")) {
                    row.next();
                    id = row.getInt(1);
                }
                System.out.println(id); // only the end of the statement commits
            }
        }
    }

    /** Leaves a connection open, and ends as a program may end. */
    private static void exit(String file, String how) throws Exception {
        Connection db = Oneflush.dataSource(file, Strategy.EAGER).getConnection();
        try (Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE item(n)");
            statement.execute("INSERT INTO item VALUES (1)");
        }
        System.out.println("ready");
        if (how.equals("exit")) {
            System.exit(0);
        } else if (how.equals("wait")) {
            Thread.sleep(60_000);
        }
    }
}
