"""`feedrate program`: the program behind a result, as the report offers it."""

import pytest

from scripts.common.errors import UserError
from scripts.report import print_program
from scripts.report.snippets import placed_program
from tests.support.made_runs import Made
from tests.support.report_pages import tables_of

SPEEDS = {("ring", "disk"): 90.0, ("ring", "ram"): 95.0, ("npy", "ram"): 9.0}
MADE = [Made(loader, tier, [speed, speed + 1, speed - 1]) for (loader, tier), speed in SPEEDS.items()]


def printed(tmp_path, capsys, *words):
    print_program.main(print_program.parser().parse_args(["--tables", str(tmp_path / "tables"), *words]))
    return capsys.readouterr()


def test_it_is_that_of_the_report_for_the_result_that_is_named(tmp_path, capsys):
    tables = tables_of(tmp_path, MADE)
    rows = {(row["loader"], row["tier"]): row for row in tables["best"]}
    for words, place in ([(), ("ring", "ram")], [("--tier", "disk"), ("ring", "disk")]):
        found = printed(tmp_path, capsys, "--loader", "ring", *words)
        assert found.out == placed_program(rows[place], tables["tiers"])
        assert found.err.startswith(f"ring on {place[1]}, batch 32")


@pytest.mark.parametrize(("words", "found"), [
    (["--loader", "rign"], "--loader: found 'rign', the session has ring, npy. Did you mean 'ring'"),
    (["--loader", "npy", "--tier", "disk"], "--tier: found 'disk', the session has ram."),
])  # fmt: skip
def test_what_the_session_has_not_is_refused(tmp_path, capsys, words, found):
    tables_of(tmp_path, MADE)
    with pytest.raises(UserError, match=found):
        printed(tmp_path, capsys, *words)
