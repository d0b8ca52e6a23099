package io.github.oneflush;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

final class PlaceTest {
    private static final int STRANGER = 54321; // a user of nobody's

    @TempDir(cleanup = CleanupMode.ALWAYS)
    Path folder;

    private Path cache;
    private Path temporary;

    @BeforeEach
    void folders() throws IOException {
        cache = privateFolder("cache");
        temporary = privateFolder("temporary");
    }

    private Path privateFolder(String name) throws IOException {
        Path made = Files.createDirectory(folder.resolve(name)).toRealPath();
        mode(made, "rwx------");
        return made;
    }

    private static void mode(Path path, String mode) throws IOException {
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
    }

    private Jvm load() throws IOException {
        return new Jvm("load")
                .with("XDG_CACHE_HOME", cache.toString())
                .property("java.io.tmpdir", temporary);
    }

    private static byte[] library() throws SQLException {
        return Library.embedded(Platform.ofProcess());
    }

    private Path cached() throws SQLException {
        return cache.resolve("oneflush").resolve(Place.sum(library())).resolve(Place.FILE_NAME);
    }

    private static List<String> names(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(file -> file.getFileName().toString())
                    .sorted()
                    .collect(Collectors.toList());
        }
    }

    private static void command(String... command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), output);
    }

    private static void needRoot() throws IOException {
        assumeTrue((int) Files.getAttribute(Path.of("/proc/self"), "unix:uid") == 0, "needs root");
    }

    /** sqlite-jdbc leaves files of its own there. */
    private static void hasNothingOfOurs(Path folder) throws IOException {
        assertTrue(names(folder).stream().noneMatch(name -> name.startsWith("oneflush")));
    }

    @Test
    void theLibraryStaysInThePrivateCacheAndIsFoundThere() throws Exception {
        for (int n = 0; n < 2; n++) {
            assertEquals(cached().toString(), load().output());
        }
        assertEquals(
                "r-x------",
                PosixFilePermissions.toString(Files.getPosixFilePermissions(cached())));
        assertEquals(
                "rwx------",
                PosixFilePermissions.toString(Files.getPosixFilePermissions(cached().getParent())));
    }

    @Test
    void aLibraryInTheCacheThatIsNotOursIsReplacedBeforeItIsLoaded() throws Exception {
        byte[] whole = library();
        byte[] evil = whole.clone();
        evil[evil.length / 2] ^= 1;
        Path file = cached();
        Files.createDirectories(file.getParent());
        mode(file.getParent(), "rwx------");
        for (String how : List.of("changed", "cut", "writable", "link", "pipe")) {
            Files.deleteIfExists(file);
            switch (how) {
                case "changed":
                    Files.write(file, evil);
                    break;
                case "cut":
                    Files.write(file, new byte[1000]);
                    break;
                case "writable":
                    Files.write(file, whole);
                    mode(file, "rwxrwxrwx");
                    break;
                case "link":
                    Files.createSymbolicLink(file, Path.of("/etc/hostname"));
                    break;
                default:
                    command("mkfifo", file.toString());
            }
            assertEquals(file.toString(), load().output(), how);
            Place.checkFile(file, Place.sum(whole));
        }
        assertEquals(List.of(Place.FILE_NAME), names(file.getParent()));
    }

    @Test
    void whatAKilledProcessLeftIsRemovedWhenItIsOld() throws Exception {
        Path place = Files.createDirectories(cached().getParent());
        mode(place, "rwx------");
        Path old = Files.writeString(place.resolve("liboneflush.so.1.unfinished"), "half");
        Files.writeString(place.resolve("liboneflush.so.2.unfinished"), "half");
        Files.setLastModifiedTime(old, FileTime.from(Instant.now().minus(Duration.ofHours(2))));
        load().output();
        assertEquals(List.of("liboneflush.so", "liboneflush.so.2.unfinished"), names(place));
    }

    @Test
    void jvmsThatUnpackAtOnceAllLoadTheWholeLibrary() throws Exception {
        List<Jvm> jvms = new ArrayList<>();
        List<Process> started = new ArrayList<>();
        for (int n = 0; n < 6; n++) {
            jvms.add(load());
            started.add(jvms.get(n).start());
        }
        for (int n = 0; n < started.size(); n++) {
            assertEquals(0, started.get(n).waitFor(), jvms.get(n).messages());
        }
        assertEquals(List.of(Place.FILE_NAME), names(cached().getParent()));
    }

    @Test
    void withoutACacheTheLibraryIsInATemporaryFolderUntilItIsLoaded() throws Exception {
        for (String none : List.of("relative", "/dev/null/cache")) {
            String found = load().with("XDG_CACHE_HOME", none).output();
            Jvm.says(found, temporary + "/oneflush-", "(deleted)");
            hasNothingOfOurs(temporary);
        }
        String found = load().with("XDG_CACHE_HOME", "").property("user.home", "?").output();
        Jvm.says(found, temporary + "/oneflush-");
    }

    @Test
    void aCacheThatOthersCanWriteToIsNotUsed() throws Exception {
        Path place = Files.createDirectories(cached().getParent());
        mode(place, "rwxrwx---");
        Jvm.says(load().output(), temporary.toString());
        mode(place, "rwx------");
        mode(cache, "rwxrwxrwx");
        Jvm.says(load().output(), temporary.toString());
        command("chmod", "1777", cache.toString()); // the sticky bit is enough for a folder above
        assertEquals(cached().toString(), load().output());
    }

    @Test
    void aCacheOfAnotherUserIsNotUsed() throws Exception {
        needRoot();
        Path place = Files.createDirectories(cached().getParent());
        mode(place, "rwx------");
        command("chown", String.valueOf(STRANGER), place.toString());
        Jvm.says(load().output(), temporary.toString());
        Path theirs = place.resolveSibling("theirs");
        Files.move(place, theirs);
        Files.createSymbolicLink(place, theirs);
        Jvm.says(load().output(), temporary.toString());
    }

    @Test
    void whereNoPlaceWillDoTheMessageNamesBothAndTheWayOut() throws Exception {
        needRoot();
        for (String option : List.of("noexec", "size=64k")) {
            command("mount", "-t", "tmpfs", "-o", "mode=700," + option, "test", cache.toString());
            try {
                Jvm.says(load().output(), temporary.toString());
                // sqlite-jdbc needs a place for its own library.
                Jvm nowhere = load().property("java.io.tmpdir", cache);
                nowhere.property("org.sqlite.tmpdir", temporary);
                String reason = option.equals("noexec") ? "mounted noexec" : "No space left";
                nowhere.failsWith(
                        cache + "/oneflush/", reason, "-Djava.io.tmpdir", Library.VARIABLE);
                hasNothingOfOurs(temporary);
            } finally {
                command("umount", "-l", cache.toString());
            }
        }
    }

    /** The class path where another user may read it. */
    private static String publicClassPath(Path folder) throws Exception {
        List<String> copies = new ArrayList<>();
        for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
            Path copy = folder.resolve(String.valueOf(copies.size()));
            if (Files.isDirectory(Path.of(part))) {
                command("cp", "-r", part, copy.toString());
            } else {
                copy = folder.resolve(Path.of(part).getFileName());
                Files.copy(Path.of(part), copy);
            }
            copies.add(copy.toString());
        }
        command("chmod", "-R", "a+rX", folder.toString());
        return String.join(File.pathSeparator, copies);
    }

    private Jvm ofStranger(String... task) throws Exception {
        for (Path above = folder; above != null; above = above.getParent()) {
            boolean isOpen =
                    PosixFilePermissions.toString(Files.getPosixFilePermissions(above))
                            .endsWith("x");
            if (!isOpen) {
                assertTrue(above.startsWith("/var/tmp") || above.startsWith("/tmp"), "" + above);
                command("chmod", "a+x", above.toString());
            }
        }
        command("chmod", "1777", temporary.toString());
        return new Jvm(task)
                .classPath(publicClassPath(Files.createDirectory(folder.resolve("classes"))))
                .by("setpriv", "--reuid=" + STRANGER, "--regid=" + STRANGER, "--clear-groups")
                .with("XDG_CACHE_HOME", "")
                .with("HOME", "/nonexistent")
                .property("java.io.tmpdir", temporary);
    }

    @Test
    void aUserWithoutAHomeLoadsFromTheTemporaryFolder() throws Exception {
        needRoot();
        Jvm.says(ofStranger("load").output(), temporary + "/oneflush-", "(deleted)");
    }

    @Test
    void aFolderThatIsNotWritableIsAnErrorThatNamesTheFile() throws Exception {
        needRoot();
        Path closed = Files.createDirectory(folder.resolve("closed"));
        mode(closed, "rwxr-xr-x");
        String file = closed.resolve("app.db").toString();
        ofStranger("commit", file, "eager", "1").failsWith(file, "unable to open", "ONEFLUSH_LOG");
        assertEquals(List.of(), names(closed));
    }

    @Test
    void aLibraryThatIsNamedIsTakenInPlaceOfTheEmbeddedOne() throws Exception {
        Path file = Files.write(temporary.resolve("liboneflush.so"), library());
        assertEquals(file.toString(), load().with(Library.VARIABLE, file.toString()).output());
        assertEquals(file.toString(), load().property(Library.PROPERTY, file).output());
        hasNothingOfOurs(cache);
    }

    @Test
    void aNamedLibraryThatDoesNotFitIsRefusedWithTheReason() throws Exception {
        Path file = temporary.resolve("liboneflush.so");
        Jvm named = load().with(Library.VARIABLE, file.toString());
        named.failsWith(Library.VARIABLE + "=" + file, "NoSuchFile");

        byte[] foreign = library();
        foreign[18] = (byte) (foreign[18] == 62 ? 183 : 62);
        Files.write(file, foreign);
        named.failsWith("it is a library for", "64 bits", Platform.ofProcess().name);
        byte[] small = library();
        small[4] = 1;
        Files.write(file, small);
        named.failsWith("32 bits", Platform.ofProcess().name);
        Files.writeString(file, "no library\n");
        named.failsWith("no ELF library");

        Files.write(file, library());
        mode(file, "rwxrwxrwx");
        named.failsWith("other users could change it", "0755");
        mode(file, "rwxr-xr-x");
        mode(temporary, "rwxrwxrwx");
        named.failsWith("other users could replace it through " + temporary);
    }

    @Test
    void aVariableThatTheLibraryRefusesIsSaidAsItIsAndNothingElseIsTried() throws Exception {
        Jvm jvm = load().with("ONEFLUSH_STRATEGY", "fast");
        jvm.failsWith("ONEFLUSH_STRATEGY", "\"fast\"", "auto, stock, plain, eager");
        assertFalse(jvm.messages().contains("tmpdir"), jvm.messages());
    }

    @Test
    void theDeepestMountSaysWhetherProgramsMayRun() {
        List<String> mounts =
                List.of(
                        "/dev/a / ext4 rw 0 0",
                        "tmpfs /tmp tmpfs rw,nosuid,noexec 0 0",
                        "/dev/b /tmp/with\\040space ext4 rw 0 0",
                        "/dev/c /srv ext4 rw,noexec 0 0",
                        "/dev/d /srv ext4 rw 0 0");
        assertTrue(Place.isNoexec(Path.of("/tmp/x/liboneflush.so"), mounts));
        assertFalse(Place.isNoexec(Path.of("/tmp/with space/liboneflush.so"), mounts));
        assertFalse(Place.isNoexec(Path.of("/srv/liboneflush.so"), mounts));
        assertFalse(Place.isNoexec(Path.of("/tmpfile"), mounts));
    }

    @Test
    void aPlatformIsThatOfTheProcessAndItsCLibrary() throws Exception {
        assertEquals("x86_64-linux-gnu", Platform.of("Linux", "amd64", false).name);
        assertEquals("aarch64-linux-musl", Platform.of("Linux", "aarch64", true).name);
        for (String[] none : new String[][] {{"Mac OS X", "aarch64"}, {"Linux", "i386"}}) {
            SQLException error =
                    assertThrows(SQLException.class, () -> Platform.of(none[0], none[1], false));
            Jvm.says(error.getMessage(), none[0], none[1], "Linux on amd64 and aarch64");
        }
        String at = "7f00-7f01 r-xp 00000000 08:01 42   ";
        assertTrue(Platform.isMusl(List.of(at + "/lib/ld-musl-x86_64.so.1")));
        assertTrue(Platform.isMusl(List.of(at + "/usr/lib/libc.musl-x86_64.so.1")));
        assertFalse(Platform.isMusl(List.of(at + "/lib/libc.so.6", at, at + "/musl/libfoo.so")));
        SQLException error =
                assertThrows(
                        SQLException.class,
                        () -> Library.embedded(Platform.of("Linux", "sparc", false)));
        Jvm.says(error.getMessage(), "sparc");
    }
}
