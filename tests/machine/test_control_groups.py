"""Control groups: the kernel really limits, nothing is left behind, and what is not permitted is a reason."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.machine import control_groups, page_cache
from tests.support.programs import PROJECT
from tests.support.workflow_copy import folders

pytestmark = pytest.mark.alone

MORE = 1.25  # times a limit that a short read may come to: the kernel lets some pass at once
BEGIN = """
import json, mmap, os, sys, time
from pathlib import Path
from scripts.machine import page_cache as cache
from scripts.machine import control_groups as groups
folders = json.loads(sys.argv[2])
groups.join(folders)
path = Path(sys.argv[1])
"""
READ_ALL = """
start = time.perf_counter()
with open(path, "rb", buffering=0) as file:
    while file.read(1 << 20):
        pass
print(time.perf_counter() - start)
"""
READ_BLOCKS = """
handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
start = time.perf_counter()
with mmap.mmap(-1, 4096) as block:
    for number in range(100):
        os.preadv(handle, [block], number * 65536)
print(time.perf_counter() - start)
"""
LEAVE_ROOM = """
held = bytearray(50_000_000)
with open(path, "rb", buffering=0) as file:
    file.readall()
before = cache.residency([path]).resident_bytes
room = groups.leave_room(folders, 16_000_000)
after = cache.residency([path]).resident_bytes
for _ in range(2):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 16):
            pass
print(json.dumps([room, before, after, cache.residency([path]).resident_bytes]))
"""


@pytest.fixture(scope="module")
def places():
    with folders() as found:
        yield found


@pytest.fixture(scope="module")
def file(places):
    """A file of 64 MB on a disk."""
    path = places[0] / "file"
    path.write_bytes(os.urandom(64_000_000))
    return path


def permitted(**wanted):
    """Skip the test where this machine allows no such group."""
    try:
        with control_groups.group(**wanted):
            pass
    except control_groups.NotPermitted as reason:
        pytest.skip(str(reason))


@pytest.fixture
def limits(file):
    permitted(reads_from=file, read_mbps=1000)
    page_cache.evict([file])


@pytest.fixture
def memory():
    permitted(memory=True)


def child(code, path, made):
    """Start a program in the groups."""
    command = [sys.executable, "-c", BEGIN + code, str(path), json.dumps(made)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(PROJECT)}, stdout=subprocess.PIPE, text=True)


def told(code, path, made):
    """Return what a program in the groups printed, as JSON."""
    with child(code, path, made) as process:
        output = process.communicate(timeout=300)[0]
    assert process.returncode == 0
    return json.loads(output)


def limits_of(made):
    """Return what the kernel says that it limits: a busy machine may read at less."""
    return re.split(r"[\s=]+", Path(made[0], "io.max").read_text())


def gone(made):
    return not Path(made[0]).exists()


@pytest.mark.usefixtures("limits")
def test_bytes_a_second_are_limited(file):
    with control_groups.group(file, read_mbps=40) as made:
        seconds = told(READ_ALL, file, made)
        assert "40000000" in limits_of(made)
    assert 64 / seconds < 40 * MORE
    assert gone(made)


@pytest.mark.usefixtures("limits")
def test_reads_a_second_are_limited(file):
    with control_groups.group(file, read_iops=50) as made:
        seconds = told(READ_BLOCKS, file, made)
        assert "50" in limits_of(made)
    assert 100 / seconds < 50 * MORE


@pytest.mark.usefixtures("limits")
def test_a_command_that_cannot_join_by_itself_runs_inside(file):
    with control_groups.group(file, read_mbps=40) as made:
        line = control_groups.command_inside(made, ["cat", "/proc/self/cgroup"])
        seen = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert Path(made[0]).name in seen
    assert control_groups.command_inside([], ["true"]) == ["true"]


@pytest.mark.usefixtures("memory")
def test_room_is_what_of_files_stays_in_the_cache(file):
    page_cache.evict([file])
    with control_groups.group(memory=True) as made:
        room, before, after, at_the_end = told(LEAVE_ROOM, file, made)
    size = file.stat().st_size
    assert before > 0.9 * size, "the group had no limit until then"
    assert after <= 17_000_000 and at_the_end <= 17_000_000, "one MB for the figures that the kernel gathers late"
    assert at_the_end > 4_000_000, "a limit, and not no cache at all"
    assert room["used_bytes"] > 50_000_000 and room["room_bytes"] == 16_000_000
    assert abs(room["limit_bytes"] - room["used_bytes"] - 16_000_000) <= page_cache.PAGE
    assert gone(made)


@pytest.mark.usefixtures("limits")
def test_no_group_is_left_after_its_process_was_killed_in_a_read(file):
    with control_groups.group(file, read_mbps=1) as made:
        process = child("print(1, flush=True)" + READ_ALL, file, made)
        assert process.stdout.readline() == "1\n"
        time.sleep(0.1)
        process.kill()
        process.communicate()
    assert gone(made)


@pytest.mark.usefixtures("memory")
def test_who_is_still_in_the_group_is_moved_out_of_it():
    with control_groups.group(memory=True) as made:
        process = child("print(1, flush=True); time.sleep(60)", "/", made)
        assert process.stdout.readline() == "1\n"
    try:
        assert gone(made) and process.poll() is None
        assert Path(f"/proc/{process.pid}/cgroup").read_text() == Path("/proc/self/cgroup").read_text()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("memory")
def test_a_group_whose_maker_was_killed_is_removed_by_the_next():
    code = "from scripts.machine.control_groups import group; g = group(memory=True); "
    code += "print(g.__enter__()[0], flush=True); input()"
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as maker:
        left = Path(maker.stdout.readline().strip())
        with control_groups.group(memory=True):
            assert left.is_dir(), "its maker is alive"
        maker.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with control_groups.group(memory=True):
        assert not left.exists()


@pytest.mark.parametrize("wanted", ["Path('/var/tmp'), read_mbps=10", "memory=True"])
def test_an_ordinary_user_is_told_what_it_takes(wanted):
    code = f"""
