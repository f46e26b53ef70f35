"""What verdict.json says, in sentences: each code and its numbers as one or two of at most 25 words."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from scripts.common.groups import grouped
from scripts.common.text import bytes_text, duration_text, number_text, percent_text
from scripts.common.vocabulary import CROPS
from scripts.decide.utilisation import TARGET_AU_PERCENT
from scripts.report.commands import lengthened
from scripts.report.texts import au_text, kind_of, place, times_text, unusual_settings
from scripts.tables.stages import decoding_seconds

MOST_NAMED = 4  # results by name; the rest is counted
TITLES = {
    "fastest": "Fastest",
    "fastest_cold": "Fastest from a cold disk, in random order",
    "least_memory": "Least memory of those at least half as fast as the fastest",
    "simplest": "Simplest that keeps up with your step",
    "cheapest": "Quickest to prepare",
}
WAYS = {"worker": "in a worker", "process": "in the training's process", "device": "in batches on the GPU"}
LACKING = {
    "no_run": "The plan has no run. Name loaders below `loaders` in config.yaml.",
    "no_speed": "No loader has a verified speed.",
    "no_cold": "Nothing was measured from a cold disk. Write `cache: [warm, cold]` below `sweep` in config.yaml.",
    "no_memory": "No run could measure its memory; `pss_reason` in its record says why.",
    "no_step": "Your training step is not known. Write `step_ms: 20`, or what yours takes, below `report`.",
    "none_keeps_up": "No loader is known to keep up with your step. Try more workers, or a faster tier.",
    "no_preparation": "No conversion was timed. Type the same command with --forcerun write_format at its end.",
}
CAUTIONS = {
    "preloads": "It holds the whole data set in memory{size}: the set must fit.",
    "in_memory": "The files on {tier} are in memory{size}: they must fit beside what the loader takes.",
    "order": "Its order is not random ({order}): see the columns `order_*` of ranking.csv.",
    "emulated": "{tier} is emulated: reads were slowed down to those of storage that this machine does not have.",
    "plain_loop": "A plain loop need not read its batches: a model that does may get them more slowly.",
    "batch_lifetime": "A batch is valid until you ask for the next one: copy what you keep.",
    "now_unmeasured": "Your current loader, {loader}, has no verified speed here.",
    "now_own_items": "Your current loader, {loader}, delivers {items_per_second} of its own items a second. They are "
    "other items than these: no speed here compares with it.",
    "au_model_off": "A third step length had an AU {points} points from the predicted one: its AU is not known.",
    "few_rounds": "It was measured in {rounds} only.",
    "disturbed": "Other programs used the CPU during {runs} of its {of} runs.",
    "left_out": "Other programs took so much of the CPU that {runs} more runs do not count.",
    "works_outside": "Something outside its processes works for it: that CPU time is not in its row.",
    "partly": "{reason}.",
    "warnings": "Its runs gave {count}, which the report lists.",
    "workers_slower": "Workers make {loaders} slower here: with none they are at least {times} times as fast.",
}
CAUSES = {
    "no_speed": "nothing has a verified speed",
    "few_rounds": "it was measured in {rounds}",
    "not_settled": "the first loaders are not told apart yet",
    "lost": "{lost} of {of} loaders have no result",
    "all_disturbed": "other programs used the CPU during all of its runs",
    "varied": "the same work varied by {percent} over the session",
    "left_out": "other programs took the CPU from {percent} of its runs",
    "drift": "the machine changed its speed by {percent} over the session",
    "settled": "{rounds} agree",
}

_COUNTED = {"rounds": "round", "count": "warning"}  # numbers that a noun follows

Row = Mapping[str, Any]
Tables = Mapping[str, Any]


def answer_of(tables: Tables, device: str | None = None) -> Row:
    """Return the answer of a device, or the first one."""
    answers = tables["verdict"]["answers"]
    return next((one for one in answers if one["device"] == device), answers[0])


def rows_by_id(tables: Tables) -> dict[str, Row]:
    """Return the results by the names that a verdict has for them."""
    return {row["id"]: row for row in (*tables["ranking"], *tables["best"])}


def training_text(tables: Tables) -> str:
    """Return how the user's training waits, and its speed with the choice; nothing without attach."""
    training = tables["verdict"]["training"]
    if training is None:
        return ""
    waits, rate = 100 - training["au_percent"], training["items_per_second"]
    speed = f": {number_text(rate)} items/s" if rate else ""
    if training["verdict"] == "NOT-BOUND":
        return f"Your training hardly waits for its loader (AU {au_text(training['au_percent'])}){speed}."
    ends = (training["au_high"], training["au_low"])
    interval = "" if None in ends else f" ({100 - ends[0]:.0f} to {100 - ends[1]:.0f})"
    text = f"Your training waits for its loader {waits:.0f} % of its time{interval}{speed}."
    if training["choice_items_per_second"] is None:
        return text
    choice = rows_by_id(tables)[answer_of(tables)["choice"]]
    with_choice = number_text(training["choice_items_per_second"])
    return f"{text} With {place(choice)} it would reach {with_choice}, your own transforms apart."


