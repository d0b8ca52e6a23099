# The sqlite3 shell under valgrind's memcheck, as developers run what loads an extension: no access of ours to memory that is not ours.
set -euo pipefail

ROWS=300

session() { # STRATEGY MODE FILE
    cat <<SQL
.load $ONEFLUSH_EXTENSION_PATH
.open file:$3?vfs=oneflush&strategy=$1
PRAGMA journal_mode=$2;
PRAGMA synchronous=full;
CREATE TABLE item(id INTEGER PRIMARY KEY, word); CREATE INDEX words ON item(word);
$(yes 'INSERT INTO item(word) VALUES(hex(randomblob(60)));' | head -n "$ROWS")
BEGIN; UPDATE item SET word = word || 'x'; ROLLBACK;
.open file:$3?vfs=oneflush&strategy=$1
SELECT count(*) FROM item WHERE word NOT LIKE '%x';
PRAGMA oneflush_checkpoint;
PRAGMA integrity_check;
SQL
}

for round in stock:wal plain:wal eager:wal waldio:wal maw:delete; do
    strategy=${round%:*}
    session "$strategy" "${round#*:}" "$strategy.db" >session.sql
    if ! valgrind --quiet --error-exitcode=9 "$SQLITE3" -batch -init /dev/null :memory: <session.sql >said 2>errors; then
        cat said errors >&2
        exit 1
    fi
    if [ "$(sed -n '2p;$p' said | xargs)" != "$ROWS ok" ]; then
        echo "shell-valgrind: $strategy said:" >&2
        cat said errors >&2
        exit 1
    fi
    [ "$("$SQLITE3" "$strategy.db" 'SELECT count(*) FROM item; PRAGMA integrity_check;' | xargs)" = "$ROWS ok" ]
done
echo "shell-valgrind: ok (SQLite $("$SQLITE3" --version | cut -d' ' -f1), $(valgrind --version))"
