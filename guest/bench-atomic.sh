# In the guest: SQLite alone, with and without its own use of F2FS's atomic write. WAL is the same in both.
disk=${PART#/dev/}
for workload in insert update five; do
    bench-plain "$disk" /mnt/wal-$workload.db wal $workload "$TXNS" >>/out/atomic || exit 1
    bench-plain "$disk" /mnt/delete-$workload.db delete $workload "$TXNS" >>/out/atomic || exit 1
    bench-batch "$disk" /mnt/batch-$workload.db delete $workload "$TXNS" >>/out/atomic || exit 1
done
