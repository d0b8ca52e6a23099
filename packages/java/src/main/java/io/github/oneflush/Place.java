package io.github.oneflush;

import static java.nio.file.LinkOption.NOFOLLOW_LINKS;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Where the library is put to be loaded.
 *
 * <p>Invariants of a placed library:
 *
 * <ol>
 *   <li>Nobody but this user and root can change the file, or put another one in its place: its
 *       folder is this user's with mode 0700, and so is no folder above it that others may write to
 *       without the sticky bit.
 *   <li>The file's bytes are those in this jar: its SHA-256 is compared before each use.
 *   <li>Its name appears by a rename, so that a process that races with this one, or dies, leaves
 *       no half of it under that name.
 * </ol>
 */
abstract class Place {
    static final String FILE_NAME = "liboneflush.so";

    /** What a process that was killed while it wrote has left, beside the library. */
    private static final String UNFINISHED = ".unfinished";

    private static final Duration UNFINISHED_AGE = Duration.ofHours(1);
    private static final int OTHERS_MAY = 0077;
    private static final int OTHERS_WRITE = 0022;
    private static final int STICKY = 01000;
    private static final int REGULAR = 0100000;
    private static final int FOLDER = 0040000;
    private static final int TYPE = 0170000;

    final byte[] content;

    private Place(byte[] content) {
        this.content = content;
    }

    /** A file to load. It is closed when it is loaded or refused. */
    static final class Placed implements AutoCloseable {
        final Path path;
        private final boolean isTemporary;

        Placed(Path path, boolean isTemporary) {
            this.path = path;
            this.isTemporary = isTemporary;
        }

        @Override
        public void close() {
            if (isTemporary) {
                remove(path.getParent());
            }
        }
    }

    abstract Placed put() throws IOException;

    /** CACHE/oneflush/SHA256/liboneflush.so. */
    static Place inCache(byte[] content) {
        return new Place(content) {
            @Override
            Placed put() throws IOException {
                String sum = sum(content);
                Path made = cache().resolve("oneflush").resolve(sum);
                Files.createDirectories(
                        made,
                        PosixFilePermissions.asFileAttribute(
                                PosixFilePermissions.fromString("rwx------")));
                Path folder = made.toRealPath();
                checkFolder(folder);
                Path path = folder.resolve(FILE_NAME);
                if (!isWhole(path, sum)) {
                    write(folder, path);
                    checkFile(path, sum);
                }
                return new Placed(path, false);
            }
        };
    }

    /**
     * A folder with a name that nobody knows before. The library stays mapped when the folder is
     * gone.
     */
    static Place inTemporary(byte[] content) {
        return new Place(content) {
            @Override
            Placed put() throws IOException {
                Path made = Files.createTempDirectory("oneflush-");
                try {
                    Path folder = made.toRealPath();
                    checkFolder(folder);
                    Path path = folder.resolve(FILE_NAME);
                    write(folder, path);
                    checkFile(path, sum(content));
                    return new Placed(path, true);
                } catch (IOException error) {
                    remove(made);
                    throw error;
                }
            }
        };
    }

    private static Path cache() throws IOException {
        String named = System.getenv("XDG_CACHE_HOME");
        Path cache =
                named == null || named.isEmpty()
                        ? Path.of(System.getProperty("user.home"), ".cache")
                        : Path.of(named);
        if (!cache.isAbsolute()) {
            throw new IOException(cache + ": the folder for caches is not absolute");
        }
        return cache;
    }

    void write(Path folder, Path path) throws IOException {
        removeUnfinished(folder);
        Path unfinished = Files.createTempFile(folder, FILE_NAME + ".", UNFINISHED);
        try {
            try {
                Files.write(unfinished, content);
            } catch (IOException error) { // which does not name the file: "No space left on device"
                throw new IOException(unfinished + ": " + error.getMessage(), error);
            }
            Files.setPosixFilePermissions(unfinished, PosixFilePermissions.fromString("r-x------"));
            Files.move(unfinished, path, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(unfinished);
        }
    }

    private static void removeUnfinished(Path folder) throws IOException {
        Instant old = Instant.now().minus(UNFINISHED_AGE);
        try (DirectoryStream<Path> files =
                Files.newDirectoryStream(folder, FILE_NAME + ".*" + UNFINISHED)) {
            for (Path file : files) {
                try {
                    if (Files.getLastModifiedTime(file, NOFOLLOW_LINKS).toInstant().isBefore(old)) {
                        Files.deleteIfExists(file);
                    }
                } catch (NoSuchFileException gone) {
                    continue; // another process has removed it
                }
            }
        }
    }

    private static void remove(Path folder) {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
            for (Path file : files) {
                Files.deleteIfExists(file);
            }
            Files.deleteIfExists(folder);
        } catch (IOException error) {
            // What is in the folder for temporary files is removed by the system in the end.
            return;
        }
    }

    private static boolean isWhole(Path path, String sum) {
        try {
            checkFile(path, sum);
            return true;
        } catch (IOException error) {
            return false;
        }
    }

