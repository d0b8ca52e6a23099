# In the guest: the test programs on the disk that it reads, each with its own file in /out.
mkdir -p /mnt/programs /mnt/tmp /mnt/folder && tar -xf "$DRIVES" -C /mnt/programs
folder=$(cat /mnt/programs/folder) && rm /mnt/programs/folder
mkdir -p "$folder" && mount --bind /mnt/folder "$folder"
# Debian's programs, and busybox's where there is no other.
export PATH=/usr/sbin:/sbin:/usr/bin:/bin HOME=/tmp TMPDIR=/mnt/tmp RUST_BACKTRACE=1 ONEFLUSH_LOG=stderr ONEFLUSH_TEST_SLOWNESS=8
ip link set lo up
for program in /mnt/programs/*; do
    name=$(basename "$program")
    timeout 3000 "$program" >"/out/$name" 2>&1
    status=$?
    echo "ended with $status" >>"/out/$name"
    echo "$name ended with $status at $(cut -d ' ' -f 1 /proc/uptime) s"
    grep '^test .* FAILED$' "/out/$name"
done
umount "$folder"
