package io.github.oneflush;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * How commits are made durable. The project's page docs/choose.md says which program takes which.
 */
public enum Strategy {
    /** PLAIN in WAL mode. In the rollback modes it changes nothing; on F2FS it is MAW there. */
    AUTO(null),
    /** Changes nothing and accounts for everything. */
    STOCK(null),
    /** SQLite's own files in WAL mode at all times, written with less. */
    PLAIN("WAL"),
    /**
     * A commit is one block of a log beside the database. Other SQLites cannot read it meanwhile.
     */
    EAGER("WAL"),
    /** A paper's WAL in preallocated slots. */
    WALDIO("WAL"),
    /** For the rollback modes: the journal stays in memory. */
    MAW("DELETE");

    private final String journalMode;

    Strategy(String journalMode) {
        this.journalMode = journalMode;
    }

    /** The strategy's name in URIs and answers, such as {@code eager}. */
    public String word() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * The strategy of a name.
     *
     * @throws IllegalArgumentException that lists what is allowed
     */
    public static Strategy of(String word) {
        for (Strategy strategy : values()) {
            if (strategy.word().equals(word)) {
                return strategy;
            }
        }
        String allowed =
                Arrays.stream(values()).map(Strategy::word).collect(Collectors.joining(", "));
        throw new IllegalArgumentException(
                "oneflush: strategy \"" + word + "\" is not known; allowed: " + allowed);
    }

    /** The journal mode that a database needs for it, or null where any will do. */
    String journalMode() {
        return journalMode;
    }
}