def headline(tables: Tables, answer: Row) -> str:
    """Return what to use, in a sentence."""
    rows = rows_by_id(tables)
    if answer["choice"] is None:
        return "No loader has a verified result, so there is nothing to recommend."
    row, ties = rows[answer["choice"]], [rows[one] for one in answer["ties"]]
    step = tables["verdict"]["yours"]["step_ms"]
    if answer["form"] == "noisy":
        return f"No winner yet: {_listed([row, *ties], 'and')} may each be the fastest; {place(row)} is the safest."
    use = f"Use {use_text(row)}"
    if answer["why"] == "keeps_up":
        many = "the only loader that keeps" if not ties else f"the cheapest of {len(ties) + 1} loaders that keep"
        tried = {one["loader"] for one in answer["candidates"] if one["source"] != "unknown"}
        missing = len({one["loader"] for one in answer["candidates"]} - tried)
        others = f" {missing} others were not tried with it." if missing > 1 else ""
        return f"{use} It is {many} up with your {step:g} ms step.{others}"
    if answer["form"] == "equal":
        return f"{use} {_listed(ties, 'and')} {'is' if len(ties) == 1 else 'are'} as fast."
    return use


def use_text(row: Row) -> str:
    """Return what to use, as the end of a sentence: the loader with its tier, format and settings."""
    return f"{place(row)}: {row['format']} format, {unusual_settings(row)}."


def longer(tables: Tables, answer: Row) -> dict[str, str] | None:
    """Return the `length` of a session that settles the answer, and the `command`; None where none is known to."""
    factor, row = answer["confidence"]["factor"], rows_by_id(tables).get(answer["choice"])
    if row is None or factor is None:
        return None
    return dict(zip(("length", "command"), lengthened(tables, row, factor), strict=True))


def how_sure(answer: Row) -> str:
    """Return the confidence with its cause, and how much faster another result may be, in two sentences."""
    sure = answer["confidence"]
    cause = _filled(CAUSES[sure["code"]], sure["values"])
    text = f"Confidence {sure['grade']}: {cause}."
    most = answer["at_most_times"]
    if answer["choice"] is None or most is None:
        return text
    if answer["why"] == "keeps_up" and most > 1:
        speed = {one["id"]: one["items_per_second"] for one in answer["candidates"]}
        faster = [one for one in answer["candidates"] if speed[one["id"]] > speed[answer["choice"]]]
        waits = any(one["keeps_up"] is False for one in faster)
        which = "; of those that are faster some let your step wait" if waits else ", which your step does not need"
        return f"{text} Others may read up to {_faster(most)}{which}."
    within = "Within this session" if answer["sessions"] == 1 else f"Over {answer['sessions']} sessions"
    return f"{text} {within} nothing is more than {_faster(most)}." if answer["ties"] else text


