#!/bin/sh
# Sees to a Chromium, in which the tests open the report, and to pdftotext, which reads what it prints. Where they cannot
# be installed it says so, and those tests are skipped with their reason: nothing else needs them.
set -eu

missing=
command -v pdftotext >/dev/null || missing=poppler-utils
found=
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && found=$name
done
[ -n "$found" ] || missing="chromium${missing:+ $missing}"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    sudo=none
fi
if [ "$sudo" != none ] && command -v apt-get >/dev/null; then
    echo "Installing $missing through apt, for the tests of the report ..."
    # shellcheck disable=SC2086
    $sudo apt-get update -qq &&
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null &&
        exit 0
fi
echo "note: tests that open the report in a browser, or read its print, are skipped. Ask for:  apt-get install $missing"
