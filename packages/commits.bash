# commits.bash: what deb/check and tar/check have in common: a database's life with the program
# `oneflush` and a shell of SQLite. Their `prepare` copies this file to the bare place.
#
# Set before:
#   SQL        the shell's words: reads SQL from standard input, and takes the database's name
#   BUFFERED   words before a program, so that each line that it prints is out at once; may be none
#   EXTENSION  the path of liboneflush, without .so
#   OF         what each claim begins with; may be unset

passed=0 failed=0

# check CLAIM COMMAND…
check() {
    local claim=${OF:-}$1 said
    shift
    if said=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "ok    $claim"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s\n' "$claim"
        sed 's/^/      /' <<<"$said"
    fi
}

# is EXPECTED TEXT
is() {
    [ "$1" = "$2" ] || { printf 'expected: %s\nthere is: %s\n' "$1" "$2"; return 1; }
}

# has WORDS TEXT
has() {
    case $2 in *"$1"*) ;; *) printf '%s\nis not in: %s\n' "$1" "${2:0:2000}"; return 1 ;; esac
}

# shows_bench [FOLDER]: man does, and no example is hyphenated or cut
shows_bench() {
    local page
    page=$(MANWIDTH=80 man ${1:+-M "$1"} oneflush-bench | tr -s ' \n' ' ') &&
        has "Measure what a commit costs" "$page" && has "--plot-latency checkpoints.svg" "$page"
}

# closing NAME: the last line, and the exit code
closing() {
    echo "$1: $passed passed, $failed failed"
    [ "$failed" = 0 ]
}

# plain_sql DATABASE SQL: by SQLite alone
plain_sql() { "${SQL[@]}" "$1" <<<"$2"; }

# run_sql STRATEGY DATABASE SQL: as a program that knows nothing of Oneflush
run_sql() { oneflush run --strategy "$1" -- "${SQL[@]}" "$2" <<<"$3"; }

# load_sql STRATEGY DATABASE SQL: by the extension, and a URI
load_sql() {
    "${SQL[@]}" :memory: <<<"SELECT load_extension('$EXTENSION');
.open file:$2?vfs=oneflush&strategy=$1
$3"
}

# hundred HOW STRATEGY: 100 commits by run_sql or load_sql; the strategy's answer, rows, integrity
hundred() {
    local database=$1-$2.db said
    rm -f "$database"*
    said=$("$1" "$2" "$database" "PRAGMA journal_mode=WAL;
CREATE TABLE item(n);
$(printf 'INSERT INTO item VALUES(%d);\n' $(seq 100))
PRAGMA oneflush_strategy;
SELECT count(*) FROM item;") || { echo "$said"; return 1; }
    is "wal $2 100" "$(xargs <<<"$said")" || return 1
    said=$(plain_sql "$database" "SELECT count(*) FROM item; PRAGMA integrity_check;")
    is "100 ok" "$(xargs <<<"$said")"
}

# killed STRATEGY DATABASE: a process commits, says each commit that is acknowledged in
# DATABASE.said, and is killed in the middle.
killed() {
    local n=0 pid
    rm -f "$2"*
    run_sql "$1" "$2" "PRAGMA journal_mode=WAL; CREATE TABLE item(n);" >/dev/null || return 1
    while echo "INSERT INTO item VALUES($((n += 1))); SELECT 'commit $n';"; do :; done 2>&- |
        exec "${BUFFERED[@]}" oneflush run --strategy "$1" -- "${SQL[@]}" "$2" \
            >"$2.said" 2>"$2.err" &
    pid=$!
    until [ "$(wc -l <"$2.said")" -ge 100 ]; do
        kill -0 "$pid" 2>/dev/null || { cat "$2.err"; return 1; }
        sleep 0.05
    done
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    return 0
}

# all_there DATABASE: every acknowledged commit is there, at most one more, and the database sound
all_there() {
    local said found
    said=$(grep -c '^commit' "$1.said")
    found=$(plain_sql "$1" "SELECT count(*) FROM item WHERE n <= $said;
SELECT count(*) - $said < 2 FROM item;
PRAGMA integrity_check;")
    is "$said 1 ok" "$(xargs <<<"$found")"
}

recovered_by_the_program() {
    killed eager recovered.db || return 1
    has "not a database" "$(plain_sql recovered.db "SELECT count(*) FROM item;" 2>&1)" &&
        has "recovered" "$(oneflush recover recovered.db 2>&1)" &&
        all_there recovered.db && is recovered.db "$(ls | grep -x "recovered.db\(-.*\)\?")"
}

recovered_by_the_next_open() {
    killed eager reopened.db || return 1
    run_sql eager reopened.db "SELECT count(*) FROM item;" >/dev/null && all_there reopened.db
}

plain_needs_nothing() { killed plain plain.db && all_there plain.db; }

unknown_strategy_of_run() { has "allowed" "$(run_sql fast a.db "SELECT 1;" 2>&1)"; }

unknown_strategy_of_uri() {
    has "OF-401" "$(ONEFLUSH_LOG=stderr load_sql fast a.db "SELECT 1 FROM sqlite_schema;" 2>&1)"
}

missing_program() {
    local code=0
    oneflush run -- ./not-there >/dev/null 2>&1 || code=$?
    is 127 "$code"
}

# life: all of it
life() {
    local strategy
    for strategy in plain eager; do
        check "run, $strategy: 100 commits, and SQLite alone finds them" hundred run_sql "$strategy"
        check "load, $strategy: the same" hundred load_sql "$strategy"
    done
    check "kill -9 with plain: SQLite alone finds every acknowledged commit" plain_needs_nothing
    check "kill -9 with eager: oneflush recover, all are there" recovered_by_the_program
    check "kill -9 with eager: the next open, all are there" recovered_by_the_next_open
    check "an unknown strategy of oneflush run is refused, and told which there are" \
        unknown_strategy_of_run
    check "an unknown strategy of a URI is refused, with its code" unknown_strategy_of_uri
    check "a program that is not there: exit code 127" missing_program
}
