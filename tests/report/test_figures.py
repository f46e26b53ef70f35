"""The figures of single questions, drawn from made results whose answer is known."""

import io
import re

import pytest
from matplotlib import colors, pyplot as plt
from matplotlib.text import Text

from scripts.report import charts, draw_figures, render_report
from scripts.report.charts._common import DARK, INK, PAPER, RULE
from scripts.report.charts._print import MOST_LINES
from tests.support.made_runs import Made
from tests.support.report_pages import tables_of

HOSTILE = "<script>alert(1)</script>\"'\n$x$ & {{ 7 * 7 }} and a name that does not end"


@pytest.fixture(scope="module")
def measured(measured):
    """The tables of an experiment in which everything there is was measured."""
    return measured[0]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """The tables of 27 loaders of 13 formats on two tiers, with three numbers of workers and two batch sizes."""
    made = [
        Made(f"loader_{number:02d}", tier, [speed, speed * 1.01, speed * 0.98], f"format_{number % 13}", **settings)
        for number in range(27)
        for tier, share in (("ram", 1.0), ("disk", 0.8))
        for speed, settings in (
            *((20000 * 0.8**number * share * (1 + workers), {"workers": workers}) for workers in (0, 2, 4)),
            (25000 * 0.8**number * share, {"workers": 2, "batch_size": 64}),
            (1000 * 0.9**number * share, {"cache": "cold"}),
            (900 * 0.9**number * share, {"task": "train", "au": 50.0}),
        )
    ]
    return tables_of(tmp_path_factory.mktemp("many"), made, {("cpu", 32): [120000.0], ("cpu", 64): [120000.0]})


@pytest.fixture
def drawn():
    """Draw a figure by its name, laid out as it is in the report."""
    with draw_figures.style():
        yield lambda name, tables: draw_figures.picture(charts.load(name), tables)
        plt.close("all")


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip()]


def words(figure):
    return " ".join(" ".join(texts(figure)).split())


def points(axis, marker=None):
    """The single points of an axis as (x, y), of all markers or of one."""
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in axis.lines
        if len(line.get_xdata()) == 1 and line.get_marker() not in ("None", "") and marker in (None, line.get_marker())
    ]


def legend_labels(axis_or_figure):
    legends = getattr(axis_or_figure, "legends", None) or [axis_or_figure.get_legend()]
    return [text.get_text() for text in legends[0].get_texts()]


# What each figure shows


def test_latency_is_a_dumbbell_of_p50_p99_and_the_slowest_beside_the_users_step(drawn, tmp_path):
    tables = tables_of(tmp_path, [Made("a", "ram", [461.0] * 2), Made("b", "ram", [922.0, 461.0])])
    assert [
        (row["loader"], row["p50_ms"], row["p99_ms"], row["slowest_ms"]) for row in charts.load("latency").rows(tables)
    ] == [
        ("a", pytest.approx(500.0), pytest.approx(500.0), pytest.approx(500.0)),
        ("b", pytest.approx(375.0), pytest.approx(500.0), pytest.approx(500.0)),
    ]
    figure = drawn("latency", tables)
    [axis] = figure.axes
    assert points(axis)[3:] == [(pytest.approx(375.0), 1), (pytest.approx(500.0), 1), (pytest.approx(500.0), 1)]
    assert "375, 500, 500" in words(figure)
    [line] = [line for line in axis.lines if list(line.get_xdata()) == [20, 20]]
    assert line.get_linestyle() == "--"
    assert len(legend_labels(figure)) == 4
    tables["dataset"]["report"]["step_ms"] = None
    figure = drawn("latency", tables)
    assert len(legend_labels(figure)) == 3
    assert [line for line in figure.axes[0].lines if line.get_linestyle() == "--"] == []


def test_scaling_has_the_result_and_the_range_of_each_number_of_workers(drawn, tmp_path):
    made = [Made("a", "ram", [90.0, 100.0, 120.0], workers=count) for count in (0, 1, 2, 32)]
    made += [Made("b", "ram", [80.0] * 3), Made("a", "disk", [50.0] * 3, cache="cold")]
    figure = drawn("scaling", tables_of(tmp_path, made))
    [axis] = figure.axes
    [line] = axis.containers
    assert line[0].get_xdata().tolist() == [0, 1, 2, 32]
    assert line[0].get_ydata().tolist() == pytest.approx([(90.0 * 100.0 * 120.0) ** (1 / 3)] * 4)
    assert all(segment[:, 1] == pytest.approx([90.0, 120.0]) for segment in line[2][0].get_segments())
    assert [label.get_text() for label in axis.get_xticklabels()] == ["2", "32"]  # 0 and 1 would be on 2
    assert not {"b", "cold cache"} & {axis.get_title(loc="left") for axis in figure.axes}, "one number of workers only"
    assert legend_labels(figure) == ["ram"]


