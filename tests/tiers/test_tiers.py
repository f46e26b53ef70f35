"""Tiers: every kind keeps its contract; the device behind a path is found in planted machines; fio really reads."""

import functools
import inspect
import json
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from scripts.common import location, plugins
from scripts.common.errors import UserError
from scripts.common.files import read_json, tree_size
from scripts.common.location import Location
from scripts.machine import control_groups, copies, devices, emulation, fio
from scripts.machine.folders import location_of
from scripts.prepare import place_format, profile_tier
from tests.support import small_disks
from tests.support.programs import program_line

MEBIBYTE = 1024 * 1024
MEASURED = {"block_bytes", "reads", "seconds", "megabytes_per_second", "reads_per_second"}
MEASURED |= {"readers", "mean_latency_ms", "p99_latency_ms"}


class Machine:
    """A planted /proc and /sys, with one file system mounted at a real folder."""

    def __init__(self, root):
        self.proc, self.sys = root / "proc", root / "sys"
        self.folder = root / "a tier"
        (self.proc / "self").mkdir(parents=True)
        (self.sys / "dev" / "block").mkdir(parents=True)
        (self.sys / "class" / "block").mkdir(parents=True)
        self.folder.mkdir()
        self.lines = ["1 0 0:1 / / rw,relatime - rootfs rootfs rw"]

    def mount(self, device, filesystem, source, options="rw,noatime", inner="rw", at=None):
        point = str(at or self.folder).replace(" ", "\\040")
        self.lines.append(
            f"{len(self.lines) + 1} 1 {device} / {point} {options} shared:7 - {filesystem} {source} {inner}"
        )
        (self.proc / "self" / "mountinfo").write_text("\n".join(self.lines) + "\n")

    def disk(self, name, number, rotational="0", scheduler="[none] mq-deadline", slaves=(), **device):
        folder = self.sys / "devices" / name
        (folder / "queue").mkdir(parents=True)
        (folder / "queue" / "rotational").write_text(rotational + "\n")
        (folder / "queue" / "scheduler").write_text(scheduler + "\n")
        (folder / "slaves").mkdir()
        for slave in slaves:
            (folder / "slaves" / slave.name).symlink_to(slave)
        if device:
            (folder / "device").mkdir()
            for key, value in device.items():
                (folder / "device" / key).write_text(value + "\n")
        return self._register(folder, number)

    def partition(self, disk, name, number):
        folder = disk / name
        folder.mkdir()
        (folder / "partition").write_text("1\n")
        return self._register(folder, number)

    def _register(self, folder, number):
        (self.sys / "dev" / "block" / number).symlink_to(folder)
        (self.sys / "class" / "block" / folder.name).symlink_to(folder)
        return folder

    def describe(self, path=None):
        return devices.describe(path or self.folder, self.proc, self.sys)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_nvme_partition(machine):
    disk = machine.disk("nvme0n1", "259:0", model="Samsung SSD 990 PRO 2TB")
    machine.partition(disk, "nvme0n1p2", "259:2")
    machine.mount("259:2", "ext4", "/dev/nvme0n1p2", inner="rw,discard")
    assert machine.describe() == {
        "path": str(machine.folder),
        "filesystem": "ext4",
        "kind": "nvme",
        "device": "nvme0n1",
        "model": "Samsung SSD 990 PRO 2TB",
        "rotational": False,
        "scheduler": "none",
        "mount_point": str(machine.folder),
        "mount_options": "rw,noatime,discard",
    }


