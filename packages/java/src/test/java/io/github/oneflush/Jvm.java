package io.github.oneflush;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A JVM that does a task of {@link Child}. It has no variable of Oneflush that is not given. */
final class Jvm {
    private static final int SECONDS_MAX = 120;

    private final ProcessBuilder process;
    private final Path messages;
    private final List<String> prefix = new ArrayList<>();
    private final List<String> options = new ArrayList<>();
    private final List<String> task;
    private String classPath = System.getProperty("java.class.path");

    Jvm(String... task) throws IOException {
        this.task = Arrays.asList(task);
        process = new ProcessBuilder();
        process.environment().keySet().removeIf(name -> name.startsWith("ONEFLUSH_"));
        messages = Files.createTempFile("oneflush-test-", ".messages");
        messages.toFile().deleteOnExit();
        process.redirectError(messages.toFile());
    }

    Jvm with(String variable, String value) {
        process.environment().put(variable, value);
        return this;
    }

    Jvm property(String name, Object value) {
        options.add("-D" + name + "=" + value);
        return this;
    }

    /** Started by another command. */
    Jvm by(String... command) {
        prefix.addAll(Arrays.asList(command));
        return this;
    }

    Jvm classPath(String classPath) {
        this.classPath = classPath;
        return this;
    }

    Process start() throws IOException {
        List<String> command = new ArrayList<>(prefix);
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        // A small JVM starts sooner, and many of them fit.
        command.addAll(List.of("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
        command.addAll(options);
        command.addAll(List.of("-cp", classPath, Child.class.getName()));
        command.addAll(task);
        Process started = process.command(command).start();
        started.onExit(); // so that it is reaped
        return started;
    }

    String messages() throws IOException {
        return Files.readString(messages);
    }

    /** What it printed. It must succeed. */
    String output() throws Exception {
        Process started = start();
        String output = new String(started.getInputStream().readAllBytes()).trim();
        assertTrue(started.waitFor(SECONDS_MAX, TimeUnit.SECONDS), "no end of " + task);
        assertEquals(0, started.exitValue(), messages());
        return output;
    }

    /** It must fail, and say all of these words. */
    void failsWith(String... words) throws Exception {
        Process started = start();
        started.getInputStream().readAllBytes();
        assertTrue(started.waitFor(SECONDS_MAX, TimeUnit.SECONDS), "no end of " + task);
        assertNotEquals(0, started.exitValue(), "no error that says " + Arrays.toString(words));
        says(messages(), words);
    }

    static void says(String message, String... words) {
        for (String word : words) {
            assertTrue(message.contains(word), () -> message + " does not say " + word);
        }
    }
}
