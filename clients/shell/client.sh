# The sqlite3 shell: `.load` takes the extension, `.open` a URI that names the VFS.
set -euo pipefail

ROWS=20
EXPECTED="$ROWS:$(seq -s, -f 'word %g' "$ROWS")"
SUMMARY="SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id);"
# Numbers of PRAGMA oneflush_stats. `files` counts what SQLite writes, wherever the strategy puts it.
WAL=files.wal.write_bytes
JOURNAL=files.rollback_journal.write_bytes
# Strategy, journal mode, a number that grows, a number that stays, the files beside the open database.
ROUNDS=(
    "stock wal $WAL $JOURNAL -shm -wal"
    "stock delete $JOURNAL $WAL -journal"
    "eager wal eager.log.logged_bytes $JOURNAL -oneflush -oneflush-shm -oneflush-wal -shm"
    "waldio wal $WAL $JOURNAL -oneflush-shm -shm -waldio"
    "maw delete maw.log.logged_bytes maw.ordinary -maw -oneflush-shm"
)
# The same with F2FS's atomic write, where CLIENT_F2FS says that the folder is on F2FS. Two numbers stay. There is no
# file beside the database, so the pattern that looks for some stays what it is.
F2FS_ROUND="maw delete maw.atomic maw.ordinary,maw.log.logged_bytes -*"

check() { # WHAT FOUND EXPECTED
    [ "$2" = "$3" ] || { echo "shell: $1: \"$2\" instead of \"$3\"" >&2; exit 1; }
}

shell() { # LINES of a session in which the extension is loaded
    "$SQLITE3" -batch -init /dev/null :memory: 2>&1 <<<".log stderr
.load $ONEFLUSH_EXTENSION_PATH
$1"
}

growth() { # BEFORE AFTER PATH: by how much a number of PRAGMA oneflush_stats grew
    "$SQLITE3" :memory: "SELECT json_extract('$2', '\$.$3') - json_extract('$1', '\$.$3')"
}

inserts() {
    local n
    for n in $(seq "$ROWS"); do echo "INSERT INTO item VALUES($n, 'word $n');"; done
}

write_and_read() { # ATOMIC STRATEGY MODE GROWS STAYS FILE…: a round
    local atomic=$1 strategy=$2 mode=$3 grows=$4 stays=$5 file=$2-$3-$1.db line
    echo "$strategy, journal_mode=$mode, atomic=$atomic"
    shift 5
    # Without `atomic=log` there would be no log on F2FS. The other strategies do not care.
    local open=".open file:$file?vfs=oneflush&strategy=$strategy&atomic=$atomic"
    local meanwhile=$ROWS
    [ "$strategy" = stock ] || [ "$atomic" = f2fs ] || meanwhile="*file is not a database*"
    mapfile -t line < <(shell "$open
        PRAGMA journal_mode=$mode;
        PRAGMA oneflush_strategy;
        PRAGMA synchronous=FULL;
        CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT);
        PRAGMA oneflush_stats;
        $(inserts)
        BEGIN;
        INSERT INTO item VALUES(99, 'rolled back');
        SELECT count(*) FROM item;
.shell echo $file-*
.shell $SQLITE3 -batch $file 'SELECT count(*) FROM item' 2>&1 || true
        ROLLBACK;
        PRAGMA oneflush_stats;
        $SUMMARY
$open
        PRAGMA oneflush_strategy;
        PRAGMA journal_mode;
        $SUMMARY
        PRAGMA integrity_check;")
    check "lines (${line[*]})" "${#line[@]}" 12
    check "PRAGMA journal_mode" "${line[0]}" "$mode"
    check "PRAGMA oneflush_strategy" "${line[1]}" "$strategy"
    check "rows before the rollback" "${line[3]}" $((ROWS + 1))
    check "files beside the open database" "${line[4]}" "${*/#/$file}"
    [[ ${line[5]} == $meanwhile ]] || check "plain SQLite meanwhile" "${line[5]}" "$meanwhile"
    check "rows" "${line[7]}" "$EXPECTED"
    check "strategy after the reopen" "${line[8]}" "$strategy"
    check "journal mode after the reopen" "${line[9]}" "$mode"
    check "rows after the reopen" "${line[10]}" "$EXPECTED"
    check "PRAGMA integrity_check" "${line[11]}" ok

    local before=${line[2]} after=${line[6]} grown
    check "commits counted" "$(growth "$before" "$after" commits.count)" "$ROWS"
    grown=$(growth "$before" "$after" "$grows")
    [ "$grown" -gt 0 ] || check "growth of $grows" "$grown" "more than 0"
    for grows in ${stays//,/ }; do
        check "growth of $grows" "$(growth "$before" "$after" "$grows")" 0
    done

    check "files beside the closed database" "$(compgen -G "$file-*")" ""
    # Another process, which never heard of Oneflush.
    local sql="PRAGMA oneflush_strategy; $SUMMARY PRAGMA integrity_check;"
    check "plain SQLite" "$("$SQLITE3" -batch "$file" "$sql" 2>&1)" "$EXPECTED"$'\n'ok
}

for each in "${ROUNDS[@]}"; do
    write_and_read log $each
done
[ -z "${CLIENT_F2FS:-}" ] || write_and_read f2fs $F2FS_ROUND

refused=$(shell ".open file:refused.db?vfs=oneflush&strategy=nonsense")
for words in "unable to open database" "URI parameter strategy" '"nonsense"' "allowed: auto, stock"; do
    [[ $refused == *"$words"* ]] || check "the message for an unknown strategy" "$refused" "…$words…"
done
[ ! -e refused.db ] || check "files left by the refused open" refused.db ""

version=$("$SQLITE3" --version)
echo "shell: ok (SQLite ${version%% *}, sqlite3 shell)"
