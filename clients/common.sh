# What the clients' `run` scripts share; `clients/run` reads it before each of them.
#
# CLIENT         the client's name
# CLIENT_FOLDER  its folder
# CLIENT_BUILD   where what it builds or installs stays
# SQLITE3        the shell without Oneflush, by which every client checks what it wrote

SQLITE3=/usr/bin/sqlite3
export SQLITE3

fail() {
    echo "$CLIENT: $*" >&2
    exit 1
}

# toolchain COMMAND…: what is not ours to install.
toolchain() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null && continue
        if [ "${SKIP_MISSING:-0}" = 1 ]; then
            echo "$CLIENT: skipped, there is no $command"
            exit 77
        fi
        fail "there is no $command; install it, or set SKIP_MISSING=1 to go on without this client"
    done
}

# package NAME CHECK…: installs a Debian package unless the check succeeds.
package() {
    local name=$1
    shift
    "$@" >/dev/null 2>&1 && return
    "$CLIENT_FOLDER/../../scripts/need" "$name" || fail "needs $name"
    "$@" >/dev/null || fail "needs $name, and it is installed, but \`$*\` still fails"
}

# fresh STAMP FILE…: true if what was made from the files (STAMP holds a copy of them) is up to date.
fresh() {
    local stamp=$1
    shift
    [ -f "$stamp" ] && cat "$@" | cmp -s - "$stamp"
}

# run COMMAND…: runs the client in an empty directory, whose files it leaves for a look afterwards.
run() {
    local data=$CLIENT_BUILD/data
    rm -rf "$data"
    mkdir -p "$data"
    (cd "$data" && "$@")
}

package sqlite3 test -x "$SQLITE3"