def test_memory_has_a_marker_for_each_number_of_workers(drawn, measured):
    ranking = [
        {**row, "pss_peak_bytes": (300 if row["loader"] == "torchaudio" else 500) * 10**6 * (1 + row["workers"])}
        for row in measured["ranking"]
    ]
    figure = drawn("memory", {**measured, "ranking": ranking})
    assert legend_labels(figure) == ["0 workers", "2 workers"]
    disk = figure.axes[0]
    assert disk.get_yticklabels()[0].get_text() == "torchaudio"
    assert points(disk)[:2] == [(0.3e9, 0), (0.9e9, 0)]
    assert "1.50 GB" in texts(figure) and "900 MB" in texts(figure)


def test_a_cold_cache_stands_beside_the_warm_one(drawn, measured):
    figure = drawn("cold", measured)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["CPU, disk", "CPU, slow (emulated)"]
    assert "cold 2,438, 28 % of warm" in texts(figure)  # dali_npy: 2,438 of 8,578
    assert points(figure.axes[0])[:3] == [pytest.approx((speed, 0), rel=1e-3) for speed in (8578, 2438, 4605)]
    assert legend_labels(figure) == ["warm", "cold", "limited"]


def test_the_distance_to_the_bound_is_that_of_the_table(drawn, measured):
    figure = drawn("roofline", measured)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["CPU, disk", "CPU, ram", "CPU, slow (emulated)"]
    percents = {row["percent_of_bound"] for row in measured["best"] if row["tier"] == "ram" and row["task"] == "read"}
    assert {x for x, _ in points(figure.axes[1])} == percents
    assert len({axis.get_xlim() for axis in figure.axes}) == 1
    assert "logarithmic" in figure.axes[0].get_xlabel()  # torchaudio is below 1 %


def test_the_ways_of_training_that_occur_are_in_the_legend(drawn, measured):
    assert legend_labels(drawn("training", measured))[-2:] == ["bare loop", "Lightning"]
    rows = [row for row in measured["ranking"] if row["task"] != "train"]
    assert legend_labels(drawn("training", {**measured, "ranking": rows}))[-2:] == ["result", "Lightning"]


def noted(tables, times):
    """The tables with a timeline of each of these loaders: a read of so many ms, and a step of 1 ms.

    Of the choice on a disk, as the verdict has it; of others on ram.
    """
    tier_of = {"lazy_memmap": "disk"}
    spans = [
        {**{name: row[name] for name in ("loader", "tier", "slug")}, "track": "main", "batch": 0, "phase": phase}
        | {"start_ms": start, "end_ms": end}
        for row in tables["best"]
        if (row["scenario"], row["tier"]) == ("CPU", tier_of.get(row["loader"], "ram"))
        and (time := times.get(row["loader"]))
        for phase, start, end in (("wait", 0.0, time), ("read", 0.0, time), ("step", time, time + 1))
    ]
    return {**tables, "spans": spans}


def titles(figure):
    return [axis.get_title(loc="left").split("\n")[0] for axis in figure.axes]


def test_the_timelines_of_what_is_recommended_and_of_what_one_has_share_an_axis(drawn, measured):
    tables = noted(measured, {"lazy_memmap": 4.0, "dali_npy": 20.0, "torchaudio": 29.0})
    figure = drawn("timeline", tables)
    assert titles(figure) == ["To use: lazy_memmap on disk", "Your current loader: torchaudio on ram"]
    assert {axis.get_xlim() for axis in figure.axes} == {(0.0, 30.0)}
    far = drawn("timeline", noted(measured, {"lazy_memmap": 4.0, "torchaudio": 999.0}))
    assert {axis.get_xlim() for axis in far.axes} == {(0.0, 60.0)}


def test_what_has_no_timeline_is_stood_in_for(drawn, measured):
    assert titles(drawn("timeline", noted(measured, {"dali_npy": 20.0, "torchaudio": 29.0}))) == [
        "Fastest with a timeline: dali_npy on ram",
        "Your current loader: torchaudio on ram",
    ]
    assert titles(drawn("timeline", noted(measured, {"lazy_memmap": 20.0, "dali_npy": 29.0}))) == [
        "To use: lazy_memmap on disk",
        "Slowest with a timeline: dali_npy on ram",
    ]


