/** Oneflush for sqlite-jdbc: {@link io.github.oneflush.Oneflush}. */
module io.github.oneflush {
    requires transitive java.sql;
    requires transitive org.xerial.sqlitejdbc;

    exports io.github.oneflush;
}
