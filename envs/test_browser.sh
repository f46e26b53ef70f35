#!/bin/sh
# Sees to a Chromium, in which the tests open the report. Where it cannot be installed it says so, and those tests are
# skipped with their reason: nothing else needs a browser.
set -eu

for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    sudo=none
fi
if [ "$sudo" != none ] && command -v apt-get >/dev/null; then
    echo "Installing chromium through apt, for the tests of the report ..."
    $sudo apt-get update -qq &&
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null &&
        exit 0
fi
echo "note: no Chromium: the tests that open the report in a browser are skipped. Ask for:  apt-get install chromium"
