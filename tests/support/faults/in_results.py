"""Faults of tables, of the report and of the plan: records, tables and configs that are damaged or hostile."""

import json
import re
import shutil
import sys
from collections.abc import Callable

from scripts.common.errors import UserError
from scripts.plan.experiment import Plan
from scripts.plan.yaml_file import check_file
from tests.support.faults.project import PLAN, Done, Project, digest, remove
from tests.support.faults.registry import Outcome, fault
from tests.support.faults.shim import Shim, fails, kills
from tests.support.made_runs import example, make_results
from tests.support.programs import program_line

REFUSED = "it names the file, and what to delete or correct; what was there stays"
WHOLE_AGAIN = "nothing half is taken for whole; the same command makes it"
TABLES, REPORT = "results/tables/demo", "report/index.html"
OF_RUN, OF_CONTROL = (f"results/runs/demo/sessions/main-1/{place}/*/*/0.json" for place in ("ram", "bounds"))
FULL = r"No space left on device.*[Ff]ree some space"


def results(project: Project) -> None:
    """Put records there as sessions leave them, and their tables; they are made once."""
    shutil.rmtree(project.root / "results")
    kept = project.folder / "results"
    if not kept.exists():
        made, bounds = example()
        make_results(project.root, made, bounds)
        assert tables(project).status == 0
        shutil.copytree(project.root / "results", kept)
        return
    shutil.copytree(kept, project.root / "results")


def tables(project: Project, shim: Shim | None = None) -> Done:
    words = ["--plan", PLAN, "--root", ".", "--out", TABLES]
    return project.run([*program_line("make_tables"), *words], shim)


def report(project: Project, shim: Shim | None = None) -> Done:
    """Render the report; the figures, which no fault is about, are drawn once."""
    figures = project.folder / "figures"
    if not figures.exists():
        drawn = project.run([*program_line("draw_figures"), "--tables", TABLES, "--out", str(figures)])
        assert drawn.status == 0, drawn.output[-1000:]
    words = ["--tables", TABLES, "--figures", str(figures), "--out", REPORT]
    return project.run([*program_line("render_report"), *words], shim)


def in_tables(name: str, path: str, change: Callable[[bytes], bytes], says: str, short: bool = False) -> None:
    """Enter a file that tables are made of, damaged."""

    @fault(name, "tables", REFUSED, says, short)
    def _(project: Project) -> Outcome:
        results(project)
        before = digest(project.root / TABLES)
        file = sorted(project.root.glob(path))[0]
        file.write_bytes(change(file.read_bytes()))
        done = tables(project)
        return Outcome(done.output, half=digest(project.root / TABLES) != before, wrong=done.status == 0)


def changed(key: str, value: object) -> Callable[[bytes], bytes]:
    """Return what sets a key of a JSON file."""
    return lambda text: json.dumps({**json.loads(text), key: value}).encode()


