package io.github.oneflush;

import java.sql.SQLException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;

/** JDBC addresses of sqlite-jdbc, and what Oneflush needs in them. */
final class Url {
    static final String PREFIX = "jdbc:sqlite:";
    private static final String VFS = "oneflush";

    /**
     * What a URI may say to Oneflush, besides the strategy. SQLite ignores unknown parameters, so a
     * misspelt one would silently not be in force.
     */
    static final Set<String> PARAMETERS =
            new TreeSet<>(
                    Set.of(
                            "atomic",
                            "checkpoints",
                            "durability",
                            "group",
                            "group_commit",
                            "interval",
                            "keep_wal",
                            "layout",
                            "log_size",
                            "prealloc",
                            "sync",
                            "unsafe_ground"));

    private Url() {}

    /** The address of a file with a strategy and parameters. */
    static String of(String path, Strategy strategy, Map<String, String> parameters) {
        StringBuilder url = new StringBuilder(PREFIX).append(uri(path));
        url.append("?vfs=").append(VFS).append("&strategy=").append(strategy.word());
        parameters.forEach(
                (name, value) -> {
                    if (!PARAMETERS.contains(name)) {
                        throw new IllegalArgumentException(
                                "oneflush: parameter \""
                                        + name
                                        + "\" is not known; allowed: "
                                        + String.join(", ", PARAMETERS));
                    }
                    if (value == null || !value.matches("[A-Za-z0-9_.]+")) {
                        throw new IllegalArgumentException(
                                "oneflush: parameter "
                                        + name
                                        + " has no value that could be one: "
                                        + value);
                    }
                    url.append('&').append(name).append('=').append(value);
                });
        return url.toString();
    }

    /**
     * An address as a user writes it, with what is missing: the form of a URI, the VFS, and the
     * journal mode in which the strategy acts. What the address or the properties say is kept. A
     * database without a file stays as it is.
     */
    static String complete(String url, Properties given) throws SQLException {
        String rest = url.substring(PREFIX.length());
        int question = rest.indexOf('?');
        String name = question < 0 ? rest : rest.substring(0, question);
        String query = question < 0 ? "" : rest.substring(question + 1);
        Map<String, String> parameters = parse(query);
        if (hasNoFile(name, parameters)) {
            return url;
        }
        StringBuilder complete = new StringBuilder(query);
        String vfs = parameters.get("vfs");
        if (vfs == null) {
            add(complete, "vfs", VFS);
        } else if (!vfs.equals(VFS)) {
            throw new SQLException(
                    "oneflush: "
                            + name
                            + ": the address asks for vfs="
                            + vfs
                            + ", and this driver has vfs="
                            + VFS
                            + "; remove it, or take org.sqlite.JDBC");
        }
        String journalMode = journalMode(name, parameters);
        if (journalMode != null
                && !parameters.containsKey("journal_mode")
                && !given.containsKey("journal_mode")
                && !isReadOnly(parameters, given)) {
            add(complete, "journal_mode", journalMode);
        }
        return PREFIX + (name.startsWith("file:") ? name : uri(name)) + "?" + complete;
    }

    private static String journalMode(String name, Map<String, String> parameters)
            throws SQLException {
        String word = parameters.get("strategy");
        if (word == null) {
            return null;
        }
        try {
            return Strategy.of(word).journalMode();
        } catch (IllegalArgumentException error) {
            throw new SQLException(error.getMessage() + " (in the address of " + name + ")", error);
        }
    }

    private static void add(StringBuilder query, String name, String value) {
        if (query.length() > 0) {
            query.append('&');
        }
        query.append(name).append('=').append(value);
    }

    private static Map<String, String> parse(String query) {
        Map<String, String> parameters = new LinkedHashMap<>();
        for (String part : query.split("&")) {
            int equals = part.indexOf('=');
            if (equals > 0) {
                parameters.put(part.substring(0, equals).trim(), part.substring(equals + 1).trim());
            }
        }
        return parameters;
    }

    private static boolean hasNoFile(String name, Map<String, String> parameters) {
        return name.isEmpty()
                || name.equals(":memory:")
                || name.equals("file:")
                || name.equals("file::memory:")
                || name.startsWith(":resource:")
                || "memory".equals(parameters.get("mode"));
    }

    private static boolean isReadOnly(Map<String, String> parameters, Properties given) {
        final int openReadOnly = 1;
        String mode = given.getProperty("open_mode");
        return "ro".equals(parameters.get("mode"))
                || "1".equals(parameters.get("immutable"))
                || mode != null && (Integer.parseInt(mode) & openReadOnly) != 0;
    }

    /**
     * A URI for the name of a file. An absolute name gets the empty authority, because
     * "file://name" would take the beginning of a name with two slashes for a host.
     */
    private static String uri(String path) {
        String escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23");
        return (path.startsWith("/") ? "file://" : "file:") + escaped;
    }
}
