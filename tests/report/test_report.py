"""The figures and the report, as a reader meets them."""

import base64
import hashlib
import re
import subprocess

import pytest

from scripts.common.errors import UserError
from scripts.report import charts, draw_figures, names as report_names, render_report
from tests.support.made_runs import Made, example, explained
from tests.support.programs import PROJECT, program_line
from tests.support.report_pages import Page, links, report_of, rows_in, sections, spaced, tables_of

HOSTILE = "<script>alert(1)</script>\"'\n$x$ & {{ 7 * 7 }}"
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The tables of few results, some of which failed or were skipped."""
    made, bounds = example()
    no_gpu = {"loader": "dali_npy", "tier": None, "settings": {"device": "cuda"}, "reason": "no GPU is visible"}
    return tables_of(tmp_path_factory.mktemp("example"), made, bounds, skipped=[no_gpu])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A report in which every text from outside is an attack."""
    warning = dict.fromkeys(("code", "seen", "cause", "hint"), HOSTILE)
    made = [
        Made(HOSTILE, HOSTILE, [5.0, 6.0], warnings=[warning], options={HOSTILE: HOSTILE}),
        *(Made(HOSTILE, HOSTILE, [5.0, 6.0], task=task, au=50.0) for task in ("iterate", "train", "lightning")),
        Made(HOSTILE, HOSTILE, [4.0] * 2, cache="cold", trials=explained(4.0, read=5.0)),
        Made("b", "ram", ["failed"] * 2, problems=[HOSTILE]),
        Made("c", "ram", ["skipped"] * 2, reason=HOSTILE),
    ]
    return report_of(tmp_path_factory.mktemp("hostile"), made)


def picture(name, tables):
    return draw_figures.picture(charts.load(name), tables)


def test_every_figure_is_there_as_svg_and_png_with_its_caption(measured):
    _, figures, _ = measured
    names = {f"{name}.{kind}" for name in charts.every() for kind in ("svg", "png", "rst")}
    assert {path.name for path in figures.iterdir()} == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures.glob("*.png"))


def test_the_axes_say_when_they_are_logarithmic(few):
    label = picture("throughput", few).axes[0].get_xlabel()
    assert "logarithmic" in label  # torchaudio is 370 times below the bound
    fewer = {**few, "best": [row for row in few["best"] if "memmap" in row["loader"]]}
    assert "logarithmic" not in picture("throughput", fewer).axes[0].get_xlabel()


def test_loaders_without_a_speed_are_named_in_the_figure(few):
    axis = picture("throughput", few).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()][-1] == "dali_wav"
    assert {"disk: failed", "ram: skipped", "disk: skipped"} <= {text.get_text() for text in axis.texts}


def test_a_page_and_its_pictures_of_next_to_nothing(tmp_path):
    _, figures, html = report_of(tmp_path, [Made("a", "ram", [1234.0])], drawn=True)
    assert (figures / "throughput.png").stat().st_size > 0
    assert Page(html).open == []


TOP = ["model", "delivers", "goals", "ranking", "why", "large", "costs", "lacking", "trust", "downloads"]
ALWAYS = [
    *("model", "delivers", "goals", "ranking", "why", "figures", "latency", "memory", "large", "tiers", "bounds"),
    *("costs", "conversion", "break-even", "lacking", "trust", "failed", "skipped", "warnings", "dataset", "method"),
    "downloads",
]
WITH_DATA = {"timeline", "bottlenecks", "ladder", "scaling", "training", "seconds", "tensors", "cold", "sizes"}
WITH_DATA |= {"roofline", "noise"}


def test_sections_are_in_order_and_what_was_not_measured_stands_in_one_list(measured, tmp_path):
    bare = report_of(tmp_path, [Made("a", "disk", [1.0])])[2]
    assert [name for name in sections(bare) if name not in WITH_DATA] == ALWAYS
    assert [name for name in sections(measured[2]) if name not in WITH_DATA] == ALWAYS
    assert set(sections(measured[2])) - set(ALWAYS) == WITH_DATA
    for html in (bare, measured[2]):
        assert re.findall(r'<li><a href="#([\w-]+)">', html[html.index("<nav") : html.index("</nav>")]) == TOP


def test_emulated_storage_is_called_so_wherever_it_is_named(measured):
    words = spaced(measured[2])
    other = words.count("/mnt/slow") + words.count("slow: {kind: posix}") + words.count("slow: kind: posix")  # config
    other += words.count("Why is it slow?")
    assert len(re.findall(r"\bslow\b", words)) == words.count("slow (emulated)") + other > 10


def test_trainings_have_a_figure_of_their_own(measured):
    tables, _, _ = measured
    titles = [axis.get_title(loc="left") for axis in picture("throughput", tables).axes]
    assert titles == ["CPU", "CPU, 20 ms step", "CPU, cold cache", "CPU, limited cache", "CPU, plain loop"]
    figure = picture("training", tables)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"2,107", "2,006", "310", "300"} <= set(texts), "each loader by a bare loop and by Lightning"