def test_a_format_has_paid_where_the_lines_cross(drawn, tmp_path):
    formats = {"slow": "arrow", "fast": "memmap", "same": "npy", "slower": "wav"}  # 1.5, 3, 4.5 and 6 s to write
    speeds = {"slow": 512.0, "fast": 5120.0, "same": 512.0, "slower": 256.0}
    made = [Made(name, "ram", [speeds[name]] * 5, format) for name, format in formats.items()]
    figure = drawn("break_even", tables_of(tmp_path, made))
    [axis] = figure.axes
    [(epochs, minutes)] = points(axis)
    assert epochs == pytest.approx((3 - 1.5) / (1 - 0.1))
    assert minutes * 60 == pytest.approx(1.5 + epochs * 1.0) and minutes * 60 == pytest.approx(3 + epochs * 0.1)
    made = [Made("a", "ram", [900.0] * 5, "arrow"), Made("b", "ram", [100.0] * 5, "wav")]
    [axis] = drawn("break_even", tables_of(tmp_path / "cheaper", made)).axes
    assert points(axis) == [], "what is cheaper and faster pays at once"


def test_the_size_of_the_data_set_stands_beside_the_memory(drawn, measured):
    figure = drawn("sizes", measured)
    assert any(text.startswith("328 MB, 0.51 %") for text in texts(figure))
    assert (328e6, 0) in points(figure.axes[0])
    several = [{"runs": 1, "host": {"memory_bytes": size * 10**9}} for size in (32, 16)]
    figure = drawn("sizes", {**measured, "host": {**measured["host"], "hosts": several}})
    assert any(text.startswith("328 MB, 2.0 %") for text in texts(figure)), "of that of the smallest"
    figure = drawn("sizes", {**measured, "host": {**measured["host"], "hosts": [{"runs": 1, "host": {}}]}})
    assert "328 MB" in texts(figure)


# What holds for all figures


@pytest.mark.parametrize("name", charts.every())
def test_nothing_is_cut_off_and_all_text_follows_dark_mode(drawn, measured, name):
    figure = drawn(name, measured)
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()
    assert min(box.x0, box.y0) >= 0 and box.x1 <= width and box.y1 <= height
    shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    if name not in ("concurrency", "timeline"):  # whose words stand on colours that stay
        assert {colors.to_hex(text.get_color()) for text in shown} <= {INK, PAPER}


def test_the_plain_colours_are_those_that_the_report_recolours():
    assert set(render_report._DARK) == {INK, RULE, PAPER}
    for paper in (PAPER, render_report._DARK[PAPER]):
        assert contrast(DARK, paper) > 3


def contrast(one, other):
    """The contrast of two colours after WCAG 2, from 1 to 21."""
    light = []
    for colour in (one, other):
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colors.to_rgb(colour)]
        light.append(sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True)))
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("name", ["latency", "cold", "memory", "roofline", "throughput", "training", "scaling"])
def test_of_many_loaders_the_best_are_drawn_and_it_is_said(drawn, many, name):
    figure = drawn(name, many)
    [said] = re.findall(r"Each panel shows the (\d+) \D*? of up to 27 loaders; the tables hold all", words(figure))
    per_panel = {
        "scaling": lambda: len(figure.axes),
    }.get(name, lambda: len(figure.axes[0].get_yticklabels()))
    assert per_panel() == int(said) < 27
    assert "loader_00" in words(figure)
    assert figure.get_size_inches()[1] < 30


def test_of_many_formats_the_cheapest_and_the_fastest_are_drawn(drawn, many):
    figure = drawn("break_even", many)
    assert len(legend_labels(figure.axes[0])) == MOST_LINES
    cheapest = min(many["break_even"], key=lambda row: row["prepare_seconds"])["format"]
    assert legend_labels(figure.axes[0])[0].startswith(f"{cheapest}, by ")
    handles = figure.axes[0].get_legend().legend_handles
    assert len({one.get_marker() for one in handles}) == len({one.get_color() for one in handles}) == MOST_LINES


def hostile(tables):
    """The tables with every name in them turned into an attack."""
    names = {row[key] for row in tables["ranking"] for key in ("loader", "tier", "format")}
    attack = {name: f"{name[:2]}{HOSTILE}" for name in names}

    def turned(value):
        if isinstance(value, list):
            return [turned(part) for part in value]
        if isinstance(value, dict):
            return {key: turned(part) for key, part in value.items()}
        return attack.get(value, value) if isinstance(value, str) else value

    return turned(tables)


def test_hostile_names_stay_on_one_line_and_are_text(drawn, measured):
    tables = hostile(measured)
    for name in charts.every():
        figure = drawn(name, tables)
        with io.StringIO() as file:
            figure.savefig(file, format="svg")
            assert "<script" not in file.getvalue(), name
        assert "does not end" not in words(figure), name
