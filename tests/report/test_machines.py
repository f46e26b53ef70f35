"""Several machines in one report: what stands beside what, what is said of differences, and what is refused."""

import shutil

import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json
from scripts.report import charts, draw_figures, render_report, terminal
from scripts.report.charts._print import MOST_LINES
from scripts.report.machines import compared, loader_rows, machines, numbered
from scripts.report.others import with_others
from scripts.tables.columns import read_tables
from tests.support import browser
from tests.support.made_runs import Made, explained, session
from tests.support.report_pages import blank_pictures, section, sections, tables_of

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995)
HERE = {"alpha": 1000.0, "beta": 500.0, "gamma": 100.0}
THERE = {"alpha": 800.0, "beta": 1600.0, "delta": 50.0}
ATTACK = "<script>alert(1)</script>\"'"
NAMES = (ATTACK, "\N{RIGHT-TO-LEFT OVERRIDE}\u05de\u05db\u05d5\u05e0\u05d4 12", "n" * 300)


def measured(root, speeds, tier="ram", **more):
    """Write the tables of a machine, and return their folder."""
    made = [
        Made(name, tier, ["failed"] * 5 if speed is None else [speed * factor for factor in NOISE], **more)
        for name, speed in speeds.items()
    ]
    tables_of(root, made)
    return root / "tables"


def changed(folder, name, change):
    """Change a JSON file beside tables by a function."""
    found = read_json(folder / f"{name}.json")
    change(found)
    write_json(folder / f"{name}.json", found)


def as_cpu(folder, cpu):
    """Make tables those of a machine with this processor, 8 cores and 64 GB."""
    changed(folder, "host", lambda host: host["hosts"][0]["host"].update(cpu=cpu, cores_allowed=8))


def asking(folder, given):
    """Return the tables of a folder whose config names other machines."""
    changed(folder, "dataset", lambda dataset: dataset["report"].update(machines=given))
    return read_tables(folder)


@pytest.fixture
def here(tmp_path):
    """The folder of this machine's tables."""
    folder = measured(tmp_path / "here", HERE)
    as_cpu(folder, "Here CPU")
    return folder


@pytest.fixture
def there(tmp_path):
    """That of another machine, with a loader that this one lacks and without one that it has."""
    folder = measured(tmp_path / "there", THERE, tier="nvme", trials=explained(800.0, read=5000.0))
    as_cpu(folder, "There CPU")
    return folder


def page_of(root, tables):
    """Return the report as HTML."""
    blank_pictures(root / "figures")
    return render_report.render(tables, root / "figures")


def test_each_loader_stands_with_its_best_result_on_each_machine(here, there):
    tables = with_others(asking(here, [str(there)]))
    assert [one.name for one in machines(tables)] == ["Here CPU, 8 cores, 64.0 GB", "There CPU, 8 cores, 64.0 GB"]
    rows = {row["loader"]: row["cells"] for row in loader_rows(machines(tables))}
    assert list(rows) == ["alpha", "beta", "gamma", "delta"], "the fastest here first, then what only others have"
    speeds = {name: [cell and round(cell["items_per_second"]) for cell in cells] for name, cells in rows.items()}
    assert speeds == {"alpha": [1000, 800], "beta": [500, 1600], "gamma": [100, None], "delta": [None, 50]}
    assert [one["fastest"]["loader"] for one in compared(tables)["machines"]] == ["alpha", "beta"]


def test_only_scenarios_that_two_machines_share_are_compared(tmp_path, here):
    made = [Made("alpha", "ram", [300.0] * 3, cache="cold"), Made("beta", "ram", [70.0] * 3)]
    tables_of(tmp_path / "cold", made)
    found = compared(with_others(asking(here, [str(tmp_path / "cold" / "tables")])))
    assert found["scenarios"] == ["CPU"] == [found["scenario"]]
    cold = measured(tmp_path / "colder", {"alpha": 1.0}, cache="cold")
    found = compared(with_others(asking(here, [str(cold)])))
    assert found["rows"] == [] and [one["fastest"] for one in found["machines"]] == [None, None]
    assert "machines" in sections(page_of(tmp_path, read_tables(here)))


