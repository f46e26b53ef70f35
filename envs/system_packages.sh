#!/bin/sh
# Sees to what pip cannot install: FFmpeg's libraries (torchcodec decodes with them) and fio (it profiles the tiers).
# Installs them through apt where it may; otherwise stops and says what to install.
set -eu

python=${PYTHON:-python3}
if ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    found=$("$python" --version 2>&1 || true)
    echo "error: found ${found:-no $python}, needed is Python 3.11 or newer with venv." >&2
    echo "Install it (apt-get install python3 python3-venv), or name another: make demo PYTHON=python3.12" >&2
    exit 1
fi

missing=
PATH=$PATH:/usr/sbin:/sbin  # ldconfig's place, which is not on every user's path
ldconfig -p 2>/dev/null | grep -q 'libavcodec\.so' || missing="$missing ffmpeg"
command -v ffmpeg >/dev/null || missing="$missing ffmpeg"
command -v fio >/dev/null || missing="$missing fio"
missing=$(echo "$missing" | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/^ *//; s/ *$//')
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    sudo=none
fi
if [ "$sudo" = none ] || ! command -v apt-get >/dev/null; then
    echo "error: not installed: $missing. Without root rights (or without apt) this cannot be fixed from here." >&2
    echo "Ask for:  apt-get install $missing" >&2
    echo "or use conda, which needs no root:" >&2
    echo "  conda create -n feedrate -c conda-forge -c bioconda snakemake=9.27.1 && conda activate feedrate" >&2
    echo "  snakemake --cores all --use-conda --config dataset=demo preset=quick" >&2
    exit 1
fi
echo "Installing $missing through apt ..."
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