@pytest.mark.parametrize(
    ("name", "rotational", "attributes", "kind"),
    [
        ("sda", "0", {"model": "Crucial MX500", "vendor": "ATA"}, "ssd"),
        ("sdb", "1", {"model": "ST8000NM000A", "vendor": "ATA"}, "hdd"),
        ("mmcblk0", "0", {}, "ssd"),
        ("vda", "1", {}, "virtual"),
        ("xvda", "0", {}, "virtual"),
        ("sdc", "1", {"model": "QEMU HARDDISK", "vendor": "ATA"}, "virtual"),
        ("sdd", "1", {"model": "Virtual Disk", "vendor": "Msft"}, "virtual"),
        ("nvme1n1", "0", {"model": "Amazon Elastic Block Store"}, "network"),
        ("nvme2n1", "0", {"model": "Linux", "transport": "tcp"}, "network"),
        ("nbd0", "0", {}, "network"),
        ("zram0", "0", {}, "ram"),
    ],
)
def test_disks(machine, name, rotational, attributes, kind):
    machine.disk(name, "8:0", rotational=rotational, scheduler="none [mq-deadline]", **attributes)
    machine.mount("8:0", "xfs", f"/dev/{name}")
    found = machine.describe()
    assert found["kind"] == kind and found["device"] == name
    assert found["scheduler"] == "mq-deadline" and found["rotational"] is (rotational == "1")
    assert found["model"] == attributes.get("model")


@pytest.mark.parametrize(
    ("filesystem", "source", "kind"),
    [
        ("tmpfs", "tmpfs", "ram"),
        ("ramfs", "none", "ram"),
        ("nfs4", "server:/export", "network"),
        ("cifs", "//server/share", "network"),
        ("lustre", "10.0.0.1@tcp:/scratch", "network"),
        ("fuse.sshfs", "me@host:", "network"),
        ("overlay", "overlay", "overlay"),
        ("9p", "share", "virtual"),
        ("zfs", "tank/data", "unknown"),
        ("fuse.something", "something", "unknown"),
    ],
)
def test_file_systems_without_a_disk(machine, filesystem, source, kind):
    machine.mount("0:55", filesystem, source)
    found = machine.describe()
    assert (found["kind"], found["filesystem"], found["device"]) == (kind, filesystem, source)
    assert found["model"] is found["rotational"] is found["scheduler"] is None


def test_mapper_takes_its_slaves_disks(machine):
    disk = machine.disk("nvme0n1", "259:0", model="Fast")
    part = machine.partition(disk, "nvme0n1p3", "259:3")
    machine.disk("dm-0", "253:0", scheduler="none", slaves=[part])
    machine.mount("253:0", "ext4", "/dev/mapper/vg-home")
    found = machine.describe()
    assert (found["kind"], found["device"], found["model"]) == ("nvme", "nvme0n1", "Fast")


def test_raid_of_equal_disks_is_one_kind_and_of_mixed_ones_unknown(machine):
    one = machine.disk("sda", "8:0", rotational="1", model="A")
    two = machine.disk("sdb", "8:16", rotational="1", model="B")
    three = machine.disk("sdc", "8:32", rotational="0", model="C")
    machine.disk("md0", "9:0", slaves=[one, two])
    machine.disk("md1", "9:1", slaves=[one, three])
    machine.mount("9:0", "ext4", "/dev/md0")
    found = machine.describe()
    assert (found["kind"], found["device"], found["model"], found["rotational"]) == ("hdd", "sda, sdb", "A, B", True)
    machine.mount("9:1", "ext4", "/dev/md1")
    assert (machine.describe()["kind"], machine.describe()["rotational"]) == ("unknown", None)


def test_device_numbers_of_a_file_systems_own(machine):
    disk = machine.disk("nvme0n1", "259:0", model="Fast")
    machine.partition(disk, "nvme0n1p1", "259:1")
    machine.mount("0:40", "btrfs", "/dev/nvme0n1p1")
    assert machine.describe()["kind"] == "nvme"
    mapped = machine.disk("dm-3", "253:3", slaves=[disk])
    (mapped / "dm").mkdir()
    (mapped / "dm" / "name").write_text("luks-home\n")
    machine.mount("0:41", "btrfs", "/dev/mapper/luks-home")
    assert machine.describe()["device"] == "nvme0n1"


