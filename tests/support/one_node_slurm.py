"""A Slurm of one machine, without systemd and accounting: munged, slurmctld and slurmd of the distribution."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
CONFIGURATION = Path(
    "/etc/slurm/slurm.conf"
)  # where jobs look for it: Snakemake takes SLURM_CONF out of their environment
PATIENCE = 60


def lacking() -> str | None:
    """Return why no Slurm can be started here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"Slurm is not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "Slurm is started by root only"
    if CONFIGURATION.exists():
        return f"Slurm is set up on this machine ({CONFIGURATION})"
    return None


@contextmanager
def slurm(folder: Path) -> Iterator[None]:
    """Start a cluster of this machine as its one node, its state in `folder`; end it and what it runs."""
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    (folder / "munge").chmod(0o700)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host, memory = socket.gethostname().partition(".")[0], psutil.virtual_memory().total >> 20
    conf = folder / "slurm.conf"
    conf.write_text(f"""
ClusterName=feedrate
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
DefMemPerCPU={memory // 2 // os.cpu_count()}
MinJobAge=86400
UnkillableStepTimeout=600
SchedulerParameters=batch_sched_delay=0,sched_interval=2
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory={memory * 9 // 10}
PartitionName=local Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")
    CONFIGURATION.parent.mkdir(exist_ok=True)
    CONFIGURATION.symlink_to(conf)
    try:
        run(
            "munged", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge/seed",
        )  # fmt: skip
        run("slurmctld", "-f", str(conf))
        run("slurmd", "-f", str(conf))
        awaited(lambda: "idle" in run("sinfo", "-h", "-o", "%T"), "a node that is idle")
        try:
            yield
        except BaseException as error:
            error.add_note(f"Slurm says:\n{run('scontrol', 'show', 'node')}\n{run('scontrol', 'show', 'job')}")
            raise
    finally:
        if (folder / "slurmctld.pid").exists():
            subprocess.run(["scancel", "--user", "root"], check=False)
        for name in ("slurmd", "slurmctld", "munged"):
            end(folder / f"{name}.pid")
        CONFIGURATION.unlink()


def run(*command: str) -> str:
    """Return what a command said; it must end well."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


def jobs() -> list[dict[str, str]]:
    """Return what Slurm knows of the jobs of the last minutes, by its own names."""
    blocks = run("scontrol", "show", "job").split("\n\n")
    return [dict(word.split("=", 1) for word in block.split() if "=" in word) for block in blocks if "JobId=" in block]


def awaited(scenario, what: str, seconds: float = PATIENCE) -> None:
    """Return once the scenario holds; fail after so many seconds."""
    end_of_patience = time.monotonic() + seconds
    while not scenario():
        assert time.monotonic() < end_of_patience, f"waited {seconds} s for {what}"
        time.sleep(0.1)


def end(pid_file: Path) -> None:
    """End the process whose number is in the file, if there is one."""
    if pid_file.exists() and psutil.pid_exists(number := int(pid_file.read_text())):
        process = psutil.Process(number)
        process.terminate()
        try:
            process.wait(10)
        except psutil.TimeoutExpired:
            process.kill()


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
