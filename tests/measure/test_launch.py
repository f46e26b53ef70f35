"""One launcher: forks of a warm server and interpreters, whole, with nothing left whatever is killed."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from scripts.common.corpus import Corpus
from scripts.common.files import read_json
from scripts.machine.folders import location_of
from scripts.measure import launch, one_run, warm
from scripts.measure.sampler import Sampler
from scripts.plan.results import Result
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line

# A Snakemake as its processes see it: it starts each line as a job, all at once, and ends when it is told to.
SNAKEMAKE = """
import subprocess, sys
jobs = [subprocess.Popen(["sh", "-c", line.rstrip()]) for line in open(sys.argv[1])]
print(*(job.wait() for job in jobs), flush=True)
sys.stdin.read()
"""
WHOLE = """from contextlib import contextmanager
from scripts.common import plugins
FORMAT = "memmap"
OPTIONS = {{"gather": {{"enum": ["batch", "item"], "default": "item"}}}}

@contextmanager
def open_epochs(request):
    {first}
    with plugins.load("loaders", "numpy_memmap").open_epochs(request) as epoch:
        yield epoch
"""
# It waits beside a worker that would wait for ever, as those of some libraries do.
WAITING = "import os, pathlib, time; os.fork() and pathlib.Path({path!r}).write_text(str(os.getpid())); time.sleep(600)"
CRASHING = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """A corpus and a format of it."""
    folder = tmp_path_factory.mktemp("proofs")
    corpus = make_corpus(folder / "corpus", items=40, seconds=0.1)
    write_format(corpus, "memmap", folder / "memmap", readers=1)
    return folder


def job(placed, out: Path, first: str = "pass") -> str:
    """Return the command of a proof by a loader that does `first` when it is opened."""
    out.parent.mkdir(exist_ok=True)
    (out.parent / "mine.py").write_text(WHOLE.format(first=first))
    asked = ["--loader", "mine", "--file", out.parent / "mine.py", "--data", placed / "memmap", "--mode", "proof"]
    asked += ["--corpus", placed / "corpus", "--out", out, "--settings", '{"batch_size": 8}']
    line = [*program_line("run_loader"), *map(str, asked)]
    return f"{shlex.join(line)} > {out}.log 2>&1"


@contextmanager
def call(tmp_path, *jobs):
    """Run jobs below a Snakemake; give its process, that prints how they ended and waits for its stdin to end."""
    program, lines = tmp_path / "snakemake", tmp_path / "jobs"
    program.write_text(SNAKEMAKE)
    lines.write_text("\n".join(jobs) + "\n")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, program, lines], cwd=PROJECT, **pipes) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        finally:
            process.stdin.close()


def servers(process) -> list[psutil.Process]:
    """Return the proof servers of a call, without their forks."""
    found = [
        one
        for one in psutil.process_iter(["cmdline", "ppid"])
        if "--serve" in (one.info["cmdline"] or ()) and json.loads(one.info["cmdline"][-1])["call"] == process.pid
    ]
    return [one for one in found if one.info["ppid"] not in {other.pid for other in found}]


def until(true, seconds=60.0):
    """Return what `true` returns once it is true."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
    return found


def test_proofs_of_a_call_are_whole_and_forks_of_one_server_that_ends_when_nobody_asks(placed, tmp_path):
    outs = [tmp_path / str(number) / "proof.json" for number in range(3)]
    with call(tmp_path, *(job(placed, out, "print('to its own log')") for out in outs)) as process:
        assert process.stdout.readline().split() == ["0", "0", "0"]
        assert len(servers(process)) == 1
        until(lambda: not servers(process))
    for out in outs:
        record = read_json(out)
        assert (record["status"], record["started_by"], record["verification"]["ok"]) == ("ok", "fork", True)
        assert record["verification"]["delivered"] == record["verification"]["expected"] > 0
        assert Path(f"{out}.log").read_text() == "to its own log\n"


def test_what_snakemake_does_not_run_has_an_interpreter_of_its_own_whose_crash_is_a_row(placed, tmp_path):
    out = tmp_path / "one" / "proof.json"
    subprocess.run(job(placed, out, CRASHING), shell=True, check=True, cwd=PROJECT)
    assert (read_json(out)["status"], read_json(out)["reason_code"]) == ("failed", "crashed")


