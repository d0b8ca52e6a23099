# In the guest: 21 transactions in each mode, recorded; `oneflush identify` reads them there, too.
cat >/tmp/app <<'APP'
for mode in delete truncate persist wal; do
    for sync in full normal; do
        {
            echo "PRAGMA journal_mode=$mode; PRAGMA synchronous=$sync; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);"
            i=0
            while [ $i -lt 20 ]; do
                echo "INSERT INTO t(v) VALUES(randomblob(100));"
                i=$((i + 1))
            done
        } | sqlite3 /mnt/$mode-$sync.db || exit 1
    done
done
APP
sync
cat /sys/block/vda/vda1/stat >/out/stat-before
oneflush trace -o /out/f2fs.zst --dir /mnt -- sh /tmp/app || exit 1
cat /sys/block/vda/vda1/stat >/out/stat-after
oneflush identify --json /out/f2fs.zst >/out/transactions.json
