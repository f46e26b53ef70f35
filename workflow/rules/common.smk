import json
import shlex
import sys

from scripts.common import plugins
from scripts.common.errors import UserError, refused
from scripts.common.versions import stage_version
from scripts.common.vocabulary import PART, PROTOCOL, REPORT, WHOLE
from scripts.plan.experiment import MAIN, PLACING
from scripts.plan.planning import asked_for, planning
from scripts.report import charts
from scripts.report.ending import closing_words, last_words, leave_report, show_answer

TYPED = workflow.is_main_process  # the call that the user types, and no job's own
try:
    plan = planning(config, workflow.config_settings.config, TYPED, sys.argv[1:])
    CHARTS = charts.every()
except UserError as error:
    raise WorkflowError(str(error)) from None

CLIPS, CORPUS, FORMATS, PLACED, RUNS, TABLES, LOGS = (
    plan.folder(stage)
    for stage in ("clips", "corpus", "formats", "placed", "runs", "tables", "logs")
)
FIGURES = f"report/figures/{plan.dataset}"
# What measures has a node of a cluster for itself; the profile for Slurm makes it one job with the copies that it reads.
WHOLE_NODE = "--exclusive"
NAME = r"[A-Za-z0-9_]+"


wildcard_constraints:
    shard=r"\d{4}",
    repeat=r"\d+",
    format=NAME,
    loader=NAME,
    tier="|".join(plan.tiers),
    session=r"[\w-]+",


def targets():
    """Return what the call asks for; nothing in the call of a job."""
    return workflow.dag_settings.targets


def env(name):
    """Return the path of a conda environment, seen from workflow/rules."""
    return f"../../envs/{name}.yaml"


def prepare_version(program, **used):
    """Return the version of a program of scripts/prepare with the plug-ins that it uses: {folder: name}."""
    found = [plugins.load(folder, name) for folder, name in used.items()]
    return stage_version(f"prepare.{program}", *found)


def format_version(wildcards):
    """Return the version of what writes a format."""
    format = plan.formats[wildcards.format]
    if format["files"] is not None:
        return f"{prepare_version('write_format')}.{format['version']}"
    return prepare_version("write_format", kinds=plan.kind, formats=wildcards.format)


def users_files(wildcards):
    """Return what links a user's own files in place of writing a format; nothing for a format."""
    files = plan.formats[wildcards.format]["files"]
    return [] if files is None else ["--files", *files]


def tier_version(tier, program):
    """Return the version of a program that uses a tier's kind."""
    return prepare_version(program, tiers=plan.tiers[tier]["kind"])


def format_env(wildcards):
    """Return the environment that the format is written in."""
    return env(plan.formats[wildcards.format]["env"])


def loader_env(wildcards):
    """Return the environment of the run's loader."""
    return env(plan.loaders[wildcards.loader]["env"])


def run_version(wildcards):
    """Return the version of what proves a loader: PROTOCOL's and the loader's."""
    results = plan.of_loader(wildcards.loader)
    return f"{PROTOCOL}.{results[0].version if results else 0}"


def placed_data(tier, size):
    """Return what a copy on a tier leaves on this machine, if anything; what is in RAM, or a part, is given back."""
    in_memory = plan.tiers[tier]["in_memory"]
    local = (
        plan.tiers[tier]["local"]
        if size == WHOLE
        else plan.part["tiers"][tier]["local"]
    )
    if local is None:
        return []
    if in_memory or size == PART or not plan.config["measure"]["keep_data"]:
        return temp(directory(local), group_jobs=True)
    return directory(local)


def placed_copy(tier, size):
    """Return what gives the name of a copy on a tier."""
    pattern = (
        plan.tiers[tier]["copy"] if size == WHOLE else plan.part["tiers"][tier]["copy"]
    )
    return lambda wildcards: pattern.format(**dict(wildcards.items()))


def proven(wildcards):
    """Return what a proof proves."""
    return plan.proofs[f"{wildcards.tier}/{wildcards.loader}/{wildcards.slug}"]


def loader_data(wildcards):
    """Return what the proof's data is or leaves on this machine; the copy's record where that is nothing."""
    return plan.data_of(proven(wildcards))


def measured(results, session=MAIN):
    """Return those of a session's results that are measured: of all items what a part of them has chosen."""
    if not plan.part or session != MAIN:
        return results
    return plan.chosen(results, Path(checkpoints.choose_whole.get().output.chosen))


def session_proofs(wildcards):
    """Return the proofs of the results that a session measures."""
    results = measured(plan.of_session(wildcards.session), wildcards.session)
    return list(dict.fromkeys(one.proof for one in results))


def session_data(wildcards):
    """Return the data that a session reads."""
    results = measured(plan.of_session(wildcards.session), wildcards.session)
    return list(dict.fromkeys(map(plan.data_of, results)))


def all_proofs(_wildcards):
    """Return the proofs of all that is measured."""
    return list(dict.fromkeys(one.proof for one in measured(plan.results.values())))


def all_formats(_wildcards):
    """Return the records of all formats that are written."""
    return list(
        dict.fromkeys(f"{one.written}.json" for one in measured(plan.results.values()))
    )


def loader_sessions(wildcards):
    """Return what is to be measured for the results of a loader; say first how long all of the call will take."""
    try:
        names = plan.sessions_of(wildcards.loader, targets())
        for line in plan.words(targets()):
            print(line)
    except UserError as error:
        raise WorkflowError(str(error)) from None
    return [f"{RUNS}/explained-{name}.json" for name in names]


def must_have_speed(wildcards):
    """Return the option by which a loader without a speed that was asked for by name ends the call with status 1."""
    return "--must-have-speed" if wildcards.loader in asked_for(targets()) else ""
