import atexit
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from scripts.common.code import code_hash
from scripts.common.compared import machine_folders
from scripts.common.errors import UserError
from scripts.common.isolated import env_of
from scripts.common.published import published_file, published_names
from scripts.common.vocabulary import PROTOCOL
from scripts.machine.at_work import of_other_calls
from scripts.plan import outgoing
from scripts.plan.config import presets_with
from scripts.plan.estimate import estimate
from scripts.plan.experiment import PLACING, Plan
from scripts.plan import room
from scripts.plan.leftovers import remove_from_ram
from scripts.report import charts
from scripts.report.loader_lines import loader_lines
from scripts.report.page import session_of

# The loaders that a call asks for by name, as results/NAME.json. Snakemake knows its targets only after this file; a job of a
# cluster is a call of its own, whose environment says what the first one was asked for.
asked = [
    found[1]
    for word in sys.argv[1:]
    if (found := re.fullmatch(r"(?:\./)?results/([^/]+)\.json", word))
]
asked = json.loads(os.environ.setdefault("FEEDRATE_ASKED", json.dumps(asked)))
try:
    plan = Plan(config, workflow.config_settings.config, asked=asked)
    OUTGOING = outgoing.outgoing(plan, asked)
    outgoing.check(OUTGOING)
    CHARTS = charts.every()
except UserError as error:
    raise WorkflowError(str(error)) from None

CLIPS, CORPUS, FORMATS, PLACED, RUNS, TABLES, LOGS = (
    plan.folder(stage)
    for stage in ("clips", "corpus", "formats", "placed", "runs", "tables", "logs")
)

# How clips are fetched and not which: in the environment, since a change of a rule's parameter makes everything again.
os.environ.update(FEEDRATE_FETCH_OPTIONS=json.dumps(plan.fetch_options))
# What measures has a node of a cluster for itself; the profile for Slurm makes it one job with the copies that it reads.
WHOLE_NODE = "--exclusive"
ended_well = []  # a word, once a call has done all that it was asked for
# Which call of Snakemake a job belongs to: the jobs of a download share a rate limit, a lock and a reason to stop.
CALL = os.environ.setdefault("FEEDRATE_CALL", uuid.uuid4().hex)


wildcard_constraints:
    shard=r"\d{4}",
    repeat=r"\d+",
    format="|".join(plan.formats),
    loader="|".join(plan.loaders),
    tier="|".join(plan.tiers),


def env(name):
    """Return the path of a conda environment, seen from workflow/rules."""
    return f"../../envs/{name}.yaml"


def kind_code(program, *plugins):
    """Return the hash of the code of a program that makes or reads the kind of data."""
    return code_hash(
        f"scripts.prepare.{program}", f"scripts.kinds.{plan.kind}", *plugins
    )


def format_code(wildcards):
    """Return the hash of the code that writes a format."""
    return kind_code("write_format", f"scripts.formats.{wildcards.format}")


def tier_code(tier, program):
    """Return the hash of the code of a program that uses a tier's kind."""
    kind = plan.tiers[tier]["kind"]
    return code_hash(f"scripts.prepare.{program}", f"scripts.tiers.{kind}")


def format_env(wildcards):
    """Return the environment that the format is written in."""
    return env(env_of(plan.formats[wildcards.format]))


def loader_env(wildcards):
    """Return the environment of the run's loader."""
    return env(env_of(plan.loaders[wildcards.loader]))


def run_code(wildcards):
    """Return the hash of the loader's own file; PROTOCOL stands for all else that a run goes through."""
    run = plan.by_path.get(proof_path(wildcards))
    return plan.loader_code(run.loader) if run else ""


def placed_data(tier):
    """Return what a copy on a tier leaves on this machine, if anything; what is in RAM is given back."""
    place = plan.location(tier)
    if place.local is None:
        return []
    return (
        temp(directory(place.local), group_jobs=True)
        if place.in_memory
        else directory(place.local)
    )


def placed_copy(tier):
    """Return what gives the name of a copy on a tier."""
    return lambda wildcards: plan.copy(tier).format(**dict(wildcards.items()))