    /** Holds a file against invariants 1 and 2. */
    static void checkFile(Path path, String sum) throws IOException {
        onlyWeWrite(path);
        String found = sum(Files.readAllBytes(path));
        if (!found.equals(sum)) {
            throw new IOException(path + ": its SHA-256 is " + found + " in place of " + sum);
        }
    }

    /** Holds a folder of ours against invariant 1. */
    private static void checkFolder(Path folder) throws IOException {
        Owned found = Owned.of(folder);
        if (!found.is(FOLDER) || found.user != user() || (found.mode & OTHERS_MAY) != 0) {
            throw new IOException(
                    folder + ": it is not a folder of this user with mode 0700 (" + found + ")");
        }
        checkAbove(folder);
    }

    /** Holds a file that the user names against invariant 1. The path is a real one. */
    static void checkOnlyWeWrite(Path path) throws IOException {
        onlyWeWrite(path);
        checkAbove(path);
    }

    private static void onlyWeWrite(Path path) throws IOException {
        Owned found = Owned.of(path);
        if (!found.is(REGULAR)) {
            throw new IOException(path + ": it is not a regular file");
        }
        if (!isTrusted(found.user) || (found.mode & OTHERS_WRITE) != 0) {
            throw new IOException(
                    path
                            + ": other users could change it ("
                            + found
                            + "); it must be this user's or"
                            + " root's, with mode 0755 or less");
        }
    }

    /**
     * Looks at the folders above a real path. In a folder with the sticky bit others cannot rename
     * what is not theirs.
     */
    private static void checkAbove(Path path) throws IOException {
        for (Path folder = path.getParent(); folder != null; folder = folder.getParent()) {
            Owned found = Owned.of(folder);
            boolean isShared = (found.mode & OTHERS_WRITE) != 0 && (found.mode & STICKY) == 0;
            if (isShared || !isTrusted(found.user)) {
                throw new IOException(
                        path
                                + ": other users could replace it through "
                                + folder
                                + " ("
                                + found
                                + ")");
            }
        }
    }

    /** The owner and the mode of a file, which Java has under the name "unix" alone. */
    private static final class Owned {
        final int user;
        final int mode;

        private Owned(int user, int mode) {
            this.user = user;
            this.mode = mode;
        }

        static Owned of(Path path) throws IOException {
            Map<String, Object> found = Files.readAttributes(path, "unix:uid,mode", NOFOLLOW_LINKS);
            return new Owned((int) found.get("uid"), (int) found.get("mode"));
        }

        boolean is(int type) {
            return (mode & TYPE) == type;
        }

        @Override
        public String toString() {
            return String.format("its mode is %04o, its user %d", mode & ~TYPE, user);
        }
    }

    /**
     * Whether a user may own what is loaded, or a folder above it. In a user namespace whoever has
     * no number there shows as one user; the folders of the system belong to that one.
     */
    private static boolean isTrusted(int owner) throws IOException {
        return owner == 0 || owner == user() || owner == unmappedUser();
    }

    /** The effective user of this process. */
    private static int user() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            String[] fields = line.split("\\s+");
            if (fields[0].equals("Uid:")) {
                return Integer.parseInt(fields[2]);
            }
        }
        throw new IOException("/proc/self/status does not say which user this is");
    }

    /** -1 where every user has a number, as is so outside of user namespaces. */
    private static int unmappedUser() throws IOException {
        String mapped = Files.readString(Path.of("/proc/self/uid_map"));
        if (mapped.trim().split("\\s+").length == 3 && mapped.trim().endsWith("4294967295")) {
            return -1;
        }
        return Integer.parseInt(Files.readString(Path.of("/proc/sys/kernel/overflowuid")).trim());
    }

    /** Whether programs may not be run where the file is, as far as /proc tells. */
    static boolean isNoexec(Path file) {
        try {
            return isNoexec(
                    file, Files.readAllLines(Path.of("/proc/self/mounts"), StandardCharsets.UTF_8));
        } catch (IOException error) {
            return false;
        }
    }

    /** Of the mounts above the file the deepest counts, and of several there the last. */
    static boolean isNoexec(Path file, List<String> mounts) {
        int depth = -1;
        boolean isNoexec = false;
        for (String mount : mounts) {
            String[] fields = mount.split(" ");
            Path at = Path.of(unescaped(fields[1]));
            if (file.startsWith(at) && at.getNameCount() >= depth) {
                depth = at.getNameCount();
                isNoexec = List.of(fields[3].split(",")).contains("noexec");
            }
        }
        return isNoexec;
    }

    /** The kernel writes a space as \040. */
    private static String unescaped(String name) {
        return name.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
    }

    static String sum(byte[] content) {
        try {
            StringBuilder sum = new StringBuilder();
            for (byte part : MessageDigest.getInstance("SHA-256").digest(content)) {
                sum.append(String.format("%02x", part));
            }
            return sum.toString();
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every Java has SHA-256", error);
        }
    }

    /** What went wrong, in words: Java's messages are often the file's name alone. */
    static String said(IOException error) {
        String name = error.getClass().getSimpleName().replace("Exception", "");
        List<String> words = new ArrayList<>();
        if (!name.equals("IO")) {
            words.add(name);
        }
        words.add(String.valueOf(error.getMessage()));
        return String.join(": ", words);
    }
}
