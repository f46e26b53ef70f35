"""Results of one ranking that were measured by different code are said to be, in the tables and on the page."""

from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.tables import make_tables, mixed
from scripts.tables.columns import read_tables
from tests.support.made_runs import Made, make_results, record_path
from tests.support.report_pages import rendered, spaced


def row(loader: str, code: str | None, status: str = "ok") -> dict:
    return {"loader": loader, "code": code, "status": status}


def seen(*rows: dict) -> list[tuple[str, str]]:
    return [(one["loader"], one["seen"]) for one in mixed.warning_rows(rows)]


def test_one_version_and_records_without_one_are_no_warning():
    assert seen() == []
    assert seen(row("a", "s-1"), row("a", "s-1"), row("b", "s-2"), row("c", None)) == []
    assert seen(row("a", "s-1"), row("a", "t-2", "failed")) == [], "a failed run is in no ranking"


def test_what_every_run_goes_through_and_a_loaders_own_code_are_told_apart():
    [(loader, text)] = seen(row("a", "s-1"), row("b", "t-2"), row("b", "t-2"))
    assert (loader, text) == ("", "the runs went through 2 versions of the code that times every loader")
    [(loader, text)] = seen(row("a", "s-1"), row("a", "s-2"), row("a", "s-3"), row("b", "s-1"))
    assert (loader, text) == ("a", "its runs were made by 3 versions of the loader's code")


def test_the_page_says_it_on_its_first_screen(tmp_path):
    path = make_results(tmp_path, [Made("a", "ram", [9.0, 8.0, 7.0]), Made("b", "ram", [5.0, 4.0, 3.0])])
    plan = read_plan(path)
    for entry in plan["results"]:
        for block in range(3):
            file = record_path(tmp_path, entry).with_name(f"{block}.json")
            version = "s-2" if (entry["loader"], block) == ("a", 2) else "s-1"
            write_json(file, {**read_json(file), "code": version})
    make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
    [warning] = [one for one in read_tables(tmp_path / "tables")["warnings"] if one["code"] == "mixed-code"]
    assert warning["loader"] == "a" and "snakemake results/a.json --forcerun prove_loader" in warning["hint"]
    first = rendered(tmp_path, path)[2].partition('<h2 id="goals"')[0]
    assert "Confidence D : a: its runs were made by 2 versions of the loader's code, and one ranking puts" in spaced(
        first
    )