def test_longest_mount_point_wins_and_the_last_on_one_point_hides_the_others(machine):
    inner = machine.folder / "inner"
    machine.mount("0:50", "nfs", "server:/a")
    machine.mount("0:51", "ramfs", "hidden", at=inner)
    machine.mount("0:52", "tmpfs", "seen", at=inner)
    assert machine.describe(inner / "not" / "yet")["device"] == "server:/a"  # inner does not exist
    inner.mkdir()
    assert machine.describe(inner / "not" / "yet")["device"] == "seen"
    beside = machine.folder / "inner2"
    beside.mkdir()
    assert machine.describe(beside)["device"] == "server:/a"
    link = machine.folder.parent / "link"
    link.symlink_to(inner)
    assert devices.in_memory(link, machine.proc)
    assert not devices.in_memory(beside, machine.proc)


@pytest.mark.parametrize(
    ("tier", "kind", "warned"),
    [
        ("nvme", "nvme", False),
        ("nvme", "ssd", True),
        ("nvme", "overlay", True),
        ("my_nvme2", "virtual", True),
        ("ssd", "nvme", False),
        ("SSD", "hdd", True),
        ("hdd", "ssd", True),
        ("ram", "ram", False),
        ("ram", "virtual", True),
        ("ramdisk", "ram", False),
        ("framework", "nvme", False),
        ("disk", "virtual", False),
        ("disk", "overlay", False),
        ("disk", "unknown", False),
        ("disk", "ram", True),
        ("local_disk", "network", True),
        ("network", "network", False),
        ("network", "nvme", True),
        ("scratch", "hdd", False),
    ],
)
def test_a_tier_named_for_what_it_is_not_is_warned_of(tier, kind, warned):
    warnings = devices.misnamed(tier, kind)
    assert [warning["code"] for warning in warnings] == ["tier-misnamed"] * warned
    for warning in warnings:
        assert tier in warning["seen"] and kind in warning["seen"] and warning["cause"] and warning["hint"]


@pytest.mark.parametrize(("direct", "cached"), [("0", True), ("1", False)])
def test_a_loop_device_that_caches_its_own_file_is_never_cold(machine, direct, cached):
    loop = machine.disk("loop3", "7:3")
    (loop / "loop").mkdir()
    (loop / "loop" / "dio").write_text(f"{direct}\n")
    machine.mount("7:3", "ext4", "/dev/loop3")
    found = devices.cached_below(machine.folder, machine.proc, machine.sys)
    assert ("losetup --direct-io=on /dev/loop3" in found) is cached
    never = Location("file:///a", held_in=machine.folder, not_evicted=found).never("cold")
    assert (never is not None) is cached


@pytest.mark.parametrize(("kind", "count"), [("virtual", 1), ("overlay", 1), ("nvme", 0), ("ram", 0)])
def test_hidden_storage_is_told(kind, count):
    description = {"kind": kind, "path": "/data", "filesystem": "ext4", "device": "vda"}
    assert len(devices.hidden(description)) == count


@pytest.mark.parametrize("name", plugins.names("tiers"))
def test_every_kind_keeps_the_contract(name):
    kind = plugins.load("tiers", name)
    assert plugins.describe(kind)
    assert all("description" in schema for schema in kind.OPTIONS.values())
    for function in ("check", "location", "place", "profile"):
        assert callable(getattr(kind, function)) and getattr(kind, function).__doc__
    assert list(inspect.signature(kind.place).parameters) == ["options", "source", "location"]
    assert list(inspect.signature(kind.profile).parameters) == ["options", "item_bytes", "readers", "seconds"]


@pytest.fixture
def posix():
    return plugins.load("tiers", "posix")


def test_check_accepts_what_can_be_made(posix, tmp_path):
    posix.check({"path": str(tmp_path)})
    posix.check({"path": str(tmp_path / "not" / "yet")})
    assert list(tmp_path.iterdir()) == []


def test_check_tells_of_what_cannot_be_written(posix, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="which is not a folder"):
        posix.check({"path": str(tmp_path / "file" / "tier")})
    with pytest.raises(UserError, match="where no file can be written") as told:
        posix.check({"path": "/proc/nowhere/tier"})  # not even for root
    assert "Set another path" in str(told.value)