@pytest.mark.parametrize(("runs", "low", "high"), [(10, 98.5, 101.9), (3, 89.8, 111.2), (1, 105.0, 105.0)])
def test_the_bar_of_a_result_is_its_interval(tmp_path, runs, low, high):
    speeds = [105.0, 97.0, 98.0, 102.0, 100.0, 100.0, 100.0, 98.0, 102.0, 100.0][:runs]
    tables = tables_of(tmp_path, [Made("a", "ram", speeds)])
    bars = [sorted(line.get_xdata()) for line in picture("throughput", tables).axes[0].lines]
    assert any(bar == pytest.approx([low, high], abs=0.06) for bar in bars)


def test_a_result_outside_the_range_of_its_runs_is_drawn(tmp_path):
    """A speed is that of the mean round: of what left in slow rounds it may be above all of its runs."""
    made = [Made("a", "ram", [10.0, 10.0, 10.0, 90.0, 95.0, 99.0], workers=workers) for workers in (0, 2)]
    early = [Made("b", "ram", [8.0, 8.0, 8.0, None, None, None], workers=workers) for workers in (0, 2)]
    tables = tables_of(tmp_path, [*made, *early])
    left = [row for row in tables["ranking"] if row["loader"] == "b"]
    assert all(row["items_per_second"] > row["highest"] for row in left)
    assert picture("scaling", tables).axes


def test_tables_are_readable_without_eyes(measured):
    page = Page(measured[2])
    assert page.open == []
    assert all(attrs.get("scope") for tag, attrs in page.tags if tag == "th")
    assert all(len(attrs.get("alt", "")) > 20 for tag, attrs in page.tags if tag == "img")
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [a for tag, a in page.tags if tag == "a"]
    assert {a["href"][1:] for a in links if "download" not in a} <= set(ids)
    assert all(a["href"].startswith("data:") for a in links if "download" in a)
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= set(ids)


def test_text_from_outside_is_text(hostile):
    _, _, html = hostile
    page = Page(html)
    own = [kind for name, kind, _ in page.scripts if name == "script" and kind is None]
    assert html.count("<script") == len(own) == len(render_report.SCRIPTS)
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert any(HOSTILE in row.values() for row in rows_in(links(html)["throughput.csv"]))


def test_the_report_needs_nothing_from_outside(measured):
    text = measured[2]
    assert text.count("data:image/svg+xml") > 6
    text = re.sub(r"<!DOCTYPE svg PUBLIC [^>]*>", "", text)
    for namespace in NAMESPACES:
        text = text.replace(f"='{namespace}'", "")
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert all(url.startswith(("#", "%23")) for url in re.findall(r"url\(([^)]*)\)", text))


def test_only_the_scripts_of_the_report_may_run(measured):
    page = Page(measured[2])
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    scripts = [text for name, kind, text in page.scripts if name == "script" and kind is None]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = next(part for part in policy.split("; ") if part.startswith("script-src "))
    assert allowed.split()[1:] == [f"'sha256-{one}'" for one in hashes]
    assert "default-src 'none'" in policy


def test_homes_and_user_names_are_left_out(monkeypatch):
    monkeypatch.setattr(report_names.getpass, "getuser", lambda: "alice")
    monkeypatch.setenv("HOME", "/var/lib/dora")
    value = {"a": ["/var/lib/dora/data", "/home/bob/x", "cannot read '/Users/carol/y z'", "/scratch/alice/feedrate"]}
    assert report_names.anonymous(value) == {"a": ["~/data", "~/x", "cannot read '~/y z'", "/scratch/USER/feedrate"]}
    assert report_names.anonymous("/var/lib/doras/home/x 24 items/s alice") == "/var/lib/doras/home/x 24 items/s alice"


def test_a_figure_that_is_not_there_is_named(measured, tmp_path):
    with pytest.raises(UserError, match="feedrate figures"):
        render_report.render(measured[0], tmp_path)


def test_programs_by_hand(measured, tmp_path):
    tables = measured[1].parent / "tables"
    figures, out, light = tmp_path / "figures", tmp_path / "index.html", tmp_path / "light.html"
    for program, arguments in (
        ("draw_figures.py", ["--tables", tables, "--out", figures]),
        ("render_report.py", ["--tables", tables, "--figures", measured[1], "--out", out, "--light", light]),
    ):
        done = subprocess.run([*program_line(program), *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert out.read_text(encoding="utf-8") == measured[2]
    assert light.read_text(encoding="utf-8") == render_report.render(*measured[:2], tables, light_of=str(out))
    for path in measured[1].iterdir():
        assert path.read_bytes() == (tmp_path / "figures" / path.name).read_bytes(), "drawn by several processes"
    done = subprocess.run(
        [*program_line("draw_figures"), "--tables", tmp_path / "none", "--out", tmp_path / "no"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert not (tmp_path / "no").exists()


def test_what_a_program_imports_of_feedrate_lies_in_the_report(tmp_path):
    html = report_of(tmp_path, [Made("ring", "ram", [9.0, 8.0]), Made("numpy_memmap", "ram", [2.0, 1.0])])[2]
    files = links(html)
    content = base64.b64decode(files["ring_reader.py"].split(",")[1])
    assert content == (PROJECT / "scripts" / "loaders" / "_ring" / "ring_reader.py").read_bytes()
    without = links(report_of(tmp_path / "b", [Made("numpy_memmap", "ram", [2.0, 1.0])])[2])
    assert "ring_reader.py" not in without
