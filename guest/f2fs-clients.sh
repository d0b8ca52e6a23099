# In the guest: the clients $CLIENTS of the folder $ROOT/clients, one after the other, with their databases on F2FS.
# Leaves in /out what each said, and in /out/results its exit code and its seconds.
now() {
    read -r up rest </proc/uptime
    echo "${up%.*}"
}

ln -s /proc/self/fd /dev/fd
mkdir /out/said
for name in $CLIENTS; do
    began=$(now)
    timeout -s KILL "$LIMIT_S" chroot /host /usr/bin/env -i \
        PATH=/usr/bin HOME=/tmp LC_ALL=C.UTF-8 SQLITE3=/usr/bin/sqlite3 \
        CLIENT="$name" CLIENT_FOLDER="$ROOT/clients/$name" CLIENT_BUILD="$ROOT/build/clients/$name" CLIENT_F2FS=1 \
        ONEFLUSH_EXTENSION_PATH="$BUILT/liboneflush.so" ONEFLUSH_PROGRAM="$BUILT/oneflush" \
        bash -euo pipefail -c '. "$0"; . "$1"' "$ROOT/guest/f2fs-clients-common.sh" "$ROOT/clients/$name/run" \
        </dev/null >"/out/said/$name" 2>&1
    echo "$name $? $(($(now) - began))" | tee -a /out/results
    rm -rf "/mnt/$name"
done
