"""Runs the build steps of envs/Dockerfile in a root that debootstrap made, where no container engine is.

    python -m tests.support.built_image /var/tmp/root --then "make demo"

As root, with debootstrap installed. It shows that the steps work on that Debian, not that an engine builds the image.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.programs import PROJECT

DOCKERFILE = PROJECT / "envs" / "Dockerfile"
SUITES = {"12": "bookworm"}  # of Debian
INCLUDED = "ca-certificates"  # apt needs them where its mirrors are asked by https
STEP = re.compile(r"([A-Z]+)\s+(.*)")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield (instruction, arguments) of a Dockerfile, lines that go on joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        yield STEP.fullmatch(line.strip()).groups()


class Root:
    """A root file system, and what the instructions before have set."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.user, self.workdir = folder, "0", "/"
        self.variables: dict[str, str] = {}

    def build(self, text: str) -> None:
        """Take every instruction but the first, which has made the root.

        Raises CalledProcessError where one fails, and KeyError for one that is not known.
        """
        steps = {"FROM": lambda _: None, "RUN": self.run, "COPY": self._copy, "ARG": self._set, "ENV": self._set}
        steps |= {"USER": self._become, "WORKDIR": self._enter, "SHELL": lambda _: None, "CMD": lambda _: None}
        for name, arguments in instructions(text):
            print(f"{name} {' '.join(arguments.split())[:100]}", flush=True)
            steps[name](arguments)

    def run(self, command: str) -> None:
        """Run a command in the root, as the user and in the folder that are set."""
        environment = {name: value for name, value in os.environ.items() if re.match(r"PIP_|.*_proxy", name, re.I)}
        environment |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        home = "/root" if self.user == "0" else "/home/feedrate"
        environment |= {"HOME": home, **self.variables}
        inside = f"cd {shlex.quote(self.workdir)}\n{command}"
        chroot = [
            "/usr/sbin/chroot",
            f"--userspec={self.user}:{self.user}",
            str(self.folder),
            "/bin/sh",
            "-euc",
            inside,
        ]
        subprocess.run(chroot, env=environment, check=True)

    def made_from(self, image: str) -> None:
        """Make the root of an image of Debian."""
        release = re.fullmatch(r"debian:(\d+)[.\d]*-slim", image)[1]
        command = ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", SUITES[release], str(self.folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _copy(self, arguments: str) -> None:
        words = [word for word in arguments.split() if not word.startswith("--")]
        *sources, last = words
        into = self.folder / self.workdir.lstrip("/") / last
        for source in sources:
            target = into / source if last == "./" else into
            copy = shutil.copytree if (PROJECT / source).is_dir() else shutil.copy
            copy(PROJECT / source, target, **({"dirs_exist_ok": True} if copy is shutil.copytree else {}))
        self.own(into)

    def own(self, path: Path) -> None:
        """Give a folder to the user that is set."""
        subprocess.run(["chown", "-R", f"{self.user}:{self.user}", path], check=True)

    def _set(self, arguments: str) -> None:
        for word in shlex.split(arguments):
            name, _, value = word.partition("=")
            self.variables[name] = value.replace("$PATH", "/usr/local/bin:/usr/bin:/bin")

    def _become(self, user: str) -> None:
        self.user = user.replace("$UID", self.variables["UID"])

    def _enter(self, folder: str) -> None:
        self.workdir = folder
        path = self.folder / folder.lstrip("/")
        if not path.is_dir():
            path.mkdir(parents=True)


@contextmanager
def mounted(folder: Path, binds: list[Path]) -> Iterator[None]:
    """Mount what a container has: /proc, /sys, /dev and its /dev/shm; and `binds`, read-only."""
    with ExitStack() as stack:
        subprocess.run(["mount", "--bind", folder, folder], check=True)  # a root is a mount
        stack.callback(subprocess.run, ["umount", "--lazy", folder], check=True)
        for path in (Path("/proc"), Path("/sys"), Path("/dev"), Path("/dev/shm"), *binds):
            target = folder / path.relative_to("/")
            target.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--rbind" if path in binds else "--bind", path, target], check=True)
            stack.callback(subprocess.run, ["umount", "--lazy", target], check=True)
        yield


def main() -> None:
    """Build, and run a command in what was built."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the root is made; it must not exist")
    parser.add_argument("--then", help="command to run in a copy of the project, as the image's user")
    parser.add_argument("--bind", type=Path, action="append", default=[], help="folder of this machine, such as pip's")
    args = parser.parse_args()
    if args.folder.exists():
        raise SystemExit(f"error: found {args.folder}, allowed is a folder that does not exist. Name another one.")
    root = Root(args.folder.absolute())
    text = DOCKERFILE.read_text(encoding="utf-8")
    root.made_from(dict(instructions(text))["FROM"])
    shutil.copy("/etc/resolv.conf", root.folder / "etc" / "resolv.conf")
    with mounted(root.folder, [path.absolute() for path in args.bind]):
        root.build(text)
        if args.then:
            tracked = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True).stdout
            for name in tracked.decode().split("\0")[:-1]:
                target = root.folder / "work" / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(PROJECT / name, target)
            root.own(root.folder / "work")
            root.run(args.then)


if __name__ == "__main__":
    main()