@pytest.mark.parametrize("killed", ["call", "asker", "server"])
def test_whatever_is_killed_nothing_is_left_at_work(placed, tmp_path, killed):
    """When the server is, the proof is made by an interpreter of its own."""
    out, number = tmp_path / "one" / "proof.json", tmp_path / "number"
    first = f"import os; os.path.exists({str(number)!r}) or exec({WAITING.format(path=str(number))!r})"
    with call(tmp_path, job(placed, out, first)) as process:
        fork = psutil.Process(int(until(lambda: number.exists() and number.read_text())))
        [server], [worker] = servers(process), fork.children()
        assert fork.ppid() == server.pid
        assert not [one for one in worker.net_connections("unix") if one.laddr.startswith("@feedrate")]
        [asker] = [one for one in process_below(process) if "scripts.measure.run_loader" in one.cmdline()]
        os.kill({"call": process.pid, "asker": asker.pid, "server": server.pid}[killed], signal.SIGKILL)
        until(lambda: not fork.is_running() or fork.status() == psutil.STATUS_ZOMBIE)
        until(lambda: not servers(process))
        if killed == "server":
            assert process.stdout.readline().split() == ["0"]
            assert read_json(out)["started_by"] == "interpreter"
            assert "the warm server ended: this proof has an interpreter of its own" in Path(f"{out}.log").read_text()
        else:
            until(lambda: not asker.is_running() or asker.status() == psutil.STATUS_ZOMBIE)
            assert not out.exists()
        until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)


def process_below(process) -> list[psutil.Process]:
    """Return what a process has started, and what that has."""
    return psutil.Process(process.pid).children(recursive=True)


def test_another_number_of_threads_is_another_server():
    names = {warm.Server(threads, call=os.getpid()).name for threads in (1, 2)}
    assert len(names) == 2 and warm.Server(1, call=os.getpid()).name in names


# A job, by a fork or by an interpreter


@pytest.fixture(scope="module")
def server(placed):
    """A warm server as a session has it."""
    made = warm.Server(1, (8, Corpus(placed / "corpus").sample))
    yield made
    made.close()


def done(
    placed, folder: Path, first: str, minutes=None, server=None, mode="proof", settings=(), **more
) -> tuple[launch.Ended, Sampler]:
    """Do the proof of a loader that does `first`, or what `mode` says; return how it ended, and who looked at it."""
    (folder / "mine.py").write_text(WHOLE.format(first=first))
    location = location_of(placed / "memmap").as_json()
    result = Result(loader="mine", file=str(folder / "mine.py"), location=location, mode=mode, threads=1)
    settings = {"batch_size": 8, **dict(settings)}
    result = replace(result, corpus=str(placed / "corpus"), settings=settings, path=str(folder / "proof.json"))
    asked = launch.Job(one_run.completed_result(one_run.loader_of(result), result), 1, **more)
    watch = Sampler(gpu=False)
    return launch.run(asked, watch, server, minutes), watch


ENDS = {
    "ends": ("pass", None, (0, None)),
    "crashes": (CRASHING, None, (-signal.SIGSEGV, "crashed")),
    "takes too long": ("import time; time.sleep(600)", 0.1, (None, "no-end")),
    "fails": ("raise SystemExit(3)", None, (3, "lost")),
    "is ended": ("import os; os.kill(os.getpid(), 15)", None, (-signal.SIGTERM, "lost")),
}


@pytest.mark.parametrize("fork", [True, False], ids=["fork", "interpreter"])
@pytest.mark.parametrize(("first", "minutes", "ended"), ENDS.values(), ids=ENDS)
def test_it_is_known_how_a_job_ended(placed, tmp_path, server, fork, first, minutes, ended):
    found, watch = done(placed, tmp_path, first, minutes, server if fork else None)
    assert (found.status, found.cause) == ended
    assert (found.record is not None) == (found.status == 0)
    assert found.status is not None or watch.samples


def test_the_end_of_an_interpreter_is_seen_without_pidfd(placed, tmp_path, monkeypatch):
    def refused(_process):
        raise OSError

    monkeypatch.setattr(os, "pidfd_open", refused)
    assert done(placed, tmp_path, CRASHING)[0].cause == "crashed"


def test_an_interpreter_joins_its_groups_and_has_its_environment(placed, tmp_path):
    (tmp_path / "cgroup.procs").touch()  # as a folder of the kernel has it
    first = "import os; assert os.environ['ASKED'] == 'so' and os.environ['OMP_NUM_THREADS'] == '1'"
    found, _ = done(placed, tmp_path, first, groups=[str(tmp_path)], environment={"ASKED": "so"})
    assert found.status == 0 and found.record["status"] == "ok"
    assert (tmp_path / "cgroup.procs").read_text() == "0\n"


