# In the guest: commits of strategy `maw` by F2FS's atomic write, with losses of power.
ONEFLUSH_TEST_F2FS='/mnt|/dev/vda1' vfs-tests maw_f2fs:: --test-threads=1 --nocapture >/out/tests 2>&1
status=$?
oneflush probe --json /mnt >/out/probe.json || exit 1
exit $status
