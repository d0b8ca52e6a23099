# In the guest: commits through the built files of aarch64, deaths of their processes, and what is there afterwards. The
# disk that the guest reads has the files, for glibc and for musl, and each check leaves a line in /out/said.

exec 3>/out/said
here=/tmp/files
mkdir -p $here && tar -xf "$DRIVES" -C $here
export HOME=/tmp

# ok NAME GOT WANTED…: one of the wanted patterns is what came out.
ok() {
    name=$1 got=$2
    shift 2
    for wanted in "$@"; do
        case $got in
            $wanted)
                echo "ok     $name" >&3
                return
                ;;
        esac
    done
    echo "FAILED $name: \"$got\" is not \"$wanted\"" >&3
}

# Lines of SQL for a shell that opens the database with a strategy.
opened() {
    echo ".load $files/liboneflush"
    echo ".open file:$db?vfs=oneflush&strategy=$strategy"
    echo ".timeout 60000"
    echo "PRAGMA synchronous=FULL;"
}

through() {
    { opened && cat; } | $shell :memory: 2>&1
}

# A writer that says each commit after it was acknowledged, by a file for each.
writer() {
    { opened && awk -v w="$1" -v said="$said" 'BEGIN {
        for (n = 1; n <= 50000; n++) printf "INSERT INTO t VALUES (%d, %d, randomblob(200));\nSELECT writefile('\''%s/%d-%d'\'', '\'''\'');\n", w, n, said, w, n
    }'; } >/tmp/writer-$1.sql
    $shell :memory: <"/tmp/writer-$1.sql" >"/tmp/writer-$1.out" 2>&1 &
}

# Two writers are killed in the middle.
killed() {
    rm -rf $said && mkdir -p $said
    writer "$1"
    first=$!
    writer "$2"
    second=$!
    waited=0
    while [ "$(ls $said | grep -c "^$1-")" -lt 60 ] || [ "$(ls $said | grep -c "^$2-")" -lt 60 ]; do
        sleep 0.2
        waited=$((waited + 1))
        [ $waited -lt 1500 ] || break
    done
    if [ "$3" = looked ]; then
        case $strategy in plain) guard= ;; *) guard="guard *set: the database is in use with $strategy*" ;; esac
        ok "$what: stats says who uses the database" "$($oneflush stats "$db" 2>&1)" "*${guard}used by *$first (*$second (*"
    fi
    kill -9 $first $second
    ended=
    for process in $first $second; do
        wait $process
        ended="$ended$? "
    done
    ok "$what: two writers, $(ls $said | wc -l) commits acknowledged, are killed" "$ended" "137 137 "
}

# What a database lacks of what was said: SQL that answers `0|ok`, and that no writer has more than one commit more.
all_there() {
    echo "CREATE TEMP TABLE said (w, n);"
    ls $said | sed 's/\(.*\)-\(.*\)/INSERT INTO said VALUES (\1, \2);/'
    echo "SELECT 'lost', count(*) FROM said WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.w = said.w AND t.n = said.n);"
    echo "SELECT 'more', count(*) FROM (SELECT w, max(n) AS m, count(*) AS c FROM said GROUP BY w) AS s WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.w = s.w GROUP BY t.w HAVING max(t.n) = count(*) AND max(t.n) BETWEEN s.m AND s.m + 1);"
    echo "PRAGMA integrity_check;"
}
all_there='lost|0
more|0
ok'

commits() {
    what="$libc, $strategy"
    echo "$what"
    db=/mnt/$libc-$strategy/app.db
    said=/tmp/said
    mkdir -p "$(dirname $db)"
    case $strategy in maw) journal=truncate ;; *) journal=wal ;; esac
    $shell $db "PRAGMA journal_mode=$journal; CREATE TABLE t (w, n, data)" >/dev/null
    ok "$what: answers what it is" "$(echo "SELECT count(*) FROM t; PRAGMA oneflush_strategy;" | through)" "0
$strategy"
    got=$({
        i=0
        while [ $i -lt 100 ]; do
            i=$((i + 1))
            echo "INSERT INTO t VALUES (0, $i, randomblob(200));"
        done
        echo "SELECT count(*) FROM t;"
    } | through)
    ok "$what: 100 commits" "$got" 100
    ok "$what: SQLite alone has them after the last close" "$($shell $db "SELECT count(*) FROM t; PRAGMA integrity_check" 2>&1)" "100
ok"
    killed 1 2 looked
    ok "$what: the next open has all of them" "$(all_there | through)" "$all_there"
    killed 3 4
    recovered=$($oneflush recover $db 2>&1)
    ok "$what: recover ends well" "$?" 0
    echo "$what: $recovered" >>/out/recovered
    ok "$what: SQLite alone has all of them then" "$(all_there | $shell $db 2>&1)" "$all_there"
}

for libc in gnu musl; do
    files=$here/aarch64-linux-$libc
    oneflush=$files/oneflush
    case $libc in
        gnu) shell=sqlite3 ;;
        musl) shell=$here/sqlite3-musl ;;
    esac
    if [ ! -e $files ] || ! command -v $shell >/dev/null; then
        echo "$libc: skipped, it was not built" >&3
        continue
    fi
    ok "$libc: the SQLite is Debian's, or one that loads extensions" "$($shell :memory: 'SELECT sqlite_version()')" '3.*'
    ok "$libc: the program tells its version" "$($oneflush --version 2>&1)" 'oneflush *'
    for strategy in plain eager waldio maw; do
        commits
    done
    $oneflush probe /mnt >/out/probe-$libc 2>&1
    ok "$libc: probe" "$?" 0
    db=/mnt/bad.db strategy=fast
    ok "$libc: an unknown strategy is refused" "$(echo "SELECT 1;" | ONEFLUSH_LOG=stderr through)" '*"fast" is not known to Oneflush*allowed: auto, stock, plain, eager, waldio, maw*'
done

libc=gnu files=$here/aarch64-linux-gnu oneflush=$here/aarch64-linux-gnu/oneflush
ok "run: Debian's sqlite3 has the VFS without asking" "$($oneflush run -- sqlite3 /mnt/run.db "PRAGMA journal_mode=WAL; PRAGMA oneflush_strategy" 2>&1)" "wal
plain"
ok "shell" "$($oneflush shell /mnt/run.db "SELECT 6 * 7" 2>&1)" 42

# Files for another machine, or for another C library: what the linker says, through SQLite.
refused() {
    said=$($2 :memory: ".load $3" 2>&1)
    echo "$said" >"/out/$1"
    ok "$1: the library is refused" "$said" "$4"
}
refused x86_64-in-aarch64 sqlite3 $here/x86_64/liboneflush "*$here/x86_64/liboneflush.so: cannot open shared object file*"
if [ -e $here/aarch64-linux-musl ]; then
    refused musl-in-gnu sqlite3 $here/aarch64-linux-musl/liboneflush "*libc.so: cannot open shared object file*"
    refused gnu-in-musl $here/sqlite3-musl $here/aarch64-linux-gnu/liboneflush "*Error relocating $here/aarch64-linux-gnu/liboneflush.so:*symbol not found*"
fi
{
    uname -a
    sqlite3 --version
    getconf PAGESIZE 2>/dev/null || grep -m 1 KernelPageSize /proc/self/smaps
    mount | grep /mnt
} >/out/environment
cat /proc/uptime >>/out/environment
! grep -q ^FAILED /out/said
