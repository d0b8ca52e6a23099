# What the clients' `run` scripts get in the guest in the place of clients/common.sh. Everything is built and installed
# already, so what builds and installs does nothing. The databases are on F2FS.

fail() {
    echo "$CLIENT: $*" >&2
    exit 1
}

for nothing in toolchain package fresh cargo go javac mvn npm cp; do
    eval "$nothing() { :; }"
done

run() {
    local data=/mnt/$CLIENT
    rm -rf "$data"
    mkdir -p "$data"
    (cd "$data" && "$@")
}