def test_read_only_mount_is_told(posix, tmp_path):
    with small_disks.or_skip(tmp_path, "1m,ro"), pytest.raises(UserError, match="read-only"):
        posix.check({"path": str(tmp_path / "tier")})


def test_a_location_says_what_lies_in_ram(posix, machine, monkeypatch):
    machine.mount("0:50", "ext4", "/dev/sda1")
    machine.mount("0:51", "tmpfs", "tmpfs", at=machine.folder.parent)
    monkeypatch.setattr(devices.in_memory, "__defaults__", (machine.proc,))
    assert not posix.location({"path": str(machine.folder)}, "not/yet").in_memory
    found = posix.location({"path": str(machine.folder.parent)}, "not/yet").split("train")
    path = machine.folder.parent / "not" / "yet" / "train"
    assert found == Location(uri=path.as_uri(), path=path, held_in=path, in_memory=True)
    assert location.from_json(json.loads(json.dumps(found.as_json()))) == found
    assert found.never("cold") == "files in RAM are never cold"
    assert found.unreadable(("path", "s3")) is None
    assert found.unreadable(("s3",)) == "it reads s3, and data on this tier is read by path"


def make_source(root, files=5):
    """Return a folder of files as a format would leave them, among them zeros, an empty file and an empty folder."""
    source = root / "source"
    (source / "train").mkdir(parents=True)
    (source / "validation").mkdir()
    for number in range(files):
        (source / "train" / f"{number:06}.npy").write_bytes(os.urandom(1000 + number))
    (source / "train" / "zeros.npy").write_bytes(bytes(5 * MEBIBYTE + 1))
    (source / "train" / "empty").write_bytes(b"")
    with open(source / "train" / "holes", "wb") as file:
        file.truncate(MEBIBYTE)
    return source


