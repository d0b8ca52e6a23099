# In the guest: files of SQLite's suite, one after the other, with the databases on F2FS. guest/f2fs-suite puts its
# settings before this. A line of /host$FILES is a file of the suite, its limit in seconds, and its arguments.
#
# Leaves in /out what each file said, and in /out/results for each its exit code, and when it began and ended. What the
# deadline did not leave time for has no line.
now() {
    read -r up rest </proc/uptime
    echo "$up"
}

ulimit -n 20000
ulimit -c 0
mkdir /out/logs /mnt/dbs
began=$(now)
while read -r file limit arguments; do
    at=$(now)
    [ "${at%.*}" -lt $((${began%.*} + DEADLINE_S)) ] || break
    number=$((number + 1))
    # As long as the names that suite/run gives: fault injection counts the allocations.
    place=/mnt/dbs/o$(printf %08d $number)
    mkdir -m 700 "$place"
    timeout -s KILL "$limit" chroot /host /usr/bin/env -i -C "$place" PATH=/usr/bin HOME=/tmp LC_ALL=C.UTF-8 TZ=UTC \
        ONEFLUSH_TEST_EXIT_IS_CRASH=1 $SETTINGS $COMMAND "$TESTS/$file.test" $arguments \
        </dev/null >"/out/logs/$file.txt" 2>&1
    code=$?
    # As suite/run and `timeout` of coreutils say it.
    [ $code != 137 ] || code=124
    killall -q -9 "${COMMAND%% *}"
    end=$(now)
    echo "$file $code $at $end" | tee -a /out/results
    rm -rf "$place"
done <"/host$FILES"