def test_equal_machines_get_a_number_and_names_of_the_config_stay(tmp_path, here, there):
    third = measured(tmp_path / "third", {"alpha": 3.0})
    as_cpu(third, "There CPU")
    unnamed = with_others(asking(here, [str(there), str(third)]))
    about = "There CPU, 8 cores, 64.0 GB"
    assert [one.name for one in machines(unnamed)][1:] == [f"{about} (1)", f"{about} (2)"]
    named = with_others(asking(here, {"lab": str(there), "Here CPU, 8 cores, 64.0 GB": str(third)}))
    assert [one.name for one in machines(named)] == [
        *("Here CPU, 8 cores, 64.0 GB (1)", "lab", "Here CPU, 8 cores, 64.0 GB (2)")
    ]
    assert machines(named)[1].about == about
    assert numbered("abca") == ["a (1)", "b", "c", "a (2)"]


def notes(here, there):
    return compared(with_others(asking(here, [str(there)])))["machines"][1]["notes"]


def test_what_differs_beside_the_machine_is_said(tmp_path, here, there):
    assert notes(here, there) == []
    changed(there, "dataset", lambda dataset: dataset["corpus"].update(ids_hash="0"))
    changed(there, "host", lambda host: host["commits"][0].update(commit="ba9876543210"))
    assert ["ba9876543210" in note for note in notes(here, there)] == [False, True]
    other = measured(tmp_path / "other", {"alpha": 1.0}, batch_size=64)
    changed(other, "dataset", lambda dataset: dataset["corpus"]["items"].update(train=400))
    changed(other, "dataset", lambda dataset: dataset["report"].update(step_ms=15))
    changed(other, "host", lambda host: host["versions"].update(torch=["2.10.0", "2.9.0"], more=["1"]))
    seen = (("400", "461"), ("64", "32"), ("15 ms", "20 ms"), ("2.10.0", "2.9.0", "2.11.0"))
    assert all(part in note for note, parts in zip(notes(here, other), seen, strict=True) for part in parts)


def test_another_protocol_is_refused_with_both_numbers_whatever_its_columns(here, there):
    changed(there, "host", lambda host: host.update(protocols=[2, 3]))
    (there / "ranking.csv").write_text("of,old\n")
    tables = asking(here, [str(there)])
    for use in (with_others, terminal.machines_lines, lambda one: draw_figures.draw(one, here / "figures")):
        with pytest.raises(UserError, match=r"report.machines: .*there/tables: .* 2 and 3, .* 1: "):
            use(tables)
    changed(there, "host", lambda host: host.update(protocols=[1]))
    with pytest.raises(UserError, match=r"report.machines: .*there/tables: "):
        with_others(tables)


def test_items_of_another_length_are_refused(here, there):
    changed(there, "dataset", lambda dataset: dataset["corpus"].update(seconds=5))
    with pytest.raises(UserError, match=r" 5 s at 16000 Hz, .* 10 s at 16000 Hz"):
        with_others(asking(here, [str(there)]))


def test_a_machine_that_is_there_twice_is_refused(tmp_path, here, there):
    with pytest.raises(UserError, match=r"report.machines.*there/tables"):
        with_others(asking(here, [str(there), f"{there}/../tables"]))
    shutil.copytree(there, tmp_path / "copy")
    with pytest.raises(UserError, match=rf"copy: .*{there}"):
        with_others(asking(here, {"a": str(there), "b": str(tmp_path / "copy")}))
    shutil.copytree(here, tmp_path / "self")
    with pytest.raises(UserError, match=r"report\.machines"):
        with_others(asking(here, [str(tmp_path / "self")]))


def test_only_where_the_config_names_machines_the_page_and_the_terminal_say_them(tmp_path, here, there):
    assert terminal.machines_lines(read_tables(here)) == []
    alone = page_of(tmp_path, read_tables(here))
    assert "machines" not in sections(alone)
    tables = asking(here, {f"lab{ATTACK}\x1b[31m": str(there)})
    lines = terminal.machines_lines(tables)
    assert all(line.isprintable() for line in lines) and sum("there" in line or "lab" in line for line in lines) == 1