import os
from pathlib import Path
from scripts.machine import control_groups as groups
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
try:
    with groups.group({wanted}):
        print("permitted")
except groups.NotPermitted as reason:
    print(reason)
"""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if "no block device" in done.stdout or "cgroup v2" in done.stdout or "no controller" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.stdout.strip() == control_groups.NOT_WRITABLE
    assert "root" in control_groups.NOT_WRITABLE


def test_storage_without_a_block_device_is_a_reason(places):
    _, ram = places
    with (
        pytest.raises(control_groups.NotPermitted, match="is on tmpfs, which has no block device"),
        control_groups.group(ram, 10),
    ):
        pass


def test_a_group_for_nothing_is_our_mistake(tmp_path):
    for wanted in ({}, {"read_mbps": 3}, {"reads_from": tmp_path}):
        with pytest.raises(ValueError, match="a group limits"), control_groups.group(**wanted):
            pass


class Tree:
    """A planted machine: its mounts, the group that this process is in, one disk, and folders for groups.

    `files` are what the kernel would put into a new group.
    """

    def __init__(self, root, monkeypatch):
        self.proc, self.sys, self.cgroup, self.data = (root / name for name in ("proc", "sys", "cgroup", "data"))
        for folder in (self.proc / "self", self.sys / "dev" / "block", self.cgroup, self.data):
            folder.mkdir(parents=True)
        (self.proc / "self" / "mountinfo").write_text(f"1 0 8:2 / {self.data} rw - ext4 /dev/sda2 rw\n")
        self.files = ["cgroup.procs", "io.max", "memory.max"]
        disk = self.block("8:0", "sda")
        self.block("8:2", "sda/sda2")
        (disk / "sda2" / "partition").write_text("2\n")
        real = control_groups._make_folder

        def make_folder(parent):
            folder = real(parent)
            for name in self.files:
                (folder / name).touch()
            return folder

        monkeypatch.setattr(control_groups, "_make_folder", make_folder)
        monkeypatch.setattr(control_groups, "_remove_folder", shutil.rmtree)

    def block(self, number, name):
        folder = self.sys / "devices" / name
        folder.mkdir(parents=True)
        (folder / "dev").write_text(number + "\n")
        (self.sys / "dev" / "block" / number).symlink_to(folder)
        return folder

    def has(self, controllers, own=""):
        """Have these controllers, and this process in its own group; return the folder of that."""
        folder = self.cgroup / own
        folder.mkdir(parents=True, exist_ok=True)
        (self.proc / "self" / "cgroup").write_text(f"4:memory:/of/v1\n0::/{own}\n")
        (self.cgroup / "cgroup.controllers").write_text(controllers + "\n")
        return folder

    def group(self, **wanted):
        if "read_mbps" in wanted or "read_iops" in wanted:
            wanted["reads_from"] = self.data / "not" / "yet"
        return control_groups.group(**wanted, proc=self.proc, sys=self.sys, cgroup=self.cgroup)

    def refused(self, words, **wanted):
        """Ask for a group that is not permitted, for a reason with these words; nothing is left of it."""
        with pytest.raises(control_groups.NotPermitted, match=words), self.group(**wanted):
            pass
        assert not list(self.cgroup.rglob("feedrate-*"))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    return Tree(tmp_path, monkeypatch)


@pytest.fixture
def refuse(monkeypatch):
    """Let writes to some files fail, as the kernel does: a mapping of the path's end to a list of errors to come."""
    errors = {}
    real = Path.write_text

    def write_text(path, text, *rest, **more):
        for end, numbers in errors.items():
            if str(path).endswith(end) and numbers:
                number = numbers.pop()
                raise OSError(number, os.strerror(number))
        return real(path, text, *rest, **more)

    monkeypatch.setattr(Path, "write_text", write_text)
    return errors