def contents(folder):
    """Return what each file and folder below `folder` holds, by its relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("where", ["disk", "memory", "anew"])
def test_place_has_every_byte_and_replaces(posix, tmp_path, where):
    source = make_source(tmp_path)
    out = tmp_path / "tier" / "demo" / "npy"
    with small_disks.or_skip(tmp_path / "tier", "64m") if where == "memory" else nullcontext():
        out.mkdir(parents=True)
        (out / "older").write_text("")
        (posix.place_anew if where == "anew" else posix.place)({}, source, location_of(out))
        assert contents(out) == contents(source)
        assert list(out.parent.iterdir()) == [out]
        same = {
            str(file.relative_to(source))
            for file in source.rglob("*.npy")
            if file.samefile(out / file.relative_to(source))
        }
        assert len(same) == (len(list(source.rglob("*.npy"))) if where == "disk" else 0), "one file, not written twice"
        for name in ("zeros.npy", "holes"):  # as many blocks as bytes: nothing was left out
            found = (out / "train" / name).stat()
            assert found.st_blocks * 512 >= found.st_size


def test_place_leaves_nothing_where_it_fails(posix, tmp_path, monkeypatch):
    source = make_source(tmp_path)
    tier = tmp_path / "tier"
    with small_disks.or_skip(tier, "2m"):
        with pytest.raises(UserError, match=r"needs 6,2\d\d,\d\d\d bytes"):
            posix.place({}, source, location_of(tier / "npy"))
        monkeypatch.setattr(copies, "free_bytes", lambda _: 10**12)
        with pytest.raises(UserError, match="ran full"):
            posix.place({}, source, location_of(tier / "npy"))
        assert list(tier.iterdir()) == []


def test_what_a_killed_call_has_left_takes_no_room_from_the_next_one(posix, tmp_path):
    source = make_source(tmp_path)
    tier = tmp_path / "tier"
    with small_disks.or_skip(tier, "9m"):
        (tier / ".npy.partial-1").mkdir()
        (tier / ".npy.partial-1" / "0").write_bytes(bytes(5 << 20))
        posix.place({}, source, location_of(tier / "npy"))
        assert [path.name for path in tier.iterdir()] == ["npy"]


def test_place_in_ram_counts_the_ram_that_is_left(posix, tmp_path, monkeypatch):
    source = make_source(tmp_path)
    tier = tmp_path / "tier"
    with small_disks.or_skip(tier, "64m"):
        assert 0 < devices.available_ram() < 2**50
        monkeypatch.setattr(devices, "available_ram", lambda: 1_000_000)
        with pytest.raises(UserError, match="where 1,000,000 are free"):
            posix.place({}, source, location_of(tier / "npy"))
        assert list(tier.iterdir()) == []


def test_place_below_a_file_is_told(posix, tmp_path):
    source = make_source(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="no folder can be made"):
        posix.place({}, source, location_of(tmp_path / "file" / "npy"))


def run_program(name, *arguments):
    """Run a program of scripts/ and return what came of it."""
    line = [*program_line(name), *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True)


def test_place_program_leaves_copy_and_record(tmp_path):
    source = make_source(tmp_path)
    options = json.dumps({"path": str(tmp_path / "tier")})
    out, record = tmp_path / "tier" / "demo" / "npy", tmp_path / "records" / "npy.json"
    arguments = ["--options", options, "--tier", "disk", "--format", "npy", "--source", source, "--copy", "demo/npy"]
    done = run_program("place_format.py", *arguments, "--record", record)
    assert (done.returncode, done.stderr) == (0, "")
    size, files = tree_size(source)
    seconds = read_json(record).pop("seconds")
    expected = {"record": "placement", "tier": "disk", "format": "npy", "bytes": size, "files": files}
    expected["uri"] = out.as_uri()
    assert read_json(record) == {**expected, "seconds": seconds} and seconds > 0
    assert contents(out) == contents(source)


def test_users_mistakes_are_told(tmp_path, monkeypatch):
    source = make_source(tmp_path)
    (tmp_path / "file").write_text("")
    blocked = json.dumps({"path": str(tmp_path / "file" / "tier")})
    good = json.dumps({"path": str(tmp_path / "tier")})
    wrong = json.dumps({"path": str(tmp_path / "tier"), "emulate": "hdd_5400"})
    places = ["--tier", "disk", "--copy", "out", "--record", tmp_path / "record.json", "--source"]
    profiles = ["--tier", "disk", "--out", tmp_path / "record.json", "--item-bytes"]
    for program, arguments, words in (
        (place_format, ["--options", blocked, *places, source], "tier 'disk': path"),
        (place_format, ["--options", good, *places, tmp_path / "none"], "found no folder"),
        (place_format, ["--options", good, "--kind", "posixx", *places, source], "Did you mean 'posix'?"),
        (place_format, ["--options", "{", *places, source], "which is not JSON"),
        (profile_tier, ["--options", blocked, *profiles, "1000"], "which is not a folder"),
        (profile_tier, ["--options", good, *profiles, "1000", "0"], "numbers above 0"),
        (profile_tier, ["--options", good, *profiles, "1000", "--readers", "2", "0"], "numbers above 0"),
        (profile_tier, ["--options", wrong, *profiles, "1000"], "Did you mean 'hdd_7200'?"),
        (profile_tier, ["--options", "{}", *profiles, "1000"], "found no path"),
        (profile_tier, ["--options", "[]", *profiles, "1000"], "allowed is a JSON object"),
    ):
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        with pytest.raises(UserError) as told:
            program.main()
        assert words in str(told.value)
    assert not (tmp_path / "tier" / "out").exists() and not (tmp_path / "record.json").exists()


needs_fio = pytest.mark.skipif(fio.shutil.which("fio") is None, reason="fio is not installed")


@pytest.fixture(params=["disk", "memory"])
def reading_folder(request, tmp_path):
    """A folder on the file system of the tests' own, and one in RAM."""
    if request.param == "disk":
        yield tmp_path
    else:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)


