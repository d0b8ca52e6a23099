package io.github.oneflush;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

/** The library as it is in this jar, and the places from which it can be loaded. */
final class Library {
    /** Loads a file. Without ".so" at its end: SQLite adds that, and then tells of that attempt. */
    interface Loader {
        void load(String path) throws SQLException;
    }

    static final String VARIABLE = "ONEFLUSH_LIBRARY";
    static final String PROPERTY = "oneflush.library";

    /** What SQLite says where the library could be opened and its entry point refused. */
    private static final String FROM_ENTRY_POINT = "error during initialization";

    private Library() {}

    /**
     * Calls the loader with the library. It is in the first of these places that will do: where the
     * property or the variable says, in the user's cache, where it stays, and in a folder for
     * temporary files, only until it is loaded.
     */
    static void with(Loader loader) throws SQLException {
        Platform platform = Platform.ofProcess();
        String named = System.getProperty(PROPERTY);
        String by = PROPERTY;
        if (named == null) {
            named = System.getenv(VARIABLE);
            by = VARIABLE;
        }
        if (named != null && !named.isEmpty()) {
            loadNamed(by, named, platform, loader);
            return;
        }
        byte[] content = embedded(platform);
        List<String> refusals = new ArrayList<>();
        for (Place place : new Place[] {Place.inCache(content), Place.inTemporary(content)}) {
            try (Place.Placed file = place.put()) {
                load(file.path, loader);
                return;
            } catch (SQLException error) {
                if (isFromEntryPoint(error)) {
                    throw error;
                }
                refusals.add(error.getMessage());
            } catch (IOException error) {
                refusals.add(Place.said(error));
            }
        }
        throw new SQLException(
                "oneflush: the library has no place from which it can be loaded: "
                        + String.join("; ", refusals)
                        + "; set -Djava.io.tmpdir to a folder of this user on a file system that is"
                        + " not mounted noexec, or "
                        + VARIABLE
                        + " to an installed liboneflush.so");
    }

    private static void loadNamed(String by, String named, Platform platform, Loader loader)
            throws SQLException {
        String problem;
        try {
            Path path = Path.of(named).toRealPath();
            platform.check(path);
            Place.checkOnlyWeWrite(path);
            load(path, loader);
            return;
        } catch (SQLException error) {
            if (isFromEntryPoint(error)) {
                throw error;
            }
            problem = error.getMessage();
        } catch (IOException error) {
            problem = Place.said(error);
        }
        throw new SQLException("oneflush: " + by + "=" + named + ": " + problem);
    }

    private static void load(Path path, Loader loader) throws SQLException {
        String name = path.toString();
        try {
            loader.load(name.endsWith(".so") ? name.substring(0, name.length() - 3) : name);
        } catch (SQLException error) {
            if (isFromEntryPoint(error) || !Place.isNoexec(path)) {
                throw error;
            }
            throw new SQLException(
                    path + ": its file system is mounted noexec (" + error.getMessage() + ")",
                    error);
        }
    }

    private static boolean isFromEntryPoint(SQLException error) {
        return error.getMessage() != null && error.getMessage().contains(FROM_ENTRY_POINT);
    }

    static byte[] embedded(Platform platform) throws SQLException {
        String name = "/oneflush/" + platform.name + "/" + Place.FILE_NAME;
        try (InputStream resource = Library.class.getResourceAsStream(name)) {
            if (resource == null) {
                throw new SQLException(
                        "oneflush: this jar was built without a library for "
                                + platform.name
                                + "; set "
                                + VARIABLE
                                + " to a liboneflush.so for it");
            }
            return resource.readAllBytes();
        } catch (IOException error) {
            throw new SQLException("oneflush: " + name + " in the jar cannot be read", error);
        }
    }
}
