package io.github.oneflush;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A processor and a C library, such as x86_64-linux-gnu. */
final class Platform {
    private static final int EM_X86_64 = 62;
    private static final int EM_AARCH64 = 183;
    private static final int ELF_HEADER_BYTES = 20;

    final String name;
    private final int machine;

    private Platform(String processor, int machine, String libc) {
        this.name = processor + "-linux-" + libc;
        this.machine = machine;
    }

    static Platform ofProcess() throws SQLException {
        return of(System.getProperty("os.name"), System.getProperty("os.arch"), isMusl());
    }

    static Platform of(String system, String processor, boolean isMusl) throws SQLException {
        String libc = isMusl ? "musl" : "gnu";
        if (system.toLowerCase(Locale.ROOT).equals("linux")) {
            switch (processor) {
                case "amd64":
                case "x86_64":
                    return new Platform("x86_64", EM_X86_64, libc);
                case "aarch64":
                    return new Platform("aarch64", EM_AARCH64, libc);
                default:
                    break;
            }
        }
        throw new SQLException(
                "oneflush: there is no library for "
                        + system
                        + " on "
                        + processor
                        + "; there is one for Linux on amd64 and aarch64");
    }

    /**
     * What the JVM itself is linked with. Without /proc it is taken for glibc, as sqlite-jdbc does.
     */
    private static boolean isMusl() {
        try {
            return isMusl(
                    Files.readAllLines(Path.of("/proc/self/maps"), StandardCharsets.ISO_8859_1));
        } catch (IOException error) {
            return false;
        }
    }

    static boolean isMusl(List<String> maps) {
        return maps.stream()
                .map(line -> line.substring(line.lastIndexOf('/') + 1))
                .anyMatch(file -> file.startsWith("ld-musl-") || file.startsWith("libc.musl-"));
    }

    /** Refuses a file that is no library for this processor. */
    void check(Path file) throws IOException {
        byte[] header;
        try (InputStream content = Files.newInputStream(file)) {
            header = content.readNBytes(ELF_HEADER_BYTES);
        }
        if (header.length < ELF_HEADER_BYTES
                || header[0] != 0x7f
                || header[1] != 'E'
                || header[2] != 'L'
                || header[3] != 'F') {
            throw new IOException("it is no ELF library");
        }
        int bits = header[4] == 1 ? 32 : 64;
        int found = Byte.toUnsignedInt(header[18]) | Byte.toUnsignedInt(header[19]) << 8;
        if (found != machine || bits != 64) {
            String known =
                    Map.of(EM_X86_64, "x86_64", EM_AARCH64, "aarch64")
                            .getOrDefault(found, "machine " + found);
            throw new IOException(
                    "it is a library for "
                            + known
                            + " ("
                            + bits
                            + " bits), and this program needs one for "
                            + name);
        }
    }
}