def gain(tables: Tables, answer: Row) -> str:
    """Return what the choice gives: its speed, beside that of the current loader, and AU at the user's step."""
    if answer["choice"] is None:
        return ""
    rows, now, step = rows_by_id(tables), answer["now"], tables["verdict"]["yours"]["step_ms"]
    row = rows[answer["choice"]]
    speed = f"It delivers {number_text(row['items_per_second'])} items/s"
    if kind_of(tables) == CROPS:
        seconds = row["items_per_second"] * tables["dataset"]["corpus"]["seconds"]
        speed += f" ({number_text(seconds)} s of audio a second)"
    if now and now["id"] == answer["choice"]:
        speed += ", and is your current loader"
    elif now:
        speed += f", {against_text(now, rows[now['id']])}"
    own = next((one for one in answer["candidates"] if one["id"] == answer["choice"]), None)
    if own is None or step is None:
        return f"{speed}."
    if own["au"] is None:
        limit = f", at most {au_text(own['au_most'])}" if own["au_most"] < 100 else ""
        return f"{speed}. Its AU at your {step:g} ms step is not known{limit}."
    had = now and now["id"] != answer["choice"] and (now["au_now"] if now["au_now"] is not None else now["au_most_now"])
    beside = f"; {'at most ' if now['au_now'] is None else ''}{au_text(had)} with your current loader" if had else ""
    return f"{speed}. At your {step:g} ms step its AU is {au_text(own['au'])}{beside}."


def against_text(now: Row, had: Row) -> str:
    """Return how a speed compares with that of the current loader."""
    name = f"{place(had)}, your current loader"
    if now["low"] is None:
        return f"{number_text(now['times'])} times {name} (too few rounds for an interval)"
    if now["low"] <= 1 <= now["high"]:
        return f"not distinguishable from {name}"
    return f"{number_text(now['times'])} times the speed of {name} ({times_text(now['low'], now['high'])})"


def with_transform_texts(tables: Tables, answer: Row) -> list[str]:
    """Return a text for each transform: how the fastest loader compares with the current one, and how without it."""
    rows, found = rows_by_id(tables), []
    for one in answer["transforms"]:
        where = " on the device" if one["transform_in"] == "device" else ""
        with_it = f"With your transform {one['transform']}{where}: {_led_text(rows, one)}."
        without = one["without"]
        found.append(f"{with_it} Without it: {_led_text(rows, without)}." if without else with_it)
    return found


def _led_text(rows: Mapping[str, Row], led: Row) -> str:
    """Return how the fastest loader compares with the current one."""
    leader, had = place(rows[led["id"]]), place(rows[led["now"]])
    if led["id"] == led["now"]:
        return f"{leader}, your current loader, is the fastest"
    if led["low"] is None:
        return f"{leader} gives {number_text(led['times'])} times the speed of {had} (too few rounds for an interval)"
    if led["low"] <= 1 <= led["high"]:
        return f"{leader} is not distinguishable from {had}"
    return (
        f"{leader} gives {number_text(led['times'])} times the speed of {had} ({times_text(led['low'], led['high'])})"
    )


def caution_text(caution: Row) -> str:
    """Return a caution in a sentence."""
    return _filled(CAUTIONS[caution["code"]], caution["values"])


def lost_texts(answer: Row) -> list[str]:
    """Return what has no result, a line a reason, the loaders that share it together."""
    groups: dict[str, list[str]] = {}
    for one in answer["lost"]:
        groups.setdefault(one["reason"] or one["code"], []).append(
            one["loader"] if not one["some"] else f"{one['loader']} ({one['results']} of its settings)"
        )
    return [f"{', '.join(loaders)}: {reason}" for reason, loaders in groups.items()]


