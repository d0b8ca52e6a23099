# What the cases' `run` scripts share; `compat/run` reads it before each of them.
#
# CASE         the case's name
# CASE_FOLDER  its folder
# CASE_BUILD   where what it builds or installs stays
# STRATEGY     the strategy that is tried

PYTHON=/usr/bin/python3
ROOT=$(dirname "$(dirname "$CASE_FOLDER")")
export PYTHONPATH=$ROOT/compat/lib PYTHONDONTWRITEBYTECODE=1

fail() {
    echo "$CASE: $*" >&2
    exit 1
}

# toolchain COMMAND…: what is not ours to install.
toolchain() {
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null && continue
        if [ "${SKIP_MISSING:-0}" = 1 ]; then
            echo "$CASE: skipped, there is no $command"
            exit 77
        fi
        fail "there is no $command; install it, or set SKIP_MISSING=1 to go on without this case"
    done
}

# apsw: PYTHON_APSW is a Python whose SQLite is the newest that the clients are tested with.
apsw() {
    "$ROOT/scripts/need" python3-venv
    local venv=$ROOT/build/compat/venv wanted=$ROOT/clients/python-apsw/requirements.txt
    export PYTHON_APSW=$venv/bin/python
    cmp -s "$wanted" "$venv/stamp" && return
    "$PYTHON" -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$venv/stamp"
}

# empty_directory: goes into one, which is left for a look afterwards.
empty_directory() {
    rm -rf "$CASE_BUILD/data"
    mkdir -p "$CASE_BUILD/data"
    cd "$CASE_BUILD/data"
}

"$ROOT/scripts/need" python3 sqlite3
