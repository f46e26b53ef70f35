"""Each kind of data has what the contract asks for, with its parameters, and names the pieces of a recording apart."""

import inspect

import pytest

from scripts.common import plugins
from scripts.kinds import _contract

CONTRACT = {name: part for name, part in vars(_contract.Kind).items() if callable(part) and not name.startswith("_")}
NEEDED = {"array": {"shape": [3]}, "image": {"size": [4, 4]}}  # of options that have no default


def parameters(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", plugins.names("kinds"))
def test_a_kind_keeps_the_contract(name):
    module = plugins.load("kinds", name)
    kind = plugins.kind_of(module, NEEDED.get(name, {}))
    assert kind.sample.kind == name
    for method, promised in CONTRACT.items():
        assert len(parameters(getattr(type(kind), method))) == len(parameters(promised)), method
    called = [_contract.part_of(kind, 1.5, number) for number in range(200)]
    assert len(set(called)) == 200 and not [one for one in called if "#" in one]
