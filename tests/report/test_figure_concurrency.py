"""The figure of workers against batch size, drawn from made results."""

import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm

from scripts.report import charts, draw_figures
from tests.support.made_runs import Made
from tests.support.report_pages import tables_of


def grid(loader, tier="ram", speed=100.0, workers=(1, 2), sizes=(32, 64), **more):
    """Results of a loader whose speed in a cell is `speed` times workers, plus the batch size."""
    return [
        Made(loader, tier, [speed * (count or 1) + size] * 3, workers=count, batch_size=size, **more)
        for count in workers
        for size in sizes
    ]


@pytest.fixture
def panels(tmp_path):
    """Draw made results; return the panels as {title: {(workers, batch size): text}}, the note and the figure."""

    def drawn(made):
        with draw_figures.style():
            figure = draw_figures.picture(charts.load("concurrency"), tables_of(tmp_path, made))
        return (
            {axis.get_title(loc="left"): cells(axis) for axis in figure.axes if axis.get_title(loc="left")},
            figure.get_supxlabel(),
            figure,
        )

    yield drawn
    plt.close("all")


def cells(axis):
    workers = [int(label.get_text()) for label in axis.get_xticklabels()]
    sizes = [int(label.get_text()) for label in axis.get_yticklabels()]
    places = {text.get_position(): text.get_text() for text in axis.texts}
    return {
        (count, size): places[column + 0.5, line + 0.5]
        for column, count in enumerate(workers)
        for line, size in enumerate(sizes)
    }


def test_each_cell_has_its_number_and_the_fastest_loader_stands_first(panels):
    found, note, _ = panels([*grid("slow"), *grid("fast", speed=500.0)])
    assert list(found) == ["fast, CPU, ram", "slow, CPU, ram"] and note == ""
    assert found["slow, CPU, ram"] == {(1, 32): "132", (1, 64): "164", (2, 32): "232", (2, 64): "264"}


def test_tiers_and_devices_have_panels_and_what_there_is_no_room_for_is_named(panels):
    made = [*grid("a", "ram"), *grid("a", "disk", speed=50.0), *grid("a", device="cuda", speed=50.0)]
    found, note, _ = panels(
        [*made, *(one for place in range(16) for one in grid(f"b_{place:02d}", speed=9.0 - place / 9))]
    )
    assert list(found)[:2] == ["a, CPU, disk", "a, CPU, ram"] and found["a, CPU, disk"][2, 32] == "132"
    assert "a, CUDA, ram" in found and len(found) == 18
    assert note == "Not drawn here: b_15, CPU, ram."


@pytest.mark.parametrize(("speed", "logarithmic"), [(150.0, False), (9000.0, True)])
def test_speeds_that_span_much_share_a_logarithmic_scale(panels, speed, logarithmic):
    found, _, figure = panels([*grid("a"), *grid("b", speed=speed)])
    assert list(found) == ["b, CPU, ram", "a, CPU, ram"]
    norms = [axis.collections[0].norm for axis in figure.axes[:2]]
    assert norms[0] is norms[1] and isinstance(norms[0], LogNorm) == logarithmic
    assert ("logarithmic" in figure.axes[-1].get_ylabel()) == logarithmic


def test_of_several_results_the_fastest_and_without_a_speed_a_dash(panels):
    made = grid("a", workers=(1, 2, 4))
    made[-1].outcomes = ["failed"] * 3
    made += grid("a", speed=5.0, workers=(1, 2), options={"where": "elsewhere"})
    found, note, _ = panels(made)
    [cells_of_a] = found.values()
    assert cells_of_a[4, 64] == "-" and cells_of_a[4, 32] == "432"
    assert cells_of_a[1, 32] == "132"
    assert note == "-: no verified speed."


@pytest.mark.parametrize(
    "made",
    [
        grid("a", workers=(2,)),
        grid("a", sizes=(32,)),
        grid("a", workers=(None,)),
        grid("a", cache="cold", tier="disk"),
        grid("a", task="iterate"),
        grid("a", step_ms=20),
    ],
    ids=["workers", "sizes", "without workers", "cold", "task", "step"],
)
def test_without_such_results_it_says_what_it_would_need(panels, made):
    found, _, figure = panels(made)
    assert found == {}
    [text] = figure.axes[0].texts
    assert "preset: concurrency" in " ".join(text.get_text().split())
