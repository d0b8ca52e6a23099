# The sqlite3 shell: `.load` takes the extension, `.open` a URI that names the VFS.
set -euo pipefail

ROWS=20
EXPECTED="$ROWS:$(seq -s, -f 'word %g' "$ROWS")"
SUMMARY="SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id);"

check() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || { echo "shell: $1: \"$2\" instead of \"$3\"" >&2; exit 1; }
}

shell() { # LINES of a session in which the extension is loaded
    "$SQLITE3" -batch -init /dev/null :memory: 2>&1 <<<".log stderr
.load $ONEFLUSH_EXTENSION_PATH
$1"
}

growth() { # BEFORE AFTER PATH: by how much a number of PRAGMA oneflush_stats grew
    "$SQLITE3" :memory: "SELECT json_extract('$2', '$3') - json_extract('$1', '$3')"
}

inserts() {
    local n
    for n in $(seq "$ROWS"); do echo "INSERT INTO item VALUES($n, 'word $n');"; done
}

write_and_read() { # MODE JOURNAL OTHER
    local open=".open file:$1.db?vfs=oneflush&strategy=stock" line
    mapfile -t line < <(shell "$open
        PRAGMA oneflush_strategy;
        PRAGMA journal_mode=$1;
        PRAGMA synchronous=FULL;
        CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT);
        PRAGMA oneflush_stats;
        $(inserts)
        BEGIN;
        INSERT INTO item VALUES(99, 'rolled back');
        SELECT count(*) FROM item;
        ROLLBACK;
        PRAGMA oneflush_stats;
        $SUMMARY
$open
        PRAGMA oneflush_strategy;
        PRAGMA journal_mode;
        $SUMMARY
        PRAGMA integrity_check;")
    check "lines of $1 (${line[*]})" "${#line[@]}" 10
    check "PRAGMA oneflush_strategy" "${line[0]}" stock
    check "PRAGMA journal_mode" "${line[1]}" "$1"
    check "rows before the rollback" "${line[3]}" $((ROWS + 1))
    check "rows" "${line[5]}" "$EXPECTED"
    check "strategy after the reopen" "${line[6]}" stock
    check "journal mode after the reopen" "${line[7]}" "$1"
    check "rows after the reopen" "${line[8]}" "$EXPECTED"
    check "PRAGMA integrity_check" "${line[9]}" ok

    local before=${line[2]} after=${line[4]} written
    check "commits counted" "$(growth "$before" "$after" '$.commits.count')" "$ROWS"
    written=$(growth "$before" "$after" "\$.files.$2.write_bytes")
    [ "$written" -gt 0 ] || check "$1: bytes counted for $2" "$written" "more than 0"
    check "$1: bytes counted for $3" "$(growth "$before" "$after" "\$.files.$3.write_bytes")" 0

    # Another process, which never heard of Oneflush.
    check "plain SQLite" "$("$SQLITE3" -batch "$1.db" "PRAGMA oneflush_strategy; $SUMMARY PRAGMA integrity_check;" 2>&1)" \
        "$EXPECTED"$'\n'ok
}

write_and_read wal wal rollback_journal
write_and_read delete rollback_journal wal

refused=$(shell ".open file:refused.db?vfs=oneflush&strategy=nonsense")
for words in "unable to open database" "URI parameter strategy" '"nonsense"' "allowed: auto, stock"; do
    [[ $refused == *"$words"* ]] || check "the message for an unknown strategy" "$refused" "…$words…"
done
[ ! -e refused.db ] || check "files left by the refused open" refused.db ""

version=$("$SQLITE3" --version)
echo "shell: ok (SQLite ${version%% *}, sqlite3 shell)"