def loader_data(wildcards):
    """Return what the run's data is or leaves on this machine; the copy's record where that is nothing."""
    return data_of(wildcards.tier, wildcards.loader)


def data_of(tier, loader):
    """Return what a loader's data on a tier is or leaves here; the copy's record where that is nothing."""
    format = plan.loaders[loader].FORMAT
    name = plan.copy_name(tier).format(loader=loader, format=format)
    place = plan.location(tier, loader).local
    return str(place or f"{PLACED}/{tier}/{name}.json")


def loader_format(wildcards):
    """Return the record of the format that the run reads."""
    return f"{FORMATS}/{plan.loaders[wildcards.loader].FORMAT}.json"


def loader_sessions(wildcards):
    """Return the sessions that a loader is measured in."""
    groups = dict.fromkeys(
        run.group for run in plan.runs if run.loader == wildcards.loader
    )
    return [f"{RUNS}/session-{group}.json" for group in groups]


def session_runs(group):
    """Return the results that a session measures: where loaders are asked for by name, only theirs."""
    return [
        run
        for run in plan.runs
        if run.group == group and (not asked or run.loader in asked)
    ]


def session_proofs(group):
    """Return the proofs of the results that a session measures."""
    return list(dict.fromkeys(run.proof for run in session_runs(group)))


def session_data(group):
    """Return the data that a session reads."""
    return list(
        dict.fromkeys(data_of(run.tier, run.loader) for run in session_runs(group))
    )


def proof_path(wildcards):
    """Return the path of the record of a proof."""
    return f"{RUNS}/{wildcards.tier}/{wildcards.loader}/{wildcards.slug}/proof.json"


def planned(path_of):
    """Return what gives a rule's parameter `run`: the measurement as one object, of an unknown path nothing."""
    return lambda wildcards: (
        json.dumps(vars(plan.by_path[path_of(wildcards)]))
        if path_of(wildcards) in plan.by_path
        else ""
    )


def ended_early(wildcards):
    """Return how many calls ended the shard early: a number that changes makes the shard's job run again."""
    return plan.ended_early(wildcards.shard)


def tensors_path(wildcards):
    """Return the path of the record of micro-benchmarks."""
    return f"{RUNS}/tensors/{wildcards.slug}/{wildcards.repeat}.json"


def last_words(logs):
    """Return what went wrong, from the logs of a call, and how to go on: the end of the output is what one reads."""
    texts = [Path(log).read_text(encoding="utf-8") for log in logs]
    errors = re.findall(r"(?m)^error: .*", "\n".join(texts))
    return "\n".join([*dict.fromkeys(errors), "The same command goes on where it was."])


def compared_files(*keys):
    """Return a file of each of the report's `keys` that the config puts beside this session."""
    asked = plan.config["report"]
    given = {
        "baseline": [f"{folder}/runs.csv" for folder in [asked["baseline"]] if folder],
        "machines": [f"{f}/runs.csv" for _, f in machine_folders(asked["machines"])],
        "published": map(published_file, published_names(asked["published"])),
    }
    return [file for key in keys for file in given[key]]


def others_at_work():
    """Return which programs of another call are at work in this folder, and what to do; an empty text for none."""
    others = of_other_calls(Path.cwd(), CALL)
    if not others:
        return ""
    orphans = [str(one.process) for one in others if one.snakemake is None]
    stop = (
        f"type: kill {' '.join(orphans)}, then snakemake --unlock"
        if orphans
        else "press Ctrl-C where it was started"
    )
    return (
        f"found another call at work in this folder: {'; '.join(one.words() for one in others)}. Allowed is one at a "
        f"time. Wait until it has ended, or {stop}. Then type the same command again."
    )


