# In the guest: the test programs on the disk that it reads. The unit tests of a crate, and each module of its integration tests,
# are a process of their own, with its own file in /out.
mkdir -p /mnt/programs /mnt/tmp /mnt/folder && tar -xf "$DRIVES" -C /mnt/programs
folder=$(cat /mnt/programs/folder)
mkdir -p "$folder" && mount --bind /mnt/folder "$folder"
# Debian's programs, and busybox's where there is no other.
export PATH=/usr/sbin:/sbin:/usr/bin:/bin HOME=/tmp TMPDIR=/mnt/tmp RUST_BACKTRACE=1 ONEFLUSH_LOG=stderr ONEFLUSH_TEST_SLOWNESS=8
ip link set lo up
for name in $(cat /mnt/programs/names); do
    crate=${name%%-*} module=${name#*-}
    program=/mnt/programs/$crate-lib
    set --
    if [ "$module" != lib ]; then
        program=/mnt/programs/$crate-it
        # By their whole names: `kills::` is a part of `maw_kills::`, too.
        set -- --exact $("$program" --list | sed -n "s/^\($module::.*\): test$/\1/p")
    fi
    timeout 3000 "$program" "$@" >"/out/$name" 2>&1
    status=$?
    echo "ended with $status" >>"/out/$name"
    echo "$name ended with $status at $(cut -d ' ' -f 1 /proc/uptime) s"
    grep '^test .* FAILED$' "/out/$name"
done
umount "$folder"
