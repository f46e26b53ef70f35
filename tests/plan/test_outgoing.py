"""What is read of storage that charges for it, told before anything runs, and a limit to it."""

import pytest

from scripts.common.errors import UserError
from scripts.common.files import write_json
from scripts.plan.experiment import Plan
from scripts.plan.outgoing import check, outgoing
from tests.support.made_runs import measured


def plan_of(tmp_path, **own):
    far = {"kind": "s3", "endpoint": "https://storage.example", "bucket": "clips", "folder": str(tmp_path / "local")}
    raw = {
        "dataset": "demo",
        "datasets": {"demo": {"source": "synthetic", "clips": 200}},
        "storage": {
            "far": {**far, **own},
            "near": {"kind": "s3", "serve": "seaweedfs", "folder": str(tmp_path / "near")},
            "disk": {"path": str(tmp_path / "tier")},
        },
        "loaders": [{"name": "own", "file": str(tmp_path / "own.py")}],
        "sweep": {"device": ["cpu"], "workers": [0, 2], "task": ["read"], "cache": ["warm"]},
        "measure": {"minutes": 2, "profile_seconds": 1},
    }
    (tmp_path / "own.py").write_text(
        '"""A reader of both."""\nFORMAT = "npy"\nREADS = ("path", "s3")\n\n\ndef open_epochs(request):\n    ...\n'
    )
    return Plan(raw, project=tmp_path)


def test_only_storage_of_ones_own_is_counted_and_priced(tmp_path):
    (found,) = outgoing(plan_of(tmp_path))
    assert found.tier == "far" and found.cost is None
    proofs = 180 * 640_000 * 2
    seconds = 60 * 2 / 3 + 2  # its third of the session, and a profile with two counts of readers
    assert found.gigabytes == pytest.approx((proofs + seconds * 250e6) / 1e9)
    assert found.gets == round(360 + seconds * 250e6 / 640_000)
    (priced,) = outgoing(plan_of(tmp_path, price_per_1000_gets=0.5, price_per_gigabyte=0.1))
    assert priced.cost == pytest.approx(0.5 * found.gets / 1000 + 0.1 * found.gigabytes)
    check([found, priced])


def test_what_was_profiled_and_measured_counts(tmp_path):
    plan = plan_of(tmp_path)
    write_json(tmp_path / "results/placed/demo/far.json", {"fio": {"reads": [{"megabytes_per_second": 10.0}]}})
    (found,) = outgoing(plan)
    assert found.gigabytes == pytest.approx((180 * 640_000 * 2 + 40 * 10e6) / 1e9)
    measured(plan, plan.results)
    (found,) = outgoing(plan_of(tmp_path))
    assert (found.gets, found.gigabytes) == (0, 0)


def test_a_limit_stops_the_plan(tmp_path):
    with pytest.raises(UserError, match=r"storage\.far\.max_gigabytes_out: "):
        check(outgoing(plan_of(tmp_path, max_gigabytes_out=1)))
    check(outgoing(plan_of(tmp_path, max_gigabytes_out=100)))
