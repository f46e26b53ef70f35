"""The image: linted, the same for every engine, and what Snakemake runs its jobs in where it is asked to."""

import json
import os
import re
import shlex
import stat
import subprocess

import yaml

from tests.support.built_image import DOCKERFILE, instructions
from tests.support.programs import PROJECT
from tests.support.workflow_copy import ProjectCopy, folders

TEXT = DOCKERFILE.read_text(encoding="utf-8")
DEFINITION = (PROJECT / "envs" / "feedrate.def").read_text(encoding="utf-8")
# Stands in for Apptainer: notes what it is asked for, and runs the command as it is.
STANDIN = """#!/bin/sh
[ "$1" = --version ] && { echo apptainer version 1.3.4; exit; }
echo "$@" >> "$NOTED"
while [ "$1" != python ] && [ "$1" != bash ] && [ "${1##*/}" != bash ] && [ "${1##*/}" != sh ]; do shift; done
exec "$@"
"""


def test_hadolint_finds_nothing():
    done = subprocess.run(["hadolint", DOCKERFILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def packages(text: str) -> list[str]:
    return re.search(r"--no-install-recommends\s+\\?\s*([a-z0-9 -]+)", text)[1].split()


def test_both_recipes_make_the_same():
    base = dict(instructions(TEXT))["FROM"]
    assert f"From: {base}\n" in DEFINITION and re.fullmatch(r"debian:\d+\.\d+-slim", base)
    assert packages(TEXT.replace("\\\n", " ")) == packages(DEFINITION.replace("\\\n", " "))
    copied = {name for kind, line in instructions(TEXT) if kind == "COPY" for name in line.split()[1:-1]}
    assert copied == {line.split()[0] for line in re.search(r"%files\n(.*?)\n\n", DEFINITION, re.S)[1].splitlines()}
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert kept == copied, "what is copied is in the context"


def test_the_image_has_what_the_scripts_of_the_system_would_install():
    missing = (PROJECT / "envs" / "system_packages.sh").read_text() + (PROJECT / "envs" / "test_browser.sh").read_text()
    wanted = set(re.findall(r'missing="\$missing (\w[\w-]*)"', missing)) | {"chromium", "poppler-utils"}
    assert {"ffmpeg", "fio"} < wanted <= set(packages(TEXT.replace("\\\n", " ")))


def test_the_dev_container_is_the_image_as_its_user():
    found = json.loads((PROJECT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    folder = PROJECT / ".devcontainer"
    assert (folder / found["build"]["dockerfile"]).resolve() == DOCKERFILE
    assert (folder / found["build"]["context"]).resolve() == PROJECT
    assert f" {found['remoteUser']};" in TEXT and found["workspaceFolder"] == "/work"
    assert any(word.startswith("--shm-size=") for word in found["runArgs"])


def test_every_job_runs_in_the_container_that_is_asked_for(monkeypatch):
    with folders() as (disk, ram):
        project = ProjectCopy(disk / "project", ram, loaders=["npy"])
        image = project.root / "feedrate.sif"
        image.write_bytes(b"")
        bin_folder = disk / "bin"
        bin_folder.mkdir()
        for name in ("apptainer", "singularity"):
            (bin_folder / name).write_text(STANDIN)
            (bin_folder / name).chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", os.pathsep.join([str(bin_folder), os.environ["PATH"]]))
        monkeypatch.setenv("NOTED", str(disk / "noted"))
        project.configure(container=str(image))
        project.snakemake("--cores", "2", "results/clips/demo/clips.json", "--sdm", "apptainer")
        noted = [shlex.split(line) for line in (disk / "noted").read_text().splitlines() if "exec" in line]
        assert noted and all(str(image) in line for line in noted)
        ran = " ".join(" ".join(line) for line in noted)
        assert "scripts.prepare" in ran
        assert yaml.safe_load((project.root / "config.yaml").read_text())["container"] == str(image)