DELETE = r"error: .*(Delete|Move) .*"
in_tables("a run's record cut", OF_RUN, lambda text: text[:300], DELETE, short=True)
in_tables("a run's record of bytes that are no text", OF_RUN, lambda text: b"\xff\xfe" + text, DELETE)
in_tables("a run's speed that is no number", OF_RUN, changed("items_per_second", "fast"), DELETE)
in_tables(
    "a run's speed that is not finite",
    OF_RUN,
    lambda text: re.sub(rb'("items_per_second": )[0-9.]+', rb"\1NaN", text),
    DELETE,
)
in_tables("a run's speed that is negative", OF_RUN, changed("items_per_second", -5.0), DELETE)
in_tables("another loader's record in a run's place", OF_RUN, changed("loader", "other"), DELETE)
in_tables("a control run's record cut", OF_CONTROL, lambda text: text[:100], DELETE)
in_tables("the plan cut", PLAN, lambda text: text[: len(text) // 2], DELETE)
in_tables(
    "a plan without its results",
    PLAN,
    lambda text: json.dumps({key: value for key, value in json.loads(text).items() if key != "results"}).encode(),
    DELETE,
)
in_tables("a format's record cut", "results/formats/demo/*.json", lambda text: text[:30], DELETE)
in_tables("a tier's profile cut", "results/placed/demo/*.json", lambda text: text[:30], DELETE)


def at_a_call(name: str, stage: str, make: Callable[..., Done], out: str, shim: Shim, says: str | None) -> None:
    """Enter a fault of writing tables or a report over older ones."""

    @fault(name, stage, WHOLE_AGAIN, says)
    def _(project: Project) -> Outcome:
        results(project)
        first = make(project)
        assert first.status == 0, first.output[-1000:]
        right = digest(project.root / out)
        done = make(project, shim)
        assert done.status == (2 if says else -9), done.output[-1000:]
        half = digest(project.root / out) not in (right, None, {})
        again = make(project)
        assert again.status == 0, again.output[-1000:]
        return Outcome(done.output, half=half + (digest(project.root / out) != right))


at_a_call("tables: killed between write and rename", "tables", tables, TABLES, kills("rename", "tables/demo"), None)
at_a_call("tables: disk full", "tables", tables, TABLES, fails("write", ".demo.partial", "ENOSPC"), FULL)
at_a_call(
    "tables: a record cannot be read",
    "tables",
    tables,
    TABLES,
    fails("read", "/0.json", "EIO"),
    r"0\.json.*Input/output error.*dmesg",
)
at_a_call("report: killed between write and rename", "report", report, REPORT, kills("rename", "index.html"), None)
at_a_call("report: disk full", "report", report, REPORT, fails("write", "index.html", "ENOSPC"), FULL)
at_a_call(
    "report: the tables cannot be read",
    "report",
    report,
    REPORT,
    fails("read", "ranking.csv", "EIO"),
    r"ranking\.csv.*Input/output error.*dmesg",
)


def in_report(name: str, path: str, change: Callable[[bytes], bytes]) -> None:
    """Enter a table that the report is made of, damaged."""

    @fault(name, "report", REFUSED, r"error: .*[Dd]elete ")
    def _(project: Project) -> Outcome:
        results(project)
        assert report(project).status == 0
        (project.root / REPORT).unlink()
        file = project.root / TABLES / path
        file.write_bytes(change(file.read_bytes()))
        done = report(project)
        return Outcome(done.output, half=(project.root / REPORT).exists())


in_report("a table cut in the middle of a row", "ranking.csv", lambda text: text[: int(len(text) * 0.7)])
in_report("a table of other columns", "ranking.csv", lambda text: text.replace(b"items_per_second", b"speed"))
in_report(
    "a number of a table that is none",
    "ranking.csv",
    lambda text: text.replace(b",cpu,", b",cpu,,x", 1).replace(b",ok,", b",ok,x", 1),
)
in_report("dataset.json cut", "dataset.json", lambda text: text[:50])


@fault("a report of hostile names", "report", "they are text there, and no program")
def _(project: Project) -> Outcome:
    results(project)
    for name in ("ranking.csv", "runs.csv"):
        file = project.root / TABLES / name
        file.write_text(file.read_text().replace("found wrong data", "<script>alert(1)</script>"))
    done = report(project)
    assert done.status == 0, done.output[-1000:]
    page = (project.root / REPORT).read_text()
    assert "alert(1)" in page
    return Outcome("", wrong=page.count("<script>alert(1)</script>"))


# The plan


def refused(make: Callable[[], object]) -> Outcome:
    """Return what is said of a config; any other error than a UserError is one of ours."""
    try:
        make()
    except UserError as error:
        return Outcome(str(error))
    return Outcome("it was taken", wrong=1)


def config(name: str, text: str, says: str, short: bool = False) -> None:
    """Enter a config file that is none."""

    @fault(name, "plan", "it names the line, and nothing runs", says, short)
    def _(project: Project) -> Outcome:
        file = project.root / "config.yaml"
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        return refused(lambda: check_file(file))


config("config: a key twice", "a: 1\nb: 2\na: 3\n", r"line 3: found the key 'a' again.*[Rr]emove", short=True)
config("config: no YAML", "a: 1\nb: [1\nc: 2\n", r"line 3: found ")
config("config: a thousand brackets", "[" * 5000, r"nested too deep")
config("config: bytes that are no text", "a: 1\nb: \udcff\n", r"line 2: found bytes that are not UTF-8")


def planned(name: str, says: str, **changes: object) -> None:
    """Enter a config of hostile names or paths."""

    @fault(name, "plan", "it names the key and what is allowed, and nothing runs", says)
    def _(project: Project) -> Outcome:
        return refused(lambda: Plan({**project.config, **changes}, project=project.root))


planned(
    "config: a tier with the name of a rule's folder", r"config: storage.*bounds", storage={"bounds": {"path": "x"}}
)
planned("config: a name with a newline", r"config: storage.*found 'disk\\n'", storage={"disk\n": {"path": "x"}})
planned(
    "config: a path with a wildcard of Snakemake",
    r"config: storage\.disk\.path: found",
    storage={"disk": {"path": "x/{word}"}},
)
planned(
    "config: a loader that is not there", r"loaders\[0\].*found 'nmpy_memmap'.*Did you mean", loaders=["nmpy_memmap"]
)


@fault("plan: killed between write and rename", "plan", WHOLE_AGAIN)
def _(project: Project) -> Outcome:
    return written(project, kills("rename", "plan.json"), None)


@fault("plan: disk full", "plan", "it stops, says so, and the same command goes on", FULL)
def _(project: Project) -> Outcome:
    return written(project, fails("write", "plan.json", "ENOSPC"), 2)


BEGIN = """
import json, sys
from scripts.common.errors import run_main
from scripts.plan.planning import Built
run_main(lambda: Built(json.loads(sys.argv[1]), {}).begin(["results/clips/demo/clips.json"]))
"""


def written(project: Project, shim: Shim, status: int | None) -> Outcome:
    """Return the outcome of writing the plan with a fault, then without."""
    remove(project.root / PLAN)
    command = [sys.executable, "-c", BEGIN, json.dumps(project.config)]
    done = project.run(command, shim)
    assert done.status == (status or -9), done.output[-500:]
    half = (project.root / PLAN).exists()
    again = project.run(command)
    assert again.status == 0, again.output[-500:]
    return Outcome(done.output, half=half)
