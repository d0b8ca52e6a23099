# `oneflush run -- python3`: the program below it is ordinary Python, and only its control asks whether Oneflush is there.
set -euo pipefail

exec "$ONEFLUSH_PROGRAM" run --strategy stock -- /usr/bin/python3 "$CLIENT_FOLDER/application.py"