def report_refused(page):
    """Return why Snakemake's report cannot be made now, or None: the page that it would hold is absent or of other data."""
    if not any(word.split("=")[0] == "--report" for word in sys.argv):
        return None
    if not Path(page).is_file():
        making = re.sub(
            r" --report(=\S+| [^-]\S*)?(?= |$)",
            "",
            shlex.join(["snakemake", *sys.argv[1:]]),
        )
        return (
            f"--report: found no {page}, and the report holds the pages of a run that has ended. Make them first: "
            f"{making}"
        )
    shown = session_of(Path(page))
    if shown is None or shown["dataset"] == plan.dataset:
        return None
    named = f"dataset={shown['dataset']}"
    if shown["preset"] != "none":
        named = f"{named} preset={shown['preset']}"
    elif shown["dataset"] not in plan.config["datasets"] and (
        brought := presets_with(shown["dataset"])
    ):
        named = f"preset={brought[0]} {named}"
    return (
        f"--report: found {page} of data set {shown['dataset']}, and the config asks for {plan.dataset}; the report holds what "
        f"was run last. Type: snakemake --config {named} --report report.html, or run {plan.dataset} first: "
        f"snakemake --config dataset={plan.dataset}"
    )


def only_parts():
    """Return whether a call asks for files below results/ that are no loader's results: nothing is known of the rest."""
    return not asked and any(re.match(r"(\./)?results/", word) for word in sys.argv[1:])


def refused_to_start():
    """Return why nothing of a call may begin: others are at work in the folder, or there is too little room."""
    if not (others := others_at_work()) and not only_parts():
        try:
            room.check(plan, asked)
        except UserError as error:
            return str(error)
    return others


def first_words():
    """Return how long the session will take, old names in the config, and which loaders the preset leaves out."""
    parts = only_parts() or asked
    lines = (
        [] if only_parts() else [estimate(plan, asked).words(), room.words(plan, asked)]
    )
    lines += [one.words() for one in OUTGOING if lines]
    lines += plan.notices
    preset = plan.config["preset"]
    named = f"preset={preset}"
    if "dataset" in workflow.config_settings.config:
        named = f"dataset={shlex.quote(plan.dataset)} {named}"
    if plan.left_out and preset != "none" and not parts:
        lines.append(
            f"preset {preset} leaves out {', '.join(plan.left_out)} of config.yaml's loaders. To measure one of them as "
            f"well, type: snakemake results/{plan.left_out[0]}.json --config {named} (with "
            "'loaders=[...]' beside it you choose all)."
        )
    return "\n".join(filter(None, lines))


def closing_words():
    """Return the speeds of the loaders that were asked for by name, and where to read on, after a call that went well."""
    lines = []
    for loader in asked:
        found = Path("results", f"{loader}.json")
        lines += loader_lines(json.loads(found.read_text())) if found.is_file() else []
    if Path(TABLES, "ranking.csv").is_file():
        lines.append(
            f"The ranking: python -m scripts.report.print_ranking --tables {shlex.quote(TABLES)}"
        )
    return "\n".join(lines)


def leave_report():
    """Render what is there: a call that was stopped within a session leaves a ranking and a report too."""
    planned = Path(RUNS, "plan.json")
    if ended_well or not planned.is_file() or not any(Path(RUNS).glob("*/*/*/0.json")):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folders = ["--tables", TABLES]
    programs = [
        ["tables.make_tables", "--plan", str(planned), "--root", ".", "--out", TABLES],
        ["report.draw_figures", *folders, "--out", "report/figures"],
        ["report.render_report", *folders, "--figures", "report/figures"]
        + ["--out", "report/index.html", "--light", "report/light.html"],
        ["report.print_ranking", *folders, "--reports", "report/index.html"],
    ]
    print("Stopped early: this is of what was measured so far.", file=sys.stderr)
    if (
        importlib.util.find_spec("matplotlib") is None
    ):  # Snakemake's own environment, where conda makes the others
        programs = [programs[0], ["report.print_ranking", *folders]]
    for program in programs:
        done = subprocess.run(
            [sys.executable, "-m", f"scripts.{program[0]}", *program[1:]]
        )
        if done.returncode:
            break


def drawn_folder(wildcards, output):
    """Return the folder that the figures are drawn into."""
    return str(Path(output[0]).parent)


def figures_folder(wildcards, input):
    """Return the folder of the figures."""
    return str(Path(input.figures[0]).parent)
