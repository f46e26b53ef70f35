#!/bin/sh
# The command `feedrate`, which set-up copies into the environment: it runs the code of the checkout that it is typed in.
set -eu

root=$(pwd -P)
while [ -n "$root" ] && [ ! -f "$root/scripts/feedrate.py" ]; do
    root=${root%/*}
done
if [ -z "$root" ]; then
    echo "error: found no checkout of feedrate in $(pwd -P) or above it; allowed is a folder of one." \
        "Type cd with the path of yours, then the same command again." >&2
    exit 2
fi
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "$(dirname "$(readlink -f "$0")")/python" -P -m scripts.feedrate "$@"