def test_odd_names_are_text(tmp_path, here):
    folders = {}
    for number, name in enumerate(NAMES):
        speeds = {"alpha": 10.0 + number, ATTACK: 5.0 + number, NAMES[1]: 3.0, "l" * 90: 2.0}
        folders[name] = str(measured(tmp_path / str(number), speeds, tier=(ATTACK, NAMES[1], "t" * 90)[number]))
    tables = asking(here, folders)
    html = page_of(tmp_path, tables)
    assert html.count("<script") == 3
    shown = [name.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\N{REPLACEMENT CHARACTER}") for name in NAMES]
    assert [name for name in shown if name not in section(html, "machines")] == []
    assert all(len(line) <= terminal.WIDTH for line in terminal.machines_lines(tables))


# The chart


@pytest.fixture
def chart():
    """Draw the rows of the chart."""
    with draw_figures.style():
        yield lambda tables: draw_figures.picture(charts.load("machines"), tables)
        plt.close("all")


def words(figure):
    return " ".join(text.get_text() for text in figure.findobj(Text))


def test_the_chart_has_the_loaders_that_stand_on_two_machines(chart, here, there):
    tables = with_others(asking(here, {"lab": str(there)}))
    rows = charts.load("machines").rows(tables)
    assert [(row["loader"], row["machine_number"], row["tier"]) for row in rows] == [
        *(("alpha", 0, "ram"), ("alpha", 1, "nvme"), ("beta", 0, "ram"), ("beta", 1, "nvme"))
    ]
    assert all(row["interval_low"] < row["items_per_second"] < row["interval_high"] for row in rows)
    figure = chart(tables)
    assert "1,000 ram" in words(figure) and "1,600 nvme" in words(figure) and "gamma" not in words(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Here CPU, 8 cores, 64.0 GB", "lab"]


def test_of_many_machines_and_long_names_the_chart_keeps_what_fits(chart, tmp_path, here):
    long = {"x" * 99 + str(number): measured(tmp_path / str(number), {"alpha": 9.0 + number}) for number in range(9)}
    figure = chart(with_others(asking(here, {name: str(folder) for name, folder in long.items()})))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(labels) == len(set(labels)) == MOST_LINES
    width, height = figure.get_size_inches()
    box = figure.get_tightbbox()
    assert min(box.x0, box.y0) >= 0 and box.x1 <= width and box.y1 <= height


# In a browser


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """The report of an experiment in which everything there is was measured, beside two other machines."""
    browser.program()
    root = tmp_path_factory.mktemp("machines")
    folder = root / "tables"
    tables_of(root, **session(3))
    slower = session(3)
    for one in slower["made"]:
        one.outcomes = [speed / 2 for speed in one.outcomes]
    tables_of(root / "slower", **slower)
    as_cpu(root / "slower" / "tables", "Slow CPU")
    odd = measured(root / "odd", {"torchaudio": 900.0, ATTACK: 5.0}, tier=NAMES[1])
    tables = asking(folder, {NAMES[2]: str(root / "slower" / "tables"), ATTACK: str(odd)})
    path = root / "index.html"
    path.write_text(page_of(root, tables), encoding="utf-8")
    return path


def heads(page):
    return page.locator("#across thead th:visible").count()


def test_machines_and_scenarios_are_chosen_by_keyboard(visit, page_file):
    page = visit(page_file, 1280).page
    summary = page.get_by_text("Each loader on each machine")
    summary.press("Enter")
    rows = page.locator("#across tbody tr:visible")
    assert heads(page) == 4 and rows.count() > 4
    page.get_by_label("Scenario", exact=True).select_option("CPU")
    assert rows.count() == 5
    for box in ("#across-0", "#across-1"):
        page.locator(box).press("Space")
    assert heads(page) == 2 and rows.count() == 2, "what the machine that is left has measured"
    assert page.inner_text("#across-count").startswith("2 of ")
    page.locator("form[data-filters=across] button").press("Enter")
    page.wait_for_function("() => document.querySelectorAll('#across [hidden]').length === 0")
    assert heads(page) == 4
    page.locator("#across thead th").last.locator("button").press("Enter")
    assert "ascending" in page.inner_text("#announcer")


def test_without_scripts_every_machine_is_shown(visit, page_file):
    page = visit(page_file, 1280, java_script_enabled=False).page
    page.get_by_text("Each loader on each machine").click()
    assert heads(page) == 4 and not page.locator("form[data-filters=across]").is_visible()
    assert page.locator("#figure-machines img").is_visible()


def test_the_page_stays_short_and_small_and_nothing_stands_in_the_way_of_any_reader(visit, page_file):
    assert page_file.stat().st_size < 2_000_000
    there = visit(page_file, 1440, bypass_csp=True)
    page = there.page
    assert len(page.inner_text("body").split()) <= 3000
    assert page.evaluate("document.documentElement.scrollHeight") <= 8000
    there.unfold()
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 1000})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert there.barriers() == []
