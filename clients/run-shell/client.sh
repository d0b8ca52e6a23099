# `oneflush run -- sqlite3`: the shell knows nothing of Oneflush, and no file name mentions it.
set -euo pipefail

ROWS=20
EXPECTED="$ROWS:$(seq -s, -f 'word %g' "$ROWS")"
SUMMARY="SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id);"

check() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || { echo "run-shell: $1: \"$2\" instead of \"$3\"" >&2; exit 1; }
}

under() { # FILE SQL [OPTION…]: the shell under Oneflush
    local file=$1 sql=$2
    shift 2
    "$ONEFLUSH_PROGRAM" run "$@" -- "$SQLITE3" -batch -init /dev/null "$file" "$sql" 2>&1
}

growth() { # BEFORE AFTER PATH: by how much a number of PRAGMA oneflush_stats grew
    "$SQLITE3" :memory: "SELECT json_extract('$2', '$3') - json_extract('$1', '$3')"
}

inserts() {
    local n
    for n in $(seq "$ROWS"); do echo "INSERT INTO item VALUES($n, 'word $n');"; done
}

write_and_read() { # MODE JOURNAL OTHER
    local line
    mapfile -t line < <(under "$1.db" "
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
        $SUMMARY" --strategy stock)
    check "lines of $1 (${line[*]})" "${#line[@]}" 6
    check "PRAGMA oneflush_strategy" "${line[0]}" stock
    check "PRAGMA journal_mode" "${line[1]}" "$1"
    check "rows before the rollback" "${line[3]}" $((ROWS + 1))
    check "rows" "${line[5]}" "$EXPECTED"

    local before=${line[2]} after=${line[4]} written
    check "commits counted" "$(growth "$before" "$after" '$.commits.count')" "$ROWS"
    written=$(growth "$before" "$after" "\$.files.$2.write_bytes")
    [ "$written" -gt 0 ] || check "$1: bytes counted for $2" "$written" "more than 0"
    check "$1: bytes counted for $3" "$(growth "$before" "$after" "\$.files.$3.write_bytes")" 0

    # Without --strategy: the default, which changes nothing in a rollback mode, and says so.
    local strategy=plain
    [ "$1" = wal ] || strategy="plain (inactive: journal_mode=$1)"
    check "the reopen" \
        "$(under "$1.db" "PRAGMA oneflush_strategy; PRAGMA journal_mode; $SUMMARY PRAGMA integrity_check;")" \
        "$strategy"$'\n'"$1"$'\n'"$EXPECTED"$'\n'ok

    # Another process, which never heard of Oneflush.
    check "plain SQLite" "$("$SQLITE3" -batch "$1.db" "PRAGMA oneflush_strategy; $SUMMARY PRAGMA integrity_check;" 2>&1)" \
        "$EXPECTED"$'\n'ok
}

write_and_read wal wal rollback_journal
write_and_read delete rollback_journal wal

if refused=$(under refused.db "PRAGMA oneflush_strategy; CREATE TABLE t(a);" --strategy nonsense); then
    check "an unknown strategy" "$refused" "a message and an exit code that is not 0"
fi
[[ $refused == *nonsense* && $refused == *stock* ]] ||
    check "the message for an unknown strategy" "$refused" "the value and what is allowed"
[ ! -e refused.db ] || check "files left by the refused open" refused.db ""

code=0
under wal.db ".exit 7" || code=$?
check "the exit code of a program that failed" "$code" 7

version=$("$SQLITE3" --version)
program=$("$ONEFLUSH_PROGRAM" --version)
echo "run-shell: ok (SQLite ${version%% *}, $program run, sqlite3 shell)"