def measured_pairs(measured):
    """Return what was measured: pattern, readers and block of each job, in order."""
    return [(job["pattern"], job["readers"], job["block_bytes"]) for job in measured["reads"]]


@needs_fio
def test_fio_reads_at_the_sizes_of_items_with_several_readers(reading_folder):
    folder = reading_folder
    in_memory = devices.in_memory(folder)
    largest = 16 * MEBIBYTE
    measured, reason = fio.measure_reads(folder, [100_000, 4000], [3], 0.3, in_memory, largest_file=largest)
    assert reason is None
    assert measured["method"] in (("memory",) if in_memory else ("direct", "buffered"))
    assert measured["file_bytes"] == largest and measured["version"].startswith("fio")
    patterns = [("sequential", MEBIBYTE), ("random", 4096), ("random", 102_400)]
    asked = [(pattern, readers, block) for readers in (1, 3) for pattern, block in patterns]
    if measured["method"] == "direct":
        asked += [("positioned", readers, block) for readers in (1, 3) for block in (4096, 102_400)]
    assert measured_pairs(measured) == asked + [("readahead", 1, MEBIBYTE)] * (not in_memory)
    for job in (*measured["reads"], measured["sequential"], measured["random"]):
        assert set(job) >= MEASURED
        assert all(job[key] > 0 for key in MEASURED)
        bandwidth = job["reads_per_second"] * job["block_bytes"] / 1e6
        assert job["megabytes_per_second"] == pytest.approx(bandwidth, rel=0.05)
        assert job["method"] == ("buffered" if job["pattern"] in ("positioned", "readahead") else measured["method"])
    assert measured["sequential"] == measured["reads"][0]
    random = measured["reads"][2]
    assert measured["random"] == {**random, "items_per_second": random["reads_per_second"]}, "of the largest items"
    assert list(folder.iterdir()) == []


@needs_fio
def test_each_block_that_goes_through_the_page_cache_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(fio, "_allows_direct", lambda _: False)
    items = [4096 * 16, 4096 * 15 + 1]  # of the same block
    measured, _ = fio.measure_reads(tmp_path, items, [1, 2], 30, False, largest_file=16 * MEBIBYTE)
    assert measured["method"] == "buffered"
    assert measured_pairs(measured)[1:2] == [("random", 1, 65536)]
    assert [job["reads"] for job in measured["reads"]] == [16, 256, 16, 256, 16]