def goal_text(tables: Tables, goal: Row) -> str:
    """Return a goal's answer, and what it cannot be told from, in words."""
    if goal["id"] is None:
        return f"no answer. {LACKING[goal['lacking']]}"
    rows = rows_by_id(tables)
    ties = [rows[one] for one in goal["ties"]]
    beside = f"; tied with {_listed(ties, 'and')}" if ties else ""
    return f"{place(rows[goal['id']])}, {value_text(tables, goal)}{beside}"


def value_text(tables: Tables, goal: Row) -> str:
    """Return what a goal is about: a speed, memory, workers, or a time."""
    value = goal["value"]
    if goal["goal"] == "least_memory":
        return f"{bytes_text(value)} at its peak"
    if goal["goal"] == "simplest":
        return f"{value or 'no'} worker{'' if value == 1 else 's'} or threads" if value else "no workers"
    if goal["goal"] != "cheapest":
        return f"{number_text(value)} items/s"
    decoding = decoding_seconds(tables["stages"])
    return f"{duration_text(value)} to write" + (f", after {duration_text(decoding)} of decoding" if decoding else "")


def transform_texts(tables: Tables) -> Iterator[str]:
    """Yield a sentence a transform: its speed where it was at work, and whether storing what it makes pays."""
    for (device, transform), rows in grouped(tables["transforms"], "device", "transform").items():
        ways = [row for row in rows if row["way"] != "ahead"]
        several = f" on {device.upper()}" if len({row["device"] for row in tables["transforms"]}) > 1 else ""
        told = "; ".join(f"{WAYS[row['way']]} {number_text(row['items_per_second'])} ({place(row)})" for row in ways)
        text = f"With {transform}{several}, items/s: {told}."
        stored = next((row for row in rows if row["way"] == "ahead"), None)
        fastest = max(ways, key=lambda row: row["items_per_second"])
        if fastest["reason"] == "random":
            yield f"{text} It is random, so it cannot be stored ahead of time."
        elif stored and fastest["pays_after_epochs"]:
            after = number_text(fastest["pays_after_epochs"])
            rate = number_text(stored["items_per_second"])
            yield f"{text} Stored ahead of time it is read at {rate} or more, which pays after {after} epochs."
        else:
            yield text


def keeps_up_text(one: Row) -> str:
    """Return a candidate's AU with a mark: ✓ keeps up, ✗ does not, ? not known."""
    if one["source"] == "does_not_fit":
        return "✗ does not fit"
    if one["au"] is None:
        return (
            f"{'✗' if one['keeps_up'] is False else '?'} at most {au_text(one['au_most'])}"
            if one["au_most"] < 100
            else "?"
        )
    return f"{'✓' if one['keeps_up'] else '✗' if one['keeps_up'] is False else '?'} {au_text(one['au'])}"


def _faster(times: float) -> str:
    if times >= 2:
        return f"{number_text(ceil(10 * times) / 10 if times < 10 else ceil(times), 2)} times as fast"
    return f"{ceil(100 * (times - 1))} % faster"


def _filled(template: str, values: Row) -> str:
    """Return a sentence with its numbers as text."""
    texts = {name: _value(name, value) for name, value in values.items()}
    size = ", ".join(bytes_text(values[name]) for name in ("bytes", "peak_bytes") if values.get(name))
    return template.format(size=f" ({size})" if size else "", **{"percent": "", **texts})


def _value(name: str, value: Any) -> str:
    if name == "percent":
        return percent_text(value)
    if name in _COUNTED:
        return f"{value} {_COUNTED[name]}{'' if value == 1 else 's'}"
    if isinstance(value, list):
        return ", ".join(value)
    return number_text(value, 2) if isinstance(value, float) else str(value)


def _listed(rows: Sequence[Row], last: str) -> str:
    names = [place(row) for row in rows]
    shown = names[:MOST_NAMED] + ([f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else [])
    return f" {last} ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def target_text() -> str:
    """Return from which AU on a loader keeps up."""
    return percent_text(TARGET_AU_PERCENT)
