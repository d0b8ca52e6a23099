# In the guest: the test programs on the disk that it reads, each with its own file in /out.
mkdir -p /mnt/programs /mnt/tmp && tar -xf "$DRIVES" -C /mnt/programs
export HOME=/tmp TMPDIR=/mnt/tmp RUST_BACKTRACE=1
ip link set lo up
for program in /mnt/programs/*; do
    timeout 3000 "$program" >"/out/$(basename "$program")" 2>&1
    echo "ended with $?" >>"/out/$(basename "$program")"
done