@needs_fio
def test_what_keeps_fio_from_measuring_is_a_reason(tmp_path, monkeypatch):
    too_large = fio.measure_reads(tmp_path, [8 * MEBIBYTE], [1], 1, False, largest_file=16 * MEBIBYTE)
    assert too_large[0] is None and "too little room" in too_large[1]
    too_many = fio.measure_reads(tmp_path, [4096], [5], 1, False, largest_file=16 * MEBIBYTE)
    assert too_many[0] is None and too_many[1].endswith("by 5 readers")
    failing = tmp_path / "fio"
    failing.write_text("#!/bin/sh\necho 'no such engine' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(fio.shutil, "which", lambda _: str(failing))
    failed = fio.measure_reads(tmp_path, [4096], [1], 1, False, largest_file=4 * MEBIBYTE)
    assert failed[0] is None and "no such engine" in failed[1]
    monkeypatch.setattr(fio.shutil, "which", lambda _: None)
    assert fio.measure_reads(tmp_path, [4096], [1], 1, False) == (None, "fio is not installed")
    assert list(tmp_path.iterdir()) == [failing]


def test_profile_without_fio_says_why(posix, tmp_path, monkeypatch):
    monkeypatch.setattr(fio.shutil, "which", lambda _: None)
    found = posix.profile({"path": str(tmp_path / "new")}, item_bytes=[1000], readers=[1], seconds=1)
    assert found["emulated"] is None and found["fio"] is None and found["reason"] == "fio is not installed"
    assert found["kind"] in devices.KINDS and 0 < found["free_bytes"] <= found["total_bytes"]


def test_presets_and_limits_of_ones_own():
    for name, preset in emulation.PRESETS.items():
        assert emulation.limits({"emulate": name}) == {"name": name, **preset}
        assert preset["read_mbps"] > 0 and preset["read_iops"] > 0 and preset["source"]
    own = emulation.limits({"emulate": {"read_mbps": 12.5}})
    assert (own["name"], own["read_mbps"], own["read_iops"]) == ("custom", 12.5, None)
    assert emulation.limits({"emulate": None}) is None and emulation.limits({}) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("hdd", 'emulate: found "hdd", allowed is one of "hdd_7200", "sata_ssd", "cloud_volume"'),
        ({}, "emulate: found an empty mapping"),
        (3, "emulate: found 3"),
        ({"read_mbs": 3}, "Did you mean 'read_mbps'?"),
        ({"read_mbps": 0}, "emulate.read_mbps: found 0"),
        ({"read_mbps": True}, "emulate.read_mbps: found true"),
        ({"read_mbps": 3, "read_iops": 0.5}, "emulate.read_iops: found 0.5"),
        ({"read_iops": float("nan")}, "emulate.read_iops: found NaN"),
    ],
)
def test_limits_that_are_none_are_told(posix, tmp_path, found, words):
    with pytest.raises(UserError) as told:
        posix.check({"path": str(tmp_path), "emulate": found})
    assert words in str(told.value) and "Write for example emulate: hdd_7200" in str(told.value)


@needs_fio
def test_an_emulated_tier_gets_its_limits(posix, tmp_path, monkeypatch):
    try:
        with control_groups.group(tmp_path, read_mbps=1000):
            pass
    except control_groups.NotPermitted as reason:
        pytest.skip(str(reason))
    monkeypatch.setattr(fio, "measure_reads", functools.partial(fio.measure_reads, largest_file=2**26))
    options = {"path": str(tmp_path), "emulate": {"read_mbps": 40, "read_iops": 200}}
    found = posix.profile(options, item_bytes=[4096], readers=[1, 2], seconds=1)
    assert found["reason"] is None
    assert found["emulated"] == {"name": "custom", "read_mbps": 40, "read_iops": 200, "source": "set in config.yaml"}
    for job in found["fio"]["reads"]:
        if job["pattern"] == "random":
            assert 0 < job["reads_per_second"] < 200 * 1.3
        else:
            assert 0 < job["megabytes_per_second"] < 40 * 1.3


@needs_fio
def test_storage_that_cannot_be_emulated_is_a_reason(posix):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        found = posix.profile({"path": folder, "emulate": "sata_ssd"}, item_bytes=[4096], readers=[1], seconds=0.1)
    assert found["fio"] is None and found["emulated"]["name"] == "sata_ssd"
    assert found["reason"].startswith("storage cannot be emulated: ") and "tmpfs" in found["reason"]


@needs_fio
def test_profile_program_leaves_a_record_with_warnings(tmp_path):
    tier = tmp_path / "tier"
    record = tier / "record.json"
    with small_disks.or_skip(tmp_path, "64m"):
        arguments = ["--tier", "nvme", "--options", json.dumps({"path": str(tier)}), "--item-bytes", 50_000, 20_000]
        done = run_program("profile_tier.py", *arguments, "--out", record, "--readers", 1, 2, "--seconds", 0.2)
        assert (done.returncode, done.stderr) == (0, "")
        found = read_json(record)
        assert (found["record"], found["tier"], found["kind"], found["filesystem"]) == ("tier", "nvme", "ram", "tmpfs")
        assert [warning["code"] for warning in found["warnings"]] == ["tier-misnamed"]
        assert found["fio"]["method"] == "memory" and found["fio"]["file_bytes"] == 16 * MEBIBYTE
        assert len(found["fio"]["reads"]) == 6 and found["emulated"] is None
        assert list(tier.iterdir()) == [record]