def test_one_group_has_both_limits(tree):
    own = tree.has("cpu io memory")
    with tree.group(read_mbps=40, read_iops=50.4, memory=True) as made:
        assert Path(made[0]).parent == own
        assert (own / "cgroup.subtree_control").read_text() == "+io +memory"
        assert (Path(made[0]) / "io.max").read_text() == "8:0 rbps=40000000 riops=50\n", "the disk, not the partition"
        assert (Path(made[0]) / "cgroup.procs").read_text() == "0\n", "tried out"
    assert gone(made)


def test_a_group_with_processes_in_it_gives_no_controllers_to_groups_below(tree, refuse):
    own = tree.has("io memory", own="slice/scope")
    refuse["slice/scope/cgroup.subtree_control"] = [errno.EBUSY]
    with tree.group(read_mbps=40) as made:
        assert Path(made[0]).parent == own.parent, "the nearest one above it"
    (own.parent / "cgroup.subtree_control").unlink()
    refuse.update({"cgroup.subtree_control": [errno.EACCES, errno.EACCES, errno.EBUSY]})
    tree.refused("holds processes", read_iops=4)
    refuse.update({"cgroup.subtree_control": [errno.EACCES] * 3})
    tree.refused("not writable for this user", read_iops=4)


def test_what_the_machine_lacks_is_named(tree):
    tree.refused("no controllers of cgroup v2", memory=True)
    tree.has("memory")
    tree.refused("no controller for io here", read_mbps=1, memory=True)
    tree.has("io")
    tree.files.remove("io.max")
    tree.refused("io.max is missing", read_mbps=1)


@pytest.mark.parametrize("number", [errno.ENODEV, errno.EINVAL])
def test_a_device_that_the_kernel_does_not_limit_is_a_reason(tree, refuse, number):
    tree.has("io")
    refuse["io.max"] = [number]
    tree.refused("does not limit reads of device 8:0", read_mbps=1)


def test_a_group_that_nobody_may_join_is_a_reason(tree, monkeypatch):
    tree.has("memory")
    tree.files.remove("cgroup.procs")
    make = control_groups._make_folder

    def closed(parent):
        folder = make(parent)
        (folder / "cgroup.procs").mkdir()  # which not even root can write to
        return folder

    monkeypatch.setattr(control_groups, "_make_folder", closed)
    tree.refused("no process may be put into", memory=True)


def test_device_mapper_has_a_queue_of_its_own(tree):
    (tree.block("253:3", "dm-3") / "slaves").mkdir()
    (tree.proc / "self" / "mountinfo").write_text(f"1 0 253:3 / {tree.data} rw - xfs /dev/mapper/vg-data rw\n")
    assert control_groups.device_of(tree.data, tree.proc, tree.sys) == "253:3"


@pytest.mark.parametrize("filesystem", ["overlay", "nfs4", "tmpfs"])
def test_file_systems_without_a_device(tree, filesystem):
    (tree.proc / "self" / "mountinfo").write_text(f"1 0 0:44 / {tree.data} rw - {filesystem} server:/x rw\n")
    with pytest.raises(control_groups.NotPermitted, match=f"is on {filesystem}, which has no block device"):
        control_groups.device_of(tree.data, tree.proc, tree.sys)


def test_room_is_left_beside_what_is_used(tmp_path):
    kernel = {"current": 900, "max": "max", "swap.max": "max", "stat": "anon 5\nfile 400\nshmem 150"}
    for name, content in kernel.items():
        (tmp_path / f"memory.{name}").write_text(f"{content}\n")
    room = control_groups.leave_room([str(tmp_path)], 100)
    assert room == {"limit_bytes": 750, "used_bytes": 650, "room_bytes": 100, "version": 2}
    assert control_groups.leave_room([str(tmp_path)], 100, at_least=800)["limit_bytes"] == 900
    assert (tmp_path / "memory.swap.max").read_text() == "0\n"