DAEMON = """
import os, pathlib, subprocess, sys, time
number = pathlib.Path({number!r})
work = "import os, pathlib, sys, time\\nheld = bytearray(os.urandom(60_000_000))\\n"
work += "pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))\\nwhile True: pass"
if os.fork() == 0:
    os.setsid()
    if {program}:
        subprocess.Popen([sys.executable, "-c", work, str(number)], env={{}}, start_new_session=True)
    elif os.fork() == 0:
        sys.argv = ["", str(number)]
        exec(work)
    os._exit(0)
os.wait()
while not (number.exists() and number.read_text()):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("fork", [True, False], ids=["fork", "interpreter"])
@pytest.mark.parametrize("program", [True, False], ids=["program", "forked"])
def test_a_helper_that_leaves_its_tree_is_seen_with_it_and_ends_with_it(placed, tmp_path, server, fork, program):
    """By two forks, a session of its own and an empty environment."""
    number = tmp_path / "number"
    first = f"exec({DAEMON.format(number=str(number), program=program)!r}, {{}})"
    found, watch = done(placed, tmp_path, first, 5, server if fork else None, mode="epochs")
    assert found.record["status"] == "ok"
    began, ended = (found.record["sampled"][edge] for edge in ("begin", "end"))
    inside = [sample for sample in watch.samples if began <= sample.time <= ended]
    assert {sample.processes for sample in inside} == {2}
    assert min(sample.private_bytes for sample in inside) > 60_000_000
    until(lambda: not psutil.pid_exists(int(number.read_text())), 5)


@pytest.mark.parametrize("fork", [True, False], ids=["fork", "interpreter"])
def test_a_helper_that_no_sample_has_seen_ends_with_its_job(placed, tmp_path, server, fork, monkeypatch):
    monkeypatch.setattr(Sampler, "end_left", lambda _: None)
    number = tmp_path / "number"
    first = f"exec({DAEMON.format(number=str(number), program=True)!r}, {{}}); os._exit(1)"
    done(placed, tmp_path, first, None, server if fork else None, mode="epochs")
    until(lambda: not psutil.pid_exists(int(number.read_text())), 5)


THREADS = """
import hashlib, threading, time

def work(block=bytes(2_000_000)):
    while True:
        hashlib.sha256(block)  # without the interpreter's lock
        time.sleep(0.01)

for _ in range(5):
    threading.Thread(target=work, daemon=True).start()
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@pytest.mark.parametrize(
    ("first", "workers", "least"), [("pass", 0, 0), ("pass", 1, 1), (THREADS, 0, 5), (THREADS, 1, 6)]
)
def test_the_threads_that_work_for_a_loader_are_counted_whatever_its_workers(
    placed, tmp_path, server, first, workers, least
):
    """The queues of a worker have three threads, which work where batches are tiny; what only waits is not counted."""
    settings = {"workers": workers, "prefetch": 2}
    found, _ = done(placed, tmp_path, f"exec({first!r}, {{}})", None, server, "epochs", settings)
    assert found.record["resources"]["loader_threads"] in range(least, least + 1 + 3 * workers)


def test_a_server_that_is_killed_is_another_one_for_the_next_job(placed, tmp_path, server):
    assert done(placed, tmp_path, "pass", server=server)[0].status == 0
    first = server.process
    found, _ = done(placed, tmp_path, f"import os, time; os.kill({first.pid}, 9); time.sleep(600)", server=server)
    assert (found.status, found.cause) == (None, "no-server") and "status -9" in found.reason
    assert done(placed, tmp_path, "pass", server=server)[0].status == 0 and server.process is not first


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_told_to_end_or_killed_ends_its_job(placed, tmp_path, told):
    out, number = tmp_path / "one" / "proof.json", tmp_path / "number"
    line = job(placed, out, WAITING.format(path=str(number)))
    process = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=PROJECT)
    worker = psutil.Process(int(until(lambda: number.exists() and number.read_text())))
    process.send_signal(told)
    assert process.wait(300) == (-told if told == signal.SIGKILL else 128 + told)
    assert [path.name for path in out.parent.iterdir() if "proof" in path.name] == ["proof.json.log"]
    until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE)


PARENT = """
import os, sys, time
if os.fork():
    os.waitpid(-1, 0)
open(f"/dev/shm/torch_{os.getpid()}_1_0", "x").close()
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_what_torch_has_left_in_ram_goes_with_its_processes():
    pipes = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True, **pipes) as started:
        worker = int(started.stdout.readline())
        left, of_another = (Path(f"/dev/shm/torch_{number}_1_0") for number in (worker, os.getpid()))
        of_another.touch()
        try:
            launch.end(started.pid)
            assert not left.exists() and of_another.exists()
        finally:
            of_another.unlink()
    assert not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE
    launch.end(started.pid)  # one that is gone is no error
