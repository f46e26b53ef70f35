"""`--use-conda` as far as it goes without conda: a stand-in answers Snakemake and notes what it is asked to make."""

import os
import re
import shutil
import subprocess
import sys

import yaml

from tests.support.programs import PROJECT
from tests.support.workflow_copy import LEFT_OUT

STAND_IN = """#!/bin/sh
case "$1 $2" in
    "info --json") echo '{{"conda_prefix": "{root}", "root_prefix": "{root}", "platform": "linux-64"}}' ;;
    "config --get") echo '{{"get": {{"channel_priority": "strict"}}}}' ;;
    "--version "*) echo "conda 25.1.1" ;;
    "env create")
        while [ $# -gt 0 ]; do
            case $1 in --file) file=$2 ;; --prefix) prefix=$2 ;; esac
            shift
        done
        mkdir -p "$prefix/conda-meta" && cp "$file" "{root}/asked/" ;;
esac
"""


def test_every_rule_finds_its_environment(tmp_path):
    """All environments that a full run needs are asked for, each with the pins of its file in envs/.

    A full run of what config.yaml ships, which downloads, asks for all but that of the other sources.
    """
    root = tmp_path / "conda"
    (root / "bin").mkdir(parents=True)
    (root / "asked").mkdir()
    (root / "bin" / "conda").write_text(STAND_IN.format(root=root))
    (root / "bin" / "conda").chmod(0o755)
    (root / "bin" / "activate").write_text("")
    project = shutil.copytree(PROJECT, tmp_path / "feedrate", ignore=LEFT_OUT)
    environment = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--use-conda", "--conda-create-envs-only"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    named = set(re.findall(r"envs/(\w+)\.yaml created", done.stdout + done.stderr))
    files = {path.stem: yaml.safe_load(path.read_text()) for path in (PROJECT / "envs").glob("*.yaml")}
    assert named == set(files)
    asked = [yaml.safe_load(path.read_text()) for path in (root / "asked").iterdir()]
    assert sorted(map(str, asked)) == sorted(map(str, files.values()))
