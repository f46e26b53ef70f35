"""device_prefetch: what the plan makes of it without a GPU, and that with one the batches are the loader's."""

import pytest
import yaml

from scripts.common import plugins
from scripts.machine import device_prefetch
from scripts.measure.verify import Verifier
from scripts.plan.experiment import NO_DEVICE, Plan
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT


def plan(**sweep) -> Plan:
    raw = yaml.safe_load((PROJECT / "config.yaml").read_text())
    return Plan(
        {**raw, "dataset": "demo", "loaders": ["numpy_memmap"], "sweep": {"workers": [0], "cache": ["warm"], **sweep}}
    )


def test_on_a_cpu_it_is_a_row_with_its_reason_and_no_second_run():
    planned = plan(device=["cpu"], device_prefetch=[0, 2])
    assert {run.slug for run in planned.results if run.task == "read"} == {"cpu-b32-w0-gather_batch"}
    lost = [row for row in planned.skipped if "device_prefetch" in row["settings"]]
    assert [(row["settings"]["device_prefetch"], row["reason"]) for row in lost] == [(2, NO_DEVICE)]


def test_on_a_gpu_each_value_is_a_run_of_its_own(monkeypatch):
    monkeypatch.setattr(Plan, "has_gpu", True)
    planned = plan(device=["cuda"], device_prefetch=[0, 1, 3])
    slugs = [slug.split("-gather")[0] for slug in dict.fromkeys(run.slug for run in planned.results)]
    assert slugs[:3] == ["cuda-b32-w0-pin", "cuda-b32-w0-pin-d1", "cuda-b32-w0-pin-d3"]
    assert not [row for row in planned.skipped if "device_prefetch" in row["settings"]]


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ahead")
    corpus = make_corpus(folder / "corpus", items=45, seconds=0.1)
    write_format(corpus, "memmap", folder / "memmap", readers=1)
    return corpus, folder / "memmap"


@pytest.mark.parametrize("loader", ["numpy_memmap", "ring"])
def test_on_a_cpu_the_loader_is_as_without(scene, loader):
    corpus, folder = scene
    module = plugins.load("loaders", loader)
    with device_prefetch.open_epochs(module, request_for(corpus, loader, folder, device_prefetch=2)) as epoch:
        verifier = Verifier(corpus, "train", 8, 1)
        assert all(verifier.check(batch) for batch in epoch(0))
