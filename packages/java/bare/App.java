import io.github.oneflush.Oneflush;
import io.github.oneflush.Strategy;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import org.sqlite.SQLiteDataSource;

/**
 * DATABASE STRATEGY ROWS: a user's program. It commits ROWS rows, each by itself, and prints
 * "committed N" when row N is acknowledged. Then it prints what is there.
 */
public final class App {
    public static void main(String[] arguments) {
        try {
            run(arguments[0], Strategy.of(arguments[1]), Integer.parseInt(arguments[2]));
        } catch (Exception error) {
            System.err.println(error.getMessage());
            System.exit(1);
        }
    }

    private static void run(String file, Strategy strategy, int rows) throws Exception {
        SQLiteDataSource source = Oneflush.dataSource(file, strategy);
        source.setBusyTimeout(30_000);
        try (Connection db = source.getConnection();
                Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE IF NOT EXISTS item(n INTEGER PRIMARY KEY)");
            for (int n = 0; n < rows; n++) {
                statement.executeUpdate("INSERT INTO item DEFAULT VALUES");
                System.out.println("committed " + value(statement, "SELECT last_insert_rowid()"));
            }
            System.out.println("strategy " + Oneflush.strategy(db));
            System.out.println("rows " + value(statement, "SELECT count(*) FROM item"));
            System.out.println("integrity " + value(statement, "PRAGMA integrity_check"));
        }
    }

    private static String value(Statement statement, String query) throws Exception {
        try (ResultSet row = statement.executeQuery(query)) {
            row.next();
            return row.getString(1);
        }
    }
}
